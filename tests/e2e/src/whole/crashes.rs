//! Pods deleted by force and sidecars killed: nothing is lost, and no more is repeated than documented.

use std::{fs, process::Command};

use serde_json::Value;

use crate::{
    api::paths,
    group::{PATIENCE, Setting, Steps},
    plan::Plan,
    site::Site,
    world::World,
};

/// What a crash may cost in duplicates in a queue, as documented for `PerQueue`.
const BOUND: u64 = 32;
/// Messages that must get through between two crashes.
const BETWEEN: usize = 300;

/// `kubectl delete --force` of pods and SIGKILL of sidecar containers.
pub(super) fn pods_and_containers(site: &Site, plan: &Plan) -> String {
    let mut world = World::new(site, "crashes");
    world.apply(&Setting::default());
    world.await_settled(PATIENCE);
    world.publish_on();
    let mut steps = Steps::default();
    for _ in 0..plan.kills {
        world.await_more_done(BETWEEN);
        let pod = world.pods().swap_remove(0);
        world.fault("a pod deleted by force", BOUND, 1);
        world.kubectl(&["delete", "pod", name(&pod), "--force", "--grace-period=0", "--wait=false"]);
        world.await_settled(PATIENCE);
        steps.note("deleted by force");
        world.await_more_done(BETWEEN);
        let pod = world.pods().swap_remove(0);
        world.fault("a sidecar killed", BOUND, 1);
        kill_sidecar(&world, &pod);
        world.await_settled(PATIENCE);
        steps.note("killed");
    }
    world.await_more_done(BETWEEN);
    steps.note("the rest");
    format!("{steps}; {}", world.judge())
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap()
}

/// SIGKILL to the sidecar, and waits until it was started again.
fn kill_sidecar(world: &World<'_>, pod: &Value) {
    let path = format!("{}/{}", paths::core(&world.namespace, "pods"), name(pod));
    let before = container(pod, "lockstep");
    kill_container(world, &before);
    world.site.api.await_object(&path, "the sidecar was started again", PATIENCE, |pod| {
        let now = container(pod, "lockstep");
        now["restartCount"].as_u64() > before["restartCount"].as_u64() && now["ready"] == true
    });
}

/// The status of a pod's container.
pub(super) fn container(pod: &Value, name: &str) -> Value {
    let of = |list: &str| pod["status"][list].as_array().cloned().unwrap_or_default();
    let mut all = of("initContainerStatuses").into_iter().chain(of("containerStatuses"));
    all.find(|status| status["name"] == name).unwrap_or_default()
}

/// SIGKILL to a container's process, which is a process of this machine too. One that has ended meanwhile is as good as
/// killed.
pub(super) fn kill_container(world: &World<'_>, status: &Value) {
    let id = status["containerID"].as_str().and_then(|id| id.strip_prefix("containerd://")).unwrap();
    let inspected: Value = serde_json::from_str(&world.site.crictl(&["inspect", id])).unwrap();
    let pid = inspected["info"]["pid"].as_u64().unwrap();
    let Ok(program) = fs::read_link(format!("/proc/{pid}/exe")) else { return };
    let ours = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lockstep-"));
    assert!(ours, "{pid} is {}", program.display());
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    let ended = fs::read_link(format!("/proc/{pid}/exe")).is_err();
    assert!(killed.success() || ended, "{pid} can't be killed");
}
