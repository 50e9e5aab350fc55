//! Pods deleted by force and sidecars killed: nothing is lost, and no more is repeated than documented.

use std::{fs, process::Command};

use serde_json::Value;

use crate::{
    api::paths,
    plan::Plan,
    site::Site,
    world::{PATIENCE, Setting, World},
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
    for _ in 0..plan.kills {
        world.await_more_done(BETWEEN);
        let pod = world.pods().swap_remove(0);
        world.fault("a pod deleted by force", BOUND, 1);
        world.kubectl(&["delete", "pod", name(&pod), "--force", "--grace-period=0", "--wait=false"]);
        world.await_settled(PATIENCE);
        world.await_more_done(BETWEEN);
        let pod = world.pods().swap_remove(0);
        world.fault("a sidecar killed", BOUND, 1);
        kill_sidecar(&world, &pod);
        world.await_settled(PATIENCE);
    }
    world.await_more_done(BETWEEN);
    format!("{}", world.judge())
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap()
}

/// SIGKILL to the sidecar's process, which is a process of this machine too, and waits until it was started again.
fn kill_sidecar(world: &World<'_>, pod: &Value) {
    let path = format!("{}/{}", paths::core(&world.namespace, "pods"), name(pod));
    let container = |pod: &Value| {
        let statuses = pod["status"]["initContainerStatuses"].as_array().cloned().unwrap_or_default();
        statuses.into_iter().find(|status| status["name"] == "lockstep").unwrap_or_default()
    };
    let before = container(pod);
    let id = before["containerID"].as_str().and_then(|id| id.strip_prefix("containerd://")).unwrap();
    let inspected = world.site.crictl(&["inspect", id]);
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    let pid = inspected["info"]["pid"].as_u64().unwrap();
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    assert!(program.ends_with("lockstep-sidecar"), "{pid} is {}", program.display());
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    assert!(killed.success(), "{pid} can't be killed");
    world.site.api.await_object(&path, "the sidecar was started again", PATIENCE, |pod| {
        let now = container(pod);
        now["restartCount"].as_u64() > before["restartCount"].as_u64() && now["ready"] == true
    });
}
