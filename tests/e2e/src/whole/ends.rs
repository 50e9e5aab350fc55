//! Groups and namespaces are deleted at the worst moment.

use lockstep_tests_support::time::{pause, wait_until};
use serde_json::{Value, json};

use crate::{
    api::{holds, paths},
    group::{Group, LOOK_EVERY, PATIENCE, Setting, restarts},
    plan::Plan,
    site::{BROKER, SYSTEM, Site},
    world::{QUEUES, World},
};

/// A group that is deleted in the middle of a rollout takes all its children with it, and leaves no lock and nothing
/// half done: made again, it goes on where it was.
pub(super) fn group_deleted(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "group-deleted");
    let mut setting = Setting::default();
    world.apply(&setting);
    world.await_settled(PATIENCE);
    world.publish_on();
    world.await_more_done(200);
    setting.version = 2;
    world.apply(&setting);
    wait_until("the rollout is under way", PATIENCE, || {
        pause(LOOK_EVERY);
        world.pods().iter().any(|pod| pod["metadata"]["annotations"]["version"] == "2")
    });
    site.api.delete(&world.group_path(), &json!({"propagationPolicy": "Background"}));
    wait_until("all children are gone", PATIENCE, || {
        pause(LOOK_EVERY);
        children(&world) == 0
    });
    for queue in 0..QUEUES {
        assert!(
            site.mq.lock(&world.broker_group, "tests", &world.topic, BROKER, queue),
            "queue {queue} is still locked"
        );
        site.mq.unlock(&world.broker_group, "tests", &world.topic, BROKER, queue);
    }
    world.apply(&setting);
    world.await_settled(PATIENCE);
    world.await_more_done(200);
    format!("{}", world.judge())
}

/// All that the operator makes for groups, and their pods.
pub(super) fn children(group: &Group<'_>) -> usize {
    let namespace = &group.namespace;
    let ours = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dlockstep-operator";
    let budgets = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
    let kinds = [
        paths::deployments(namespace),
        budgets,
        paths::core(namespace, "configmaps"),
        paths::core(namespace, "pods"),
    ];
    kinds.iter().map(|kind| group.site.api.list(&format!("{kind}?{ours}")).len()).sum()
}

/// A namespace that ends while something holds its group back: pods drain, nothing is made anew, the operator bears
/// it, and another group is served meanwhile.
pub(super) fn namespace_terminating(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "terminating");
    let finalizer = |finalizers: Value| {
        site.api.merge(&world.group_path(), &json!({"metadata": {"finalizers": finalizers}}));
    };
    world.apply(&Setting { replicas: 1, ..Setting::default() });
    world.await_settled(PATIENCE);
    world.publish(10);
    world.await_end();
    let before = operators(site);
    finalizer(json!(["tests.example.com/held"]));
    site.api.delete("/api/v1/namespaces/terminating", &json!({}));
    wait_until("all children are gone", PATIENCE, || {
        pause(LOOK_EVERY);
        children(&world) == 0
    });
    // A namespace deletes its kinds in any order, so the group's turn may come after that of its children.
    site.api.await_object(&world.group_path(), "the group is being deleted, and held", PATIENCE, |group| {
        !group["metadata"]["deletionTimestamp"].is_null()
    });
    // The operator has something to do for the dying group, and goes on with others.
    site.api.merge(&world.group_path(), &json!({"spec": {"replicas": 2}}));
    let other = World::new(site, "not-terminating");
    other.apply(&Setting { replicas: 0, ..Setting::default() });
    site.api.await_object(&other.group_path(), "another group is served", PATIENCE, |group| {
        holds(group, "Ready", "True") && holds(group, "Reconciling", "False")
    });
    assert_eq!(children(&world), 0, "children were made in a dying namespace");
    finalizer(Value::Null);
    wait_until("the namespace is gone", PATIENCE, || {
        pause(LOOK_EVERY);
        site.api.get("/api/v1/namespaces/terminating").is_none()
    });
    assert_eq!(operators(site), before, "an operator was restarted");
    format!("{}", world.judge())
}

/// The operators' pods, and how often each was restarted.
fn operators(site: &Site) -> Vec<(String, u64)> {
    let mut all: Vec<_> = site
        .api
        .list(&paths::core(SYSTEM, "pods"))
        .iter()
        .map(|pod| (pod["metadata"]["name"].to_string(), restarts(pod)))
        .collect();
    all.sort();
    all
}
