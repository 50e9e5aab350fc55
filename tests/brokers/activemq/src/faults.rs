//! Sidecars, connections and brokers are killed.

use std::{collections::BTreeMap, net::TcpStream, sync::Arc, thread, time::Duration};

use lockstep_tests_support::{
    random::Random,
    time::{now_micros, wait_until},
};

use crate::{
    bounds::{BROKER_BOUND, CRASH_BOUND, RESUME},
    plan::Plan,
    world::{Delivery, Setting, Site, World},
};

const END: Duration = Duration::from_secs(1_800);
const SOON: Duration = Duration::from_secs(60);
/// How long the application works on a message.
const WORK: Duration = Duration::from_millis(10);
/// No frame with a message is so short.
const SLICE: usize = 100;

/// Four queues in order.
fn four<'a>(site: &'a Site, name: &str) -> World<'a> {
    let more = "  retry: {maxAttempts: 0, whenExhausted: DeadLetter}\n".to_owned();
    World::new(site, name, Setting { queues: 4, more, ..Setting::default() }, WORK)
}

/// Faults of others must not cost a message its place.
fn none_dead(world: &World<'_>) {
    for queue in &world.queues {
        assert_eq!(world.new_dead_letters(queue), 0, "messages of {queue} became dead letters");
    }
}

/// Keeps enough to do for a scenario of so many rounds.
fn refill(world: &mut World<'_>, count: usize) {
    if world.counts().unsettled < u64::try_from(count / 4).unwrap() {
        world.publish(count / 2, 64);
    }
}

/// What there must be to go on with, where all was worked off before the fault came.
fn one_each(world: &mut World<'_>) {
    world.publish(world.queues.len(), 64);
}

fn must_resume(micros: u64) -> u64 {
    assert!(micros <= RESUME, "it took {} ms to go on", micros / 1_000);
    micros / 1_000
}

/// Whether a delivery is of a later ownership of its queue than these: what is left of an earlier one is no resumption.
fn is_newer(epochs: &BTreeMap<Arc<str>, u64>) -> impl Fn(&Delivery) -> bool {
    |one| one.epoch > epochs.get(&one.queue).copied()
}

/// kill -9 of the sidecar that owns the queues: its peer takes them over, and it comes back to wait for them.
pub fn killed_sidecar(site: &Site, plan: &Plan) -> String {
    let mut world = four(site, "killed");
    world.publish(plan.messages_with_faults, 64);
    world.join("a");
    world.await_deliveries("a", 0, 20, SOON);
    world.join("b");
    let mut slowest = 0;
    for round in 0..plan.sidecar_kills {
        refill(&mut world, plan.messages_with_faults);
        let (owner, peer) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
        world.await_deliveries(owner, now_micros(), 40, SOON);
        world.kill_sidecar(owner, CRASH_BOUND);
        let since = now_micros();
        one_each(&mut world);
        let of_peer = |one: &Delivery| one.start > since && &*one.consumer == peer;
        slowest = slowest.max(must_resume(world.await_resumption(since, of_peer)));
        world.join(owner);
    }
    world.await_quiet(END);
    let verdict = world.finish(END);
    none_dead(&world);
    let most = verdict.counts.most_duplicates;
    format!("resumed within {slowest} ms, at most {most} duplicates a queue and kill; {verdict}")
}

/// Connections are cut in the middle of a frame, of either way: the same sidecar goes on, and what it knows to be done is not
/// repeated.
pub fn cut_connections(site: &Site, plan: &Plan) -> String {
    let mut world = four(site, "cut");
    let proxy = world.through_proxy("one");
    // Pieces of frames, each on its way for a moment, so that a cut falls between two of them.
    proxy.set_slices(Some(SLICE));
    proxy.set_latency(Duration::from_micros(300));
    world.publish(plan.messages_with_faults, 64);
    world.join("one");
    let mut random = Random::new(7);
    let mut slowest = 0;
    for _ in 0..plan.cuts {
        refill(&mut world, plan.messages_with_faults);
        let count = 20 + usize::try_from(random.below(20)).unwrap();
        world.await_deliveries("one", now_micros(), count, SOON);
        let (before, epochs) = (proxy.accepted(), world.epochs());
        // A request whose answer was lost with its ownership may come again.
        world.strike("the connection is cut", 1, 0, || proxy.cut(false));
        let since = now_micros();
        one_each(&mut world);
        slowest = slowest.max(must_resume(world.await_resumption(since, is_newer(&epochs))));
        assert!(proxy.accepted() > before, "it went on without a new connection");
    }
    proxy.heal();
    world.await_quiet(END);
    let verdict = world.finish(END);
    none_dead(&world);
    format!("resumed within {slowest} ms; {verdict}")
}

/// kill -9 of the broker under load: nothing is sent for what it has handed out before, and all goes on with its data.
pub fn killed_broker(site: &Site, plan: &Plan) -> String {
    let mut world = four(site, "broker");
    world.publish(plan.messages_with_faults, 64);
    world.join("one");
    world.join("two");
    let mut slowest = 0;
    for _ in 0..plan.broker_kills {
        refill(&mut world, plan.messages_with_faults);
        world.await_log("200 messages more", SOON, more(&world, 200));
        world.strike("kill of the broker", BROKER_BOUND, 1, || site.server.kill());
        let killed = now_micros();
        let back = restart(site);
        // What was in flight at the kill may end; nothing new begins without a connection.
        let between =
            world.deliveries().iter().filter(|one| one.start > killed + 500_000 && one.start < back).count();
        assert_eq!(between, 0, "requests were sent while there was no broker");
        one_each(&mut world);
        slowest = slowest.max(must_resume(world.await_resumption(back, |one| one.start > back)));
    }
    world.await_quiet(END);
    let verdict = world.finish(END);
    none_dead(&world);
    format!("resumed within {slowest} ms of the broker's return; {verdict}")
}

fn more(world: &World<'_>, count: usize) -> impl Fn(&[Delivery]) -> bool + use<> {
    let before = world.deliveries().len();
    move |log| log.len() >= before + count
}

/// Starts the broker again; when it first took a connection.
fn restart(site: &Site) -> u64 {
    let address = site.node.openwire().to_owned();
    thread::scope(|scope| {
        let back = scope.spawn(move || {
            wait_until("the broker is back", Duration::from_secs(120), || {
                TcpStream::connect(&address).is_ok()
            });
            now_micros()
        });
        site.server.restart();
        back.join().unwrap()
    })
}
