//! How a pod ends: no container before its work is done.

use std::{collections::BTreeSet, time::Duration};

use lockstep_contract::names::{SIDECAR_CONTAINER, admin};
use lockstep_history::{Event, Outcome};
use lockstep_tests_support::time::wait_until;
use serde_json::Value;

use crate::{
    group::{PATIENCE, Setting},
    plan::Plan,
    site::Site,
    world::World,
};

/// Work takes half a second, so that requests run when a pod is told to end.
const SLOW: &str = "answer 200 delay=500000";

/// The last answer comes before the application's SIGTERM, and that before the sidecar's end.
pub(super) fn termination_order(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "termination");
    world.apply(&Setting { replicas: 1, rules: SLOW.to_owned(), ..Setting::default() });
    order_of_ends(&mut world)
}

/// A pod of several parents: an init container that ends, a sidecar of the user's, and three containers of which one
/// has a shutdown hook of its own. All of it is kept, the hook is reported, and the order of ends holds.
pub(super) fn own_containers(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "own-containers");
    let rights = "securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, \
                  capabilities: {drop: [ALL]}}";
    let beside = |name: &str, port: u16, more: &str| {
        format!(
            "      - name: {name}\n        image: localhost/lockstep-test-app:test\n        \
             env: [{{name: PORT, value: \"{port}\"}}]\n        {rights}\n{more}"
        )
    };
    let hook = "        lifecycle: {preStop: {httpGet: {path: /bye, port: 8082}}}\n";
    let container = [
        beside("plain", 8081, ""),
        beside("hooked", 8082, hook),
        "      initContainers:\n".to_owned(),
        format!(
            "      - name: once\n        image: localhost/lockstep-sidecar:test\n        \
             args: [--version]\n        {rights}\n"
        ),
        beside("proxy", 8083, "        restartPolicy: Always\n"),
    ];
    let setting =
        Setting { replicas: 1, rules: SLOW.to_owned(), container: container.concat(), ..Setting::default() };
    world.apply(&setting);
    let settled = world.await_settled(PATIENCE);
    let pod = world.pods().swap_remove(0);
    let names = |list: &str| -> Vec<String> {
        let list = pod["spec"][list].as_array().unwrap();
        list.iter().map(|container| container["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("initContainers"), ["once", "proxy", SIDECAR_CONTAINER]);
    assert_eq!(names("containers"), ["app", "plain", "hooked"]);
    let ours = format!("{}/{}", admin::WAIT_FOR_DRAIN, settled["metadata"]["uid"].as_str().unwrap());
    let hooks: Vec<&Value> = pod["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| &container["lifecycle"]["preStop"]["httpGet"]["path"])
        .collect();
    assert_eq!(hooks, [ours.as_str(), &ours, "/bye"]);
    let events = format!("/api/v1/namespaces/{}/events", world.namespace);
    wait_until("the hook is reported", PATIENCE, || {
        let told = |event: &Value| {
            event["reason"] == "OwnPreStopHook"
                && event["message"].as_str().is_some_and(|text| text.contains("hooked"))
        };
        site.api.list(&events).iter().any(told)
    });
    order_of_ends(&mut world)
}

/// Deletes the only pod while requests run, and judges the order in which its parts ended.
fn order_of_ends(world: &mut World<'_>) -> String {
    let site = world.site;
    world.await_settled(PATIENCE);
    world.publish(20);
    world.await_more_done(8);
    let pod = world.pods().swap_remove(0);
    let name = pod["metadata"]["name"].as_str().unwrap();
    let follow =
        ["--namespace", &world.namespace, "logs", "--follow", "--timestamps", name, "--container=lockstep"];
    let (mut logs, file) = site.cluster.follow(&world.namespace, &follow);
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
    let mut ours = BTreeSet::new();
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
