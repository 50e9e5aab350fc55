//! Pods come and go under load: nothing is lost, reordered, repeated or charged.

use http::Method;
use lockstep_tests_support::http::call;
use serde_json::{Value, json};

use crate::{
    api::paths,
    group::{GROUP, PATIENCE, Setting, Steps},
    plan::Plan,
    site::Site,
    world::World,
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
    world.assert_not_charged(what);
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
