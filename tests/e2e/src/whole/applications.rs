//! An application's process ends by itself: a crash loop, and too little memory.

use lockstep_tests_support::{
    http::call,
    time::{pause, wait_until},
};
use serde_json::Value;

use super::crashes::{container, kill_container};
use crate::{
    api::paths,
    group::{LOOK_EVERY, PATIENCE, Setting},
    plan::Plan,
    site::{BROKER, Site},
    world::{QUEUES, World},
};

/// What a crash of an application may cost in duplicates in a queue: the requests that it had taken.
const BOUND: u64 = 1;

/// A pod whose application crashes again and again gives its queues to the others after the hand-over time.
pub(super) fn crash_loop(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "crash-loop");
    let check = "healthCheck: {path: /healthz, periodSeconds: 1, failureThreshold: 2, handOverSeconds: 3}";
    world.apply(&Setting { spec: format!("  delivery: {{{check}}}\n"), ..Setting::default() });
    world.await_settled(PATIENCE);
    world.publish_on();
    world.await_more_done(200);
    let pod = world.pods().swap_remove(0);
    let path =
        format!("{}/{}", paths::core(&world.namespace, "pods"), pod["metadata"]["name"].as_str().unwrap());
    let mut crashed = 0;
    // The kubelet waits 10 s before the second restart, and longer before each further one.
    wait_until("the queues were handed over to the others", PATIENCE, || {
        pause(LOOK_EVERY);
        let app = container(&site.api.get(&path).unwrap_or_default(), "app");
        if app["restartCount"] == crashed && app["state"]["running"].is_object() {
            world.fault("an application crashed", BOUND, 1);
            kill_container(&world, &app);
            crashed += 1;
        }
        let others =
            world.pods().into_iter().filter(|other| other["metadata"]["uid"] != pod["metadata"]["uid"]);
        let owned = others.filter_map(|other| world.sidecar_status(&other)["totals"]["owned"].as_u64());
        owned.sum::<u64>() == u64::from(QUEUES) && world.sidecar_status(&pod)["phase"] == "HandedOver"
    });
    world.await_more_done(400);
    wait_until("the pod has queues again", PATIENCE, || {
        pause(LOOK_EVERY);
        world.sidecar_status(&pod)["totals"]["owned"].as_u64() > Some(0)
    });
    world.await_settled(PATIENCE);
    world.await_more_done(200);
    format!("{crashed} crashes; {}", world.judge())
}

/// An application that takes more memory than it may is killed and started again; the pod stays, and all goes on.
pub(super) fn out_of_memory(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "out-of-memory");
    let container_lines = "        resources: {limits: {memory: 48Mi}}\n".to_owned();
    world.apply(&Setting { container: container_lines, ..Setting::default() });
    world.await_settled(PATIENCE);
    world.publish_on();
    world.await_more_done(200);
    let pod = world.pods().swap_remove(0);
    let address = format!("{}:8080", pod["status"]["podIP"].as_str().unwrap());
    world.fault("an application ran out of memory", BOUND, 1);
    // The answer does not come: the kernel kills the application.
    drop(call(&address, "PUT", "/memory", b"200"));
    let path =
        format!("{}/{}", paths::core(&world.namespace, "pods"), pod["metadata"]["name"].as_str().unwrap());
    site.api.await_object(&path, "the application was killed and started again", PATIENCE, |pod: &Value| {
        let app = container(pod, "app");
        let end = &app["lastState"]["terminated"];
        // The kubelet may have removed what is left of the dead container, and may have seen only its SIGKILL.
        let how = end.is_null() || end["reason"] == "OOMKilled" || end["exitCode"] == 137;
        assert!(how, "the application ended otherwise: {end}");
        app["restartCount"].as_u64() >= Some(1) && app["ready"] == true
    });
    world.await_settled(PATIENCE);
    world.await_more_done(200);
    assert_eq!(site.mq.try_end_of(&format!("%DLQ%{}", world.broker_group), BROKER, 0).unwrap_or(0), 0);
    format!("{}", world.judge())
}
