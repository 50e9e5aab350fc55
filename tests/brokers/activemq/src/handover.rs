//! An owner ends or freezes: who comes next, when, and what the old one may still do.

use std::time::Duration;

use lockstep_history::Order;
use lockstep_tests_support::{
    activemq::{Outgoing, Taken},
    behaviour::{Act, Rule},
    process::Signal,
    proxy::{Direction, Proxy},
    stage::{owned, slowest_hand_over},
    time::{now_micros, wait_until},
};

use crate::{
    bounds::CRASH_BOUND,
    plan::Plan,
    world::{Delivery, Setting, Site, World},
};

const END: Duration = Duration::from_secs(1_800);
const SOON: Duration = Duration::from_secs(30);
/// Within this the next owner delivers, in microseconds.
const HAND_OVER: u64 = 2_000_000;
/// How long the application works on a slow message: longer than an idle queue may wait for its next owner.
const SLOW: Duration = Duration::from_millis(2_500);

/// SIGTERM under load: every queue is delivered by its next owner within 2 s, nothing is lost or repeated. One queue is
/// busy with a slow message at the signal, and one has nothing to do: it gets a message while the first drains.
pub fn sigterm(site: &Site, plan: &Plan) -> String {
    let work = Duration::from_millis(10);
    let mut world = World::new(site, "sigterm", Setting { queues: 4, ..Setting::default() }, work);
    let answer = || Act::Answer(200);
    world.app.set_rules(vec![Rule::body("slow", answer()).after(SLOW), Rule::always(answer()).after(work)]);
    let queues = world.queues.clone();
    for queue in &queues[..2] {
        world.publish_to(queue, vec![Outgoing::of("x".repeat(1_024)); plan.messages / 4]);
    }
    let (slow, idle) = (&queues[2], &queues[3]);
    world.publish_to(slow, vec![Outgoing::of("first")]);
    world.publish_to(idle, vec![Outgoing::of("first")]);
    world.join("first");
    world.await_log("the first owns all queues", SOON, |log| {
        log.len() > 100 && owned(log, "first").len() == 4
    });
    world.join("second");
    world.publish_to(slow, vec![Outgoing::of("slow"), Outgoing::of("next")]);
    let waits = |one: &Delivery| *one.queue == **slow && one.position == 1 && one.end.is_none();
    world.await_log("the first waits for an answer", SOON, |log| log.iter().any(waits));
    let signal = now_micros();
    world.sidecars["first"].process.signal(Signal::Term);
    wait_until("the first drains", Duration::from_secs(5), || {
        world.sidecars["first"].status()["phase"].as_str() != Some("Running")
    });
    world.publish_to(idle, vec![Outgoing::of("late")]);
    world.await_exit("first");
    let ended = now_micros();
    world.await_log("the second owns all queues", SOON, |log| owned(log, "second").len() == 4);
    let (idle, busy) = slowest_hand_over(&world.deliveries(), "first", "second", signal);
    assert!(idle > 0 && busy > 0, "the first must have had an idle and a busy queue: {idle} us, {busy} us");
    assert!(idle.max(busy) <= HAND_OVER, "a queue was without an owner: idle {idle} us, busy {busy} us");
    let verdict = world.finish(END);
    let attempts = world.deliveries().iter().map(|one| one.attempt).max();
    assert_eq!(attempts, Some(1), "an attempt was charged");
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    let exit = (ended - signal) / 1_000;
    let (idle, busy) = (idle / 1_000, busy / 1_000);
    format!("slowest hand-over {idle} ms idle, {busy} ms busy; exit after {exit} ms; {verdict}")
}

/// A slow application and as many messages ahead as there may be, which is 100: what was not started goes back at SIGTERM, in
/// its order, and no redelivery is counted for it.
pub fn untouched(site: &Site, _: &Plan) -> String {
    const MESSAGES: usize = 400;
    let more = "  delivery: {timeoutSeconds: 4, maxInFlight: 8}\n".to_owned();
    let setting = Setting { order: Order::PerKey, prefix: "strict.", more, ..Setting::default() };
    let mut world = World::new(site, "untouched", setting, Duration::ZERO);
    world.app.set_rules(vec![
        Rule { path: Some("first".to_owned()), ..Rule::always(Act::Answer(200)) }.after(SLOW),
    ]);
    world.publish(MESSAGES, 40);
    world.join("first");
    wait_until("the lookahead is used", SOON, || world.counts().in_flight >= 90);
    world.await_log("the first delivers", SOON, |log| log.len() >= 8);
    let signal = now_micros();
    world.leave("first");
    let exit = (now_micros() - signal) / 1_000;
    assert!(exit < 10_000, "it exited {exit} ms after the signal");
    let first: Vec<u64> = world.deliveries().iter().map(|one| one.position).collect();
    let left = site.node.browse(&world.queues[0]);
    assert_eq!(left.len() + first.len(), MESSAGES, "{} were delivered", first.len());
    let counted: Vec<_> = left.iter().filter(|one| one.redeliveries > 0).map(Taken::place).collect();
    assert!(counted.is_empty(), "{} untouched messages were counted: {counted:?}", counted.len());
    let places: Vec<u64> = left.iter().filter_map(Taken::place).collect();
    assert!(places.is_sorted(), "what went back is out of order: {places:?}");
    world.join("second");
    let verdict = world.finish(END);
    assert_eq!(world.deliveries().iter().map(|one| one.attempt).max(), Some(1), "an attempt was charged");
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    format!("{} of {MESSAGES} by the first, exit after {exit} ms; {verdict}", first.len())
}

/// A world in which "old" owns two queues through a proxy and "new" waits for them.
fn with_peer<'a>(site: &'a Site, name: &str, work: Duration) -> (World<'a>, Proxy) {
    let mut world = World::new(site, name, Setting { queues: 2, ..Setting::default() }, work);
    let proxy = world.through_proxy("old");
    world.join("old");
    world.publish(1_200, 64);
    world.await_log("the old one owns both queues", SOON, |log| {
        log.len() > 20 && owned(log, "old").len() == 2
    });
    world.join("new");
    (world, proxy)
}

/// An owner is frozen until its peer has delivered from its queues, and wakes without a connection: it sends nothing. The
/// broker takes a peer for dead one to two times of what was agreed after its last byte.
pub fn frozen_owner(site: &Site, _: &Plan) -> String {
    let noticed = site.inactivity * 3 + Duration::from_secs(10);
    let (mut world, proxy) = with_peer(site, "frozen", Duration::from_millis(20));
    world.fault("freeze", CRASH_BOUND, 1);
    let frozen = now_micros();
    world.sidecars["old"].process.signal(Signal::Stop);
    proxy.set_stalled(Direction::Up, true);
    proxy.set_stalled(Direction::Down, true);
    world.await_log("the peer delivers from both queues", noticed, |log| owned(log, "new").len() == 2);
    let taken = (now_micros() - frozen) / 1_000;
    let woken = now_micros();
    world.sidecars["old"].process.signal(Signal::Cont);
    world.await_log("the peer goes on", SOON, |log| {
        log.iter().any(|one| &*one.consumer == "new" && one.start > woken + 1_000_000)
    });
    let log = world.deliveries();
    // What was just being sent at the freeze may leave at waking: of one queue at most, since they take turns. Who does not
    // look at his leases sends for each queue, and goes on.
    let sent = log.iter().filter(|one| &*one.consumer == "old" && one.start > woken).count();
    assert!(sent <= 1, "the frozen owner sent {sent} requests for queues that it had lost");
    proxy.heal();
    let verdict = world.finish(END);
    format!("the peer took over after {taken} ms; {verdict}")
}
