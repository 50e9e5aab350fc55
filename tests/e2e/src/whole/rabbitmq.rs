//! RabbitMQ's queues are shared out over the pods as the operator's annotation says.

use std::{collections::BTreeSet, sync::Arc};

use lockstep_history::Event;
use lockstep_tests_support::time::{now_micros, pause, wait_until};
use serde_json::json;

use super::ends::children;
use crate::{
    api::holds,
    group::{GROUP, LOOK_EVERY, PATIENCE, Setting, Steps},
    plan::Plan,
    rabbitmq::{QUEUES, Shares, World},
    site::Site,
};

/// What a crash may cost in duplicates in a queue, as documented for `PerQueue`.
const BOUND: u64 = 31;
/// Messages that must get through between two changes.
const BETWEEN: usize = 300;

/// Pods come and go under load, and queues with them: nothing is lost, reordered, repeated or charged. A pod is deleted by
/// force: others take its queues over, and no more is repeated than documented. The deleted group leaves nothing behind.
pub(super) fn shares(site: &Site, plan: &Plan) -> String {
    let mut world = World::new(site, "rabbitmq");
    let mut took = Steps::default();
    world.apply(&Setting { replicas: 2, ..Setting::default() });
    world.await_settled(PATIENCE);
    world.await_shared();
    for kind in ["SourceConnected", "QueuesOwned"] {
        let what = format!("{kind} is True");
        site.api.await_object(&world.group_path(), &what, PATIENCE, |group| holds(group, kind, "True"));
    }
    took.note("ready and shared");
    world.publish_on();
    world.await_more_done(BETWEEN);
    for round in 0..plan.kills {
        if round > 0 {
            scale(&world, 2);
        }
        scaled_to_three(&world);
        took.note("3 replicas");
        deleted_by_force(&world, &mut took);
        scale(&world, 1);
        took.note("1 replica");
    }
    let verdict = world.judge();
    site.api.delete(&world.group_path(), &json!({"propagationPolicy": "Background"}));
    wait_until("all children are gone", PATIENCE, || {
        pause(LOOK_EVERY);
        children(&world) == 0
    });
    world.await_nobody();
    took.note("deleted");
    format!("{took}; {verdict}")
}

/// A third pod gets one queue, and the others stay where they are, in the same ownership.
fn scaled_to_three(world: &World<'_>) {
    let before = world.await_shared();
    let since = now_micros();
    let after = scale(world, 3);
    let (moved, stayed): (Vec<&String>, Vec<_>) =
        world.queues.iter().partition(|queue| owner(&before, queue) != owner(&after, queue));
    assert_eq!(moved.len(), QUEUES / 3, "{before:?} became {after:?}");
    let sent = sent_since(world, since);
    for queue in stayed {
        let of_queue = sent.iter().filter(|one| *one.queue == **queue);
        let epochs: BTreeSet<Option<u64>> = of_queue.map(|one| one.epoch).collect();
        assert_eq!(epochs.len(), 1, "{queue} had the ownerships {epochs:?} while {moved:?} moved");
    }
}

/// Waits until so many pods share the queues and messages flow; no attempt may have been spent on it, and nothing repeated.
fn scale(world: &World<'_>, replicas: usize) -> Shares {
    let what = format!("{replicas} replicas");
    let (since, before) = (now_micros(), world.duplicates());
    world.kubectl(&["scale", "cgrp", GROUP, &format!("--replicas={replicas}")]);
    world.await_settled(PATIENCE);
    let shares = world.await_shared();
    assert_eq!(shares.len(), replicas, "{shares:?}");
    world.await_more_done(BETWEEN);
    world.assert_not_charged(&what);
    // Pods that are gone can't be asked.
    let again = sent_since(world, since).into_iter().find(|one| one.attempt != 1);
    assert!(again.is_none(), "{what} cost an attempt: {again:?}");
    // The fault of a former step would explain them too.
    assert_eq!(world.duplicates(), before, "{what} cost duplicates");
    shares
}

/// The queues of a pod that is deleted by force are taken over, and shared out again when there is another pod.
fn deleted_by_force(world: &World<'_>, took: &mut Steps) {
    let most = world.await_shared().into_iter().max_by_key(|(_, queues)| queues.len());
    let (pod, queues) = most.unwrap();
    let since = now_micros();
    world.fault("a pod deleted by force", BOUND, 1);
    world.kubectl(&["delete", "pod", &pod, "--force", "--grace-period=0", "--wait=false"]);
    wait_until("its queues are taken over", PATIENCE, || {
        pause(LOOK_EVERY);
        let sent = sent_since(world, since);
        let by_others =
            |queue: &String| sent.iter().any(|one| *one.queue == **queue && *one.consumer != *pod);
        queues.iter().all(by_others)
    });
    took.note("taken over");
    world.await_settled(PATIENCE);
    world.await_shared();
    world.await_more_done(BETWEEN);
    took.note("shared again");
}

fn owner<'a>(shares: &'a Shares, queue: &String) -> Option<&'a String> {
    shares.iter().find(|(_, queues)| queues.contains(queue)).map(|(pod, _)| pod)
}

/// A request that an application got.
#[derive(Debug)]
struct Sent {
    queue: Arc<str>,
    consumer: Arc<str>,
    epoch: Option<u64>,
    attempt: u32,
}

fn sent_since(world: &World<'_>, since: u64) -> Vec<Sent> {
    let mut sent = Vec::new();
    for event in world.site.collector.history(&world.topic).events() {
        if let Event::Start { at, queue, consumer, epoch, attempt, .. } = event
            && *at > since
        {
            let (queue, consumer) = (Arc::clone(queue), Arc::clone(consumer));
            sent.push(Sent { queue, consumer, epoch: *epoch, attempt: *attempt });
        }
    }
    sent
}
