//! An owner ends or freezes: who comes next, when, and what the old one may still do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use lockstep_history::{Order, Rules};
use lockstep_tests_support::{process::Signal, proxy::Proxy, time::now_micros};

use crate::{
    plan::Plan,
    world::{BROKERS, CRASH_BOUND, Delivery, Setting, Site, World},
};

const END: Duration = Duration::from_secs(300);
/// Within this the next owner delivers, in microseconds.
const HAND_OVER: u64 = 2_000_000;

/// SIGTERM under load: every queue is delivered by its next owner within 2 s, nothing is lost or repeated.
pub fn sigterm(site: &Site, plan: &Plan) -> String {
    let mut world = World::new(site, "sigterm", Setting::default(), Duration::from_millis(20));
    world.publish(plan.messages, 64, |_| "a");
    world.join("first");
    world.await_deliveries("first", 0, 100, Duration::from_secs(30));
    world.join("second");
    world.await_log("both own queues", Duration::from_secs(30), |log| owned(log, "second").len() == 4);
    let signal = now_micros();
    world.leave("first");
    let ended = now_micros();
    world.await_log("the second owns all queues", Duration::from_secs(30), |log| {
        let since: Vec<Delivery> = log.iter().filter(|one| one.start > signal).cloned().collect();
        owned(&since, "second").len() == 8
    });
    let slowest = slowest_hand_over(&world.deliveries(), "first", "second", signal);
    assert!(slowest <= HAND_OVER, "a queue was without an owner for {} ms", slowest / 1_000);
    world.await_end(END);
    world.leave("second");
    let attempts = world.deliveries().iter().map(|one| one.attempt).max();
    assert_eq!(attempts, Some(1), "an attempt was charged");
    let verdict = world.judge(&Rules::new(Order::PerQueue), []);
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    format!("slowest hand-over {} ms, exit after {} ms; {verdict}", slowest / 1_000, (ended - signal) / 1_000)
}

/// The queues from which a consumer has delivered.
fn owned<'a>(log: &'a [Delivery], consumer: &str) -> BTreeSet<&'a str> {
    log.iter().filter(|one| &*one.consumer == consumer).map(|one| &*one.queue).collect()
}

/// The longest time from the signal, or from the old owner's last answer, to the new owner's first request.
fn slowest_hand_over(log: &[Delivery], old: &str, new: &str, signal: u64) -> u64 {
    let mut free: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    let mut last_owner: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    for one in log.iter().filter(|one| one.start <= signal) {
        last_owner.insert(Arc::clone(&one.queue), Arc::clone(&one.consumer));
    }
    for one in log.iter().filter(|one| &*one.consumer == old) {
        if last_owner.get(&one.queue).is_some_and(|owner| &**owner == old) {
            let idle = one.end.unwrap_or(one.start).max(signal);
            free.insert(Arc::clone(&one.queue), idle);
        }
    }
    assert!(!free.is_empty(), "{old} owned nothing at the signal");
    let gap = |(queue, idle): (&Arc<str>, &u64)| {
        let next = log.iter().find(|one| one.queue == *queue && &*one.consumer == new && one.start >= *idle);
        next.unwrap_or_else(|| panic!("{queue} was not delivered by {new}")).start - idle
    };
    free.iter().map(gap).max().unwrap_or_default()
}

/// An owner is frozen with its connections cut until a peer has delivered from each of its queues; then it wakes.
pub fn frozen_owner(site: &Site, plan: &Plan) -> String {
    let mut world = World::new(site, "frozen", Setting::default(), Duration::from_millis(20));
    world.publish(plan.messages_with_faults, 64, |_| "a");
    let proxies: Vec<(String, Proxy)> = BROKERS
        .iter()
        .map(|name| site.servers.broker(name))
        .map(|address| (address.clone(), Proxy::start(&address, 1)))
        .collect();
    let replaced =
        proxies.iter().map(|(address, proxy)| (address.clone(), proxy.address().to_owned())).collect();
    world.overrides.insert("frozen".to_owned(), replaced);
    world.join("frozen");
    world.await_deliveries("frozen", 0, 100, Duration::from_secs(30));
    world.join("awake");
    world.await_log("both own queues", Duration::from_secs(30), |log| owned(log, "awake").len() == 4);

    world.fault("freeze", CRASH_BOUND, 1);
    let frozen_at = now_micros();
    world.sidecars["frozen"].process.signal(Signal::Stop);
    proxies.iter().for_each(|(_, proxy)| proxy.cut(true));
    let lost: BTreeSet<String> = {
        let log = world.deliveries();
        let taken = owned(&log, "awake");
        owned(&log, "frozen").into_iter().filter(|queue| !taken.contains(queue)).map(str::to_owned).collect()
    };
    assert!(!lost.is_empty(), "the frozen sidecar owned nothing");
    let limit = Duration::from_secs(site.lock_seconds + 30);
    world.await_log("the peer delivers from the frozen one's queues", limit, |log| {
        let taken = owned(log, "awake");
        lost.iter().all(|queue| taken.contains(queue.as_str()))
    });
    let woken_at = now_micros();
    world.sidecars["frozen"].process.signal(Signal::Cont);
    let peer_epochs_hold =
        |log: &[Delivery]| log.iter().any(|one| &*one.consumer == "awake" && one.start > woken_at + 500_000);
    world.await_log("the peer goes on", Duration::from_secs(30), peer_epochs_hold);
    let sent = |log: &[Delivery]| {
        log.iter().filter(|one| &*one.consumer == "frozen" && one.start > frozen_at).count()
    };
    // Its connections are still cut, so whatever it sends it sends without being an owner.
    assert_eq!(sent(&world.deliveries()), 0, "the frozen owner sent a request for a queue that it had lost");
    proxies.iter().for_each(|(_, proxy)| proxy.heal());
    world.await_end(END);
    let verdict = world.judge(&Rules::new(Order::PerQueue), []);
    format!("{} queues were lost to the peer; {verdict}", lost.len())
}
