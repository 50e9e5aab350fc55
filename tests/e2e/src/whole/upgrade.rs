//! Another version of the operator brings another sidecar.

use std::collections::BTreeSet;

use lockstep_tests_support::time::{pause, wait_until};
use serde_json::Value;

use crate::{
    group::{LOOK_EVERY, PATIENCE, Setting},
    plan::Plan,
    site::Site,
    world::World,
};

/// The sidecar's image under another name.
const NEXT: &str = "localhost/lockstep-sidecar:next";
/// Groups that must be upgraded.
const GROUPS: usize = 3;

/// A new sidecar image reaches one group after the other, each awaited, under load.
pub(super) fn wave(site: &Site, _: &Plan) -> String {
    site.tag("localhost/lockstep-sidecar:test", NEXT);
    let mut worlds: Vec<_> = (1..=GROUPS).map(|number| World::new(site, &format!("wave-{number}"))).collect();
    for world in &worlds {
        world.apply(&Setting { replicas: 1, ..Setting::default() });
    }
    for world in &mut worlds {
        world.await_settled(PATIENCE);
        world.publish_on();
    }
    site.install(&["--set=sidecar.image.tag=next", "--set=upgradeGroups=1"])
        .unwrap_or_else(|error| panic!("{error}"));
    let mut order: Vec<usize> = Vec::new();
    // Once complete, a group is done: a busy machine may make its pod unready for a moment.
    let mut done: BTreeSet<usize> = BTreeSet::new();
    wait_until("all groups are upgraded", PATIENCE * 2, || {
        pause(LOOK_EVERY);
        // One look at all Deployments, or two groups seen at two moments might seem to be in motion at once.
        let deployments = site.api.list("/apis/apps/v1/deployments");
        let of = |world: &World<'_>| {
            let ours = |deployment: &&Value| deployment["metadata"]["namespace"] == world.namespace.as_str();
            deployments.iter().find(ours).cloned().unwrap_or_default()
        };
        let states: Vec<Value> = worlds.iter().map(of).collect();
        let begun: Vec<usize> = (0..GROUPS).filter(|index| image(&states[*index]) == NEXT).collect();
        order.extend(begun.iter().filter(|index| !order.contains(index)).copied().collect::<Vec<_>>());
        done.extend(begun.iter().filter(|index| is_complete(&states[**index])));
        let moving: Vec<_> = begun.iter().filter(|index| !done.contains(index)).collect();
        assert!(moving.len() <= 1, "groups {moving:?} are in motion at once");
        begun.len() == GROUPS && moving.is_empty()
    });
    let mut report = Vec::new();
    for world in &mut worlds {
        let group = world.await_settled(PATIENCE);
        assert_eq!(group["status"]["sidecarImage"], NEXT);
        world.await_more_done(100);
        report.push(world.judge().to_string());
    }
    site.install(&[]).unwrap_or_else(|error| panic!("{error}"));
    format!("in the order {order:?}; {}", report.join("; "))
}

fn image(deployment: &Value) -> &str {
    let containers = deployment["spec"]["template"]["spec"]["initContainers"].as_array();
    let sidecar = containers.and_then(|all| all.iter().find(|container| container["name"] == "lockstep"));
    sidecar.and_then(|sidecar| sidecar["image"].as_str()).unwrap_or_default()
}

fn is_complete(deployment: &Value) -> bool {
    let status = &deployment["status"];
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|count| status[count] == 1)
}
