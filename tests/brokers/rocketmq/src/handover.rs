//! An owner ends or freezes: who comes next, when, and what the old one may still do.

use std::{collections::BTreeSet, time::Duration};

use lockstep_history::{Order, Rules};
use lockstep_tests_support::{
    behaviour::{Act, Rule},
    process::Signal,
    proxy::Proxy,
    rocketmq::Outgoing,
    stage::{owned, slowest_hand_over},
    time::{now_micros, wait_until},
};

use crate::{
    plan::Plan,
    world::{BROKERS, CRASH_BOUND, Delivery, QUEUES, Setting, Site, World},
};

const END: Duration = Duration::from_secs(1_800);
/// Within this the next owner delivers, in microseconds.
const HAND_OVER: u64 = 2_000_000;
/// How long the application works on a slow message: longer than an idle queue may wait for its next owner.
const SLOW: Duration = Duration::from_millis(2_500);

/// SIGTERM under load: every queue is delivered by its next owner within 2 s, nothing is lost or repeated. Some queues
/// are busy with a slow message at the signal, and some have nothing to do: they get a message while it drains.
pub fn sigterm(site: &Site, plan: &Plan) -> String {
    let work = Duration::from_millis(20);
    let mut world = World::new(site, "sigterm", Setting::default(), work);
    let answer = || Act::Answer(200);
    world.app.set_rules(vec![Rule::body("slow", answer()).after(SLOW), Rule::always(answer()).after(work)]);
    let (idle, slow) = (QUEUES - 1, QUEUES - 2);
    let quiet: Vec<(&str, u32)> =
        BROKERS.iter().flat_map(|broker| [(*broker, idle), (*broker, slow)]).collect();
    world.publish_except(&quiet, plan.messages / 4, 64, |_| "a");
    for (broker, queue) in quiet {
        world.publish_to(broker, queue, &bodies(&["first"]));
    }
    world.join("first");
    world.await_deliveries("first", 0, 100, Duration::from_secs(30));
    world.join("second");
    world.await_log("both own queues", Duration::from_secs(30), |log| owned(log, "second").len() >= 2);
    // One by one: a broker may take those of one pipeline in another order.
    for (broker, text) in BROKERS.iter().flat_map(|broker| [(broker, "slow"), (broker, "next")]) {
        world.publish_to(broker, slow, &bodies(&[text]));
    }
    let end = format!("/{slow}");
    let waits = |one: &Delivery| {
        one.queue.ends_with(&end) && one.position == 1 && one.end.is_none() && &*one.consumer == "first"
    };
    world.await_log("the first waits for an answer", Duration::from_secs(30), |log| log.iter().any(waits));
    let signal = now_micros();
    world.sidecars["first"].process.signal(Signal::Term);
    wait_until("the first drains", Duration::from_secs(5), || {
        world.sidecars["first"].status()["phase"].as_str() != Some("Running")
    });
    BROKERS.iter().for_each(|broker| drop(world.publish_to(broker, idle, &bodies(&["late"]))));
    world.await_exit("first");
    let ended = now_micros();
    world.await_log("the second owns all queues", Duration::from_secs(30), |log| {
        let since: Vec<Delivery> = log.iter().filter(|one| one.start > signal).cloned().collect();
        owned(&since, "second").len() == 8
    });
    let (idle, busy) = slowest_hand_over(&world.deliveries(), "first", "second", signal);
    assert!(idle > 0 && busy > 0, "the first must have had an idle and a busy queue: {idle} us, {busy} us");
    assert!(idle.max(busy) <= HAND_OVER, "a queue was without an owner: idle {idle} us, busy {busy} us");
    world.await_end(END);
    world.leave("second");
    let attempts = world.deliveries().iter().map(|one| one.attempt).max();
    assert_eq!(attempts, Some(1), "an attempt was charged");
    let verdict = world.judge(&Rules::new(Order::PerQueue), []);
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    let exit = (ended - signal) / 1_000;
    let (idle, busy) = (idle / 1_000, busy / 1_000);
    format!("slowest hand-over {idle} ms idle, {busy} ms busy; exit after {exit} ms; {verdict}")
}

fn bodies(texts: &[&str]) -> Vec<Outgoing> {
    texts.iter().map(|text| Outgoing { body: (*text).into(), ..Outgoing::default() }).collect()
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
    // What was just being sent at the freeze may leave at waking: of one queue at most, since they take turns. Who does not
    // look at his leases sends for each queue, and goes on.
    let sent = |log: &[Delivery]| {
        log.iter().filter(|one| &*one.consumer == "frozen" && one.start > woken_at).count()
    };
    // Its connections are still cut, so whatever it sends it sends without being an owner.
    let sent = sent(&world.deliveries());
    assert!(sent <= 1, "the frozen owner sent {sent} requests for queues that it had lost");
    proxies.iter().for_each(|(_, proxy)| proxy.heal());
    world.await_end(END);
    let verdict = world.judge(&Rules::new(Order::PerQueue), []);
    format!("{} queues were lost to the peer; {verdict}", lost.len())
}
