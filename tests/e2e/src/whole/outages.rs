//! Parts of the whole go away: the operator, the broker, an application's health.

use lockstep_tests_support::{
    http::call,
    time::{now_micros, pause, wait_until},
};
use serde_json::{Value, json};

use crate::{
    api::{holds, paths},
    group::{GROUP, LOOK_EVERY, PATIENCE, Setting, restarts},
    plan::Plan,
    site::{BROKER, SYSTEM, Site},
    world::World,
};

/// What an outage of the broker may cost in duplicates in a queue, as documented for `PerQueue`.
const BOUND: u64 = 32;

/// All operators are killed at each step of a rollout: it ends as if nothing had happened.
pub(super) fn operator_killed(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "operator-killed");
    let mut setting = Setting::default();
    world.apply(&setting);
    world.await_settled(PATIENCE);
    world.publish_on();
    world.await_more_done(200);
    setting.version = 2;
    world.apply(&setting);
    let deployment = format!("{}/{GROUP}", paths::deployments(&world.namespace));
    let mut kills = 0;
    let mut last = Value::Null;
    wait_until("the rollout is complete", PATIENCE * 2, || {
        pause(LOOK_EVERY);
        let pods: Vec<Value> = world.all_pods();
        let step = |pod: &Value| {
            json!([pod["metadata"]["name"], pod["metadata"]["deletionTimestamp"].is_null(), ready(pod)])
        };
        let now: Value = pods.iter().map(step).collect();
        if now != last {
            last = now;
            kills += 1;
            kill_operators(site);
        }
        let status = site.api.get(&deployment).unwrap_or_default()["status"].clone();
        status["updatedReplicas"] == 3
            && status["readyReplicas"] == 3
            && status["replicas"] == 3
            && new_version(&pods)
    });
    world.await_settled(PATIENCE);
    world.await_more_done(200);
    format!("{kills} kills; {}", world.judge())
}

fn ready(pod: &Value) -> bool {
    holds(pod, "Ready", "True")
}

fn new_version(pods: &[Value]) -> bool {
    pods.iter().all(|pod| pod["metadata"]["annotations"]["version"] == "2")
}

fn kill_operators(site: &Site) {
    let namespace = ["--namespace", SYSTEM];
    let pods = site.cluster.kubectl(&[&namespace[..], &["get", "pods", "--output=name"]].concat());
    let pods: Vec<&str> = pods.lines().collect();
    if !pods.is_empty() {
        let delete = ["delete", "--force", "--grace-period=0", "--wait=false", "--ignore-not-found"];
        site.cluster.kubectl(&[&namespace[..], &delete, &pods].concat());
    }
}

/// The broker does not answer for a while: the group says so, no pod restarts or becomes unready, and all goes on
/// afterwards by itself.
pub(super) fn broker_away(site: &Site, plan: &Plan) -> String {
    let mut world = World::new(site, "broker-away");
    world.apply(&Setting::default());
    world.await_settled(PATIENCE);
    world.publish_on();
    world.await_more_done(200);
    world.stop_publishing();
    let before: Vec<_> = world.pods().iter().map(restarts).collect();
    world.fault("a frozen broker", BOUND, 1);
    site.servers.freeze(BROKER);
    site.api.await_object(&world.group_path(), "the source is not connected", PATIENCE, |group| {
        holds(group, "SourceConnected", "False")
    });
    let since = now_micros();
    wait_until("the broker was away for a while", plan.outage * 2, || {
        pause(LOOK_EVERY);
        let pods = world.pods();
        assert!(pods.len() == 3 && pods.iter().all(ready), "a pod became unready:\n{}", world.summary());
        now_micros() - since > u64::try_from(plan.outage.as_micros()).unwrap()
    });
    site.servers.thaw(BROKER);
    site.api.await_object(&world.group_path(), "the source is connected again", PATIENCE, |group| {
        holds(group, "SourceConnected", "True")
    });
    let after: Vec<_> = world.pods().iter().map(restarts).collect();
    assert_eq!(before, after, "a container was restarted");
    world.publish_on();
    world.await_more_done(200);
    format!("{}", world.judge())
}

/// An application that stays unhealthy gives its queues to the other pods, and takes some again when it is healthy.
pub(super) fn unhealthy_application(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "unhealthy");
    let check = "healthCheck: {path: /healthz, periodSeconds: 1, failureThreshold: 2, handOverSeconds: 3}";
    world.apply(&Setting { spec: format!("  delivery: {{{check}}}\n"), ..Setting::default() });
    world.await_settled(PATIENCE);
    world.publish_on();
    world.await_more_done(200);
    let pod = world.pods().swap_remove(0);
    let address = format!("{}:8080", pod["status"]["podIP"].as_str().unwrap());
    let health =
        |status: &str| assert_eq!(call(&address, "PUT", "/health", status.as_bytes()).unwrap().0, 200);
    health("503");
    wait_until("the queues were handed over", PATIENCE, || {
        pause(LOOK_EVERY);
        world.sidecar_status(&pod)["phase"] == "HandedOver"
    });
    site.api.await_object(&world.group_path(), "the application is unhealthy", PATIENCE, |group| {
        holds(group, "ApplicationHealthy", "False")
    });
    world.await_more_done(400);
    health("200");
    wait_until("the pod has queues again", PATIENCE, || {
        pause(LOOK_EVERY);
        let status = world.sidecar_status(&pod);
        status["phase"] == "Running" && status["totals"]["owned"].as_u64() > Some(0)
    });
    world.await_more_done(200);
    format!("{}", world.judge())
}
