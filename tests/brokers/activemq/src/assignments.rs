//! Files say whose queue is whose, as the operator's annotation does in a pod.

use std::time::Duration;

use lockstep_tests_support::{
    activemq::Outgoing,
    stage::owned,
    time::{now_micros, pause, wait_until},
};

use crate::{
    bounds::CRASH_BOUND,
    plan::Plan,
    world::{Delivery, Setting, Site, World},
};

const END: Duration = Duration::from_secs(1_800);
const SOON: Duration = Duration::from_secs(30);
/// Whoever has adopted a queue offers it to its owner every 20 s.
const OFFERED: Duration = Duration::from_secs(20 + 30);
/// A queue without a consumer is taken by whoever sees it after this time, in microseconds.
const ORPHANED: u64 = 30_000_000;

/// Four queues, shared by two members; then each gets what was the other's.
fn shared_by_two<'a>(site: &'a Site, name: &str) -> World<'a> {
    let mut world =
        World::new(site, name, Setting { queues: 4, ..Setting::default() }, Duration::from_millis(10));
    let queues = world.queues.clone();
    world.assign("a", &[&queues[0], &queues[1]]);
    world.assign("b", &[&queues[2], &queues[3]]);
    world.publish(4_000, 64);
    world.join("a");
    world.join("b");
    world.await_log("both deliver", SOON, |log| owned(log, "a").len() == 2 && owned(log, "b").len() == 2);
    world
}

/// Each takes what is its own and nothing else, and hands over what no longer is, while the new owner waits for it.
pub fn shared(site: &Site, _: &Plan) -> String {
    let mut world = shared_by_two(site, "shared");
    let queues = world.queues.clone();
    let since = |log: &[Delivery], at: u64| -> Vec<Delivery> {
        log.iter().filter(|one| one.start > at).cloned().collect()
    };
    let swap = now_micros();
    world.assign("a", &[&queues[2], &queues[1]]);
    world.assign("b", &[&queues[0], &queues[3]]);
    let swapped = |log: &[Delivery]| {
        let log = since(log, swap);
        owned(&log, "a").contains(&*queues[2]) && owned(&log, "b").contains(&*queues[0])
    };
    world.await_log("the queues have changed hands", SOON, swapped);
    let log = world.deliveries();
    let first = |queue: &str, consumer: &str| {
        log.iter().find(|one| *one.queue == *queue && &*one.consumer == consumer).map(|one| one.start - swap)
    };
    let slowest = first(&queues[2], "a").max(first(&queues[0], "b")).unwrap() / 1_000;
    // All for one: the other waits without a queue.
    let all: Vec<&str> = queues.iter().map(String::as_str).collect();
    world.assign("a", &all);
    world.assign("b", &[]);
    let gathered = now_micros();
    world.await_log("one has all", SOON, |log| owned(&since(log, gathered + 10_000_000), "a").len() == 4);
    let of_b = since(&world.deliveries(), gathered + 10_000_000);
    assert!(owned(&of_b, "b").is_empty(), "the other has still something: {:?}", owned(&of_b, "b"));
    let verdict = world.finish(END);
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    format!("slowest exchange {slowest} ms; {verdict}")
}

/// A member dies and nobody assigns its queues anew: its peer leaves them alone for 30 s, and then takes them. When the
/// member is back, it gets them back, though nobody tells the peer: it offers them now and then.
pub fn orphan(site: &Site, _: &Plan) -> String {
    let mut world = shared_by_two(site, "orphan");
    let queues = world.queues.clone();
    world.kill_sidecar("b", CRASH_BOUND);
    let killed = now_micros();
    let of_b: [&str; 2] = [&queues[2], &queues[3]];
    let taken = |log: &[Delivery]| of_b.iter().all(|queue| owned(log, "a").contains(queue));
    world.await_log("the peer takes the queues", Duration::from_secs(60), taken);
    let log = world.deliveries();
    let first = |queue: &&str| {
        let one = log.iter().find(|one| *one.queue == **queue && &*one.consumer == "a");
        one.map(|one| one.start - killed).unwrap()
    };
    let (earliest, latest) = (of_b.iter().map(first).min().unwrap(), of_b.iter().map(first).max().unwrap());
    assert!(earliest >= ORPHANED - 1_000_000, "taken after {earliest} us");
    assert!(latest <= ORPHANED + 15_000_000, "taken after {latest} us");
    world.join("b");
    gets_back(&mut world, &of_b);
    let verdict = world.finish(END);
    format!("taken after {} to {} ms; {verdict}", earliest / 1_000, latest / 1_000)
}

/// Waits until "b" delivers from its queues again, which "a" has adopted.
fn gets_back(world: &mut World<'_>, queues: &[&str]) {
    let back = now_micros();
    wait_until("the member has its queues back", OFFERED, || {
        // Each has something to deliver whenever it changes hands.
        for queue in queues {
            world.publish_to(queue, vec![Outgoing::of("x"); 10]);
        }
        pause(Duration::from_secs(1));
        let log: Vec<Delivery> = world.deliveries().into_iter().filter(|one| one.start > back).collect();
        queues.iter().all(|queue| owned(&log, "b").contains(queue))
    });
}
