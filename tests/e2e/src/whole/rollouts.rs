//! Pods come and go under load: nothing is lost, reordered, repeated or charged.

use std::time::Duration;

use http::Method;
use lockstep_history::{Event, Outcome};
use lockstep_tests_support::{http::call, time::wait_until};
use serde_json::{Value, json};

use crate::{
    api::paths,
    plan::Plan,
    site::Site,
    world::{GROUP, PATIENCE, Setting, Steps, World},
};

/// Messages that must get through between two changes.
const BETWEEN: usize = 300;

/// A new image, scaling, a restart, evictions and a restart of the application by its liveness probe.
pub(super) fn under_load(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "rollouts");
    let probe = "        livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, timeoutSeconds: 5, \
                 failureThreshold: 3}\n";
    let spec = "  delivery: {healthCheck: {path: /healthz, periodSeconds: 1}}\n".to_owned();
    let mut setting = Setting { container: probe.to_owned(), spec, ..Setting::default() };
    world.apply(&setting);
    world.await_settled(PATIENCE);
    world.publish_on();
    world.await_more_done(BETWEEN);

    let mut took = Steps::default();
    setting.version = 2;
    world.apply(&setting);
    settle(&world, "a new template");
    took.note("template");
    for replicas in [5, 1, 3] {
        world.kubectl(&["scale", "cgrp", GROUP, &format!("--replicas={replicas}")]);
        settle(&world, &format!("{replicas} replicas"));
    }
    took.note("scale");
    world.kubectl(&["rollout", "restart", &format!("deployment/{GROUP}")]);
    settle(&world, "a rollout restart");
    took.note("restart");
    for pod in world.pods() {
        evict(&world, &pod);
        settle(&world, "an eviction");
    }
    took.note("evictions");
    let pod = world.pods().swap_remove(0);
    fail_liveness(&world, &pod);
    settle(&world, "a restart by the liveness probe");
    took.note("liveness");
    format!("{}; {}", took, world.judge())
}

/// Waits until the change is through and messages flow again.
fn settle(world: &World<'_>, what: &str) {
    world.await_settled(PATIENCE);
    world.await_more_done(BETWEEN);
    let charged = world.pods().iter().find_map(|pod| {
        let status = world.sidecar_status(pod);
        let failed = status["counters"]["failedAttempts"].as_u64().unwrap_or(0);
        (failed > 0).then_some(status)
    });
    assert!(charged.is_none(), "{what} was charged: {charged:#?}");
}

/// Evicts a pod as a drain of its node does: the disruption budget may ask for patience.
fn evict(world: &World<'_>, pod: &Value) {
    let name = &pod["metadata"]["name"];
    let path = format!("{}/{}/eviction", paths::core(&world.namespace, "pods"), name.as_str().unwrap());
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    world.site.api.await_value("the pod may be evicted", PATIENCE, |api| {
        match api.request(Method::POST, &path, Some(&eviction)) {
            Ok(_) => Some(()),
            Err(refusal) if refusal.code == 429 => None,
            Err(refusal) => panic!("{refusal:?}"),
        }
    });
}

/// Makes the application fail its liveness probe, and waits until its container was restarted.
fn fail_liveness(world: &World<'_>, pod: &Value) {
    let name = pod["metadata"]["name"].as_str().unwrap();
    let address = format!("{}:8080", pod["status"]["podIP"].as_str().unwrap());
    let answer = call(&address, "PUT", "/health", b"503").unwrap();
    assert_eq!(answer.0, 200);
    let path = format!("{}/{name}", paths::core(&world.namespace, "pods"));
    world.site.api.await_object(&path, "the application was restarted", PATIENCE, |pod| {
        let containers = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        containers.iter().any(|container| {
            let restarted = container["restartCount"].as_u64() >= Some(1);
            container["name"] == "app" && restarted && container["ready"] == true
        })
    });
}

/// The last answer comes before the application's SIGTERM, and that before the sidecar's end.
pub(super) fn termination_order(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "termination");
    // Work takes half a second, so that requests run when the pod is told to end.
    let rules = "answer 200 delay=500000".to_owned();
    world.apply(&Setting { replicas: 1, rules, ..Setting::default() });
    world.await_settled(PATIENCE);
    world.publish(20);
    world.await_more_done(8);
    let pod = world.pods().swap_remove(0);
    let name = pod["metadata"]["name"].as_str().unwrap();
    let follow =
        ["--namespace", &world.namespace, "logs", "--follow", "--timestamps", name, "--container=lockstep"];
    let (mut logs, file) = site.cluster.follow("termination", &follow);
    wait_until("the sidecar's log is followed", PATIENCE, || !logs.output().is_empty());
    world.kubectl(&["delete", "pod", name, "--wait=true"]);
    logs.wait(Duration::from_secs(30));
    let log = std::fs::read_to_string(file).unwrap();
    let last = log.lines().last().unwrap_or_default();
    let sidecar_end = micros(last.split(' ').next().unwrap_or_default());
    let marks = site.collector.marks(name);
    let mark = |what: &str| marks.iter().find(|mark| mark.what == what).map(|mark| mark.at);
    let (Some(terminated), Some(ended)) = (mark("terminated"), mark("ends")) else {
        panic!("the application was not told to end: {marks:?}");
    };
    let history = site.collector.history(&world.topic);
    let mut ours = std::collections::BTreeSet::new();
    let mut last_answer = 0;
    for event in history.events() {
        match event {
            Event::Start { post, consumer, .. } if **consumer == *name => {
                ours.insert(post.clone());
            }
            Event::End { post, at, outcome } if ours.contains(post) => {
                assert_ne!(*outcome, Outcome::Broken, "{post} was broken off");
                last_answer = last_answer.max(*at);
            }
            Event::Start { .. }
            | Event::End { .. }
            | Event::Published { .. }
            | Event::Commit { .. }
            | Event::Final { .. }
            | Event::Fault { .. } => {}
        }
    }
    assert!(last_answer > 0, "the pod delivered nothing");
    assert!(last_answer < terminated, "an answer at {last_answer} came after SIGTERM at {terminated}");
    assert!(
        ended < sidecar_end,
        "the application ended at {ended}, the sidecar's last word was at {sidecar_end}: {last}"
    );
    wait_until("the other pod goes on", PATIENCE, || !world.pods().is_empty());
    format!(
        "SIGTERM {} ms after the last answer, the sidecar's end {} ms after the application's; {}",
        (terminated - last_answer) / 1_000,
        (sidecar_end - ended) / 1_000,
        world.judge()
    )
}

/// A timestamp of RFC 3339 with a `Z`, in microseconds since 1970.
fn micros(text: &str) -> u64 {
    let time: jiff::Timestamp = text.parse().unwrap_or_else(|error| panic!("no timestamp: {text}: {error}"));
    u64::try_from(time.as_microsecond()).unwrap()
}
