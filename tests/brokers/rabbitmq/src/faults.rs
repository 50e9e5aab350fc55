//! Sidecars, connections, brokers and nodes are killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::TcpStream,
    sync::Arc,
    thread,
    time::Duration,
};

use lockstep_history::Order;
use lockstep_tests_support::{
    behaviour::{Act, Rule},
    rabbitmq::Declaration,
    random::Random,
    time::{now_micros, wait_until},
};

use crate::{
    bounds::{BROKER_BOUND, BROKER_BOUND_PER_KEY, CRASH_BOUND, CRASH_BOUND_PER_KEY, RESUME},
    plan::Plan,
    site::limited,
    world::{Delivery, Setting, Site, World},
};

const END: Duration = Duration::from_secs(1_800);
const SOON: Duration = Duration::from_secs(60);
/// How long the application works on a message.
const WORK: Duration = Duration::from_millis(10);

/// Where the broker puts what came too often.
const OVER_LIMIT: &str = "over-limit";
/// A window of messages comes again with each fault: a few times each, until those before it are done.
const LIMITED: &Declaration = &limited(10, OVER_LIMIT);

/// Four queues that drop what comes too often.
fn with_limit<'a>(site: &'a Site, name: &str) -> World<'a> {
    site.node.declare(OVER_LIMIT, &[]);
    let more = "  retry: {maxAttempts: 0, whenExhausted: DeadLetter}\n".to_owned();
    World::new(
        site,
        name,
        Setting { queues: 4, declaration: Some(LIMITED), more, ..Setting::default() },
        WORK,
    )
}

/// Faults of others must not cost a message its place.
fn none_over_limit(site: &Site) {
    assert_eq!(site.node.ready(OVER_LIMIT), 0, "messages reached the delivery limit");
}

/// Keeps enough to do for a scenario of so many rounds.
fn refill(world: &mut World<'_>, count: usize) {
    if world.counts().ready < u64::try_from(count / 4).unwrap() {
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

/// kill -9 of the sidecar that owns the queues: its peer takes them over, and it comes back to stand by.
pub fn killed_sidecar(site: &Site, plan: &Plan) -> String {
    let mut world = with_limit(site, "killed");
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
    none_over_limit(site);
    let most = verdict.counts.most_duplicates;
    format!("resumed within {slowest} ms, at most {most} duplicates a queue and kill; {verdict}")
}

/// `rabbitmqctl close_all_connections` under load: the same sidecar goes on, and what it knows to be done is not repeated.
pub fn closed_connections(site: &Site, plan: &Plan) -> String {
    let mut world = with_limit(site, "closed");
    world.publish(plan.messages_with_faults, 64);
    world.join("one");
    let mut slowest = 0;
    for _ in 0..plan.closings {
        refill(&mut world, plan.messages_with_faults);
        world.await_deliveries("one", now_micros(), 40, SOON);
        let (before, epochs) = (reconnects(&world), world.epochs());
        // A request whose answer was lost with its ownership may come again.
        world.strike("all connections closed", 1, 0, || close_all_connections(site));
        let since = now_micros();
        one_each(&mut world);
        slowest = slowest.max(must_resume(world.await_resumption(since, is_newer(&epochs))));
        wait_until("the new connection is counted", SOON, || reconnects(&world) > before);
    }
    world.await_quiet(END);
    let verdict = world.finish(END);
    none_over_limit(site);
    format!("resumed within {slowest} ms; {verdict}")
}

fn close_all_connections(site: &Site) {
    site.servers.ctl(&["close_all_connections", "a test"]);
}

/// Whether a delivery is of a later ownership of its queue than these: what is left of an earlier one is no resumption.
fn is_newer(epochs: &BTreeMap<Arc<str>, u64>) -> impl Fn(&Delivery) -> bool {
    |one| one.epoch > epochs.get(&one.queue).copied()
}

fn reconnects(world: &World<'_>) -> u64 {
    let metrics = world.sidecars["one"].admin("GET", "/metrics").1;
    let line = metrics.lines().find_map(|line| line.strip_prefix("lockstep_source_reconnects_total "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
}

/// kill -9 of the broker under load: nothing is sent for what it has handed out before, and all goes on with its data.
pub fn killed_broker(site: &Site, plan: &Plan) -> String {
    let mut world = with_limit(site, "broker");
    world.publish(plan.messages_with_faults, 64);
    world.join("one");
    world.join("two");
    let mut slowest = 0;
    for _ in 0..plan.broker_kills {
        refill(&mut world, plan.messages_with_faults);
        world.await_log("200 messages more", SOON, more(&world, 200));
        world.strike("kill of the broker", BROKER_BOUND, 1, || site.servers.kill("r1"));
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
    none_over_limit(site);
    format!("resumed within {slowest} ms of the broker's return; {verdict}")
}

fn more(world: &World<'_>, count: usize) -> impl Fn(&[Delivery]) -> bool + use<> {
    let before = world.deliveries().len();
    move |log| log.len() >= before + count
}

/// Starts the broker again; when it first took a connection.
fn restart(site: &Site) -> u64 {
    let address = site.node.amqp().to_owned();
    thread::scope(|scope| {
        let back = scope.spawn(move || {
            wait_until("the broker is back", Duration::from_secs(120), || {
                TcpStream::connect(&address).is_ok()
            });
            now_micros()
        });
        site.servers.restart("r1");
        back.join().unwrap()
    })
}

/// A node of three is killed that the queues' leaders are on and the sidecar is connected to: it goes on with another.
pub fn lost_node(site: &Site, plan: &Plan) -> String {
    let mut world = World::new(site, "lost", Setting { queues: 2, ..Setting::default() }, WORK);
    let addresses = ["r1", "r2", "r3"].map(|name| site.servers.node(name).amqp().to_owned());
    world.addresses.insert("one".to_owned(), addresses.into());
    world.publish(plan.messages_with_faults, 64);
    // The first attempts of the members of a new queue must not be among what is tested.
    world.join("one");
    world.await_log("200 messages", SOON, |log| log.len() >= 200);
    let epochs = world.epochs();
    world.strike("kill of a node", BROKER_BOUND, 1, || site.servers.kill("r1"));
    let since = now_micros();
    let slowest = must_resume(world.await_resumption(since, is_newer(&epochs)));
    world.publisher = site.servers.node("r2");
    world.publish(200, 64);
    world.await_end(END);
    site.servers.restart("r1");
    let verdict = world.finish(END);
    format!("resumed within {slowest} ms on another node; {verdict}")
}

/// What may break while a storm goes on.
#[derive(Debug, Clone, Copy)]
enum Blow {
    /// kill -9 of the application.
    Application,
    /// kill -9 of a sidecar.
    Sidecar(&'static str),
    /// All connections are closed.
    Connections,
    /// A sidecar ends in order and comes again.
    Restart(&'static str),
    /// kill -9 of the broker.
    Broker,
}

const BLOWS: [Blow; 6] = [
    Blow::Application,
    Blow::Sidecar("a"),
    Blow::Connections,
    Blow::Restart("b"),
    Blow::Broker,
    Blow::Sidecar("b"),
];

impl Blow {
    fn fall(self, world: &mut World<'_>) {
        let site = world.site;
        match self {
            Self::Application => {
                world.fault("kill of the application", CRASH_BOUND_PER_KEY, 0);
                world.app.kill();
                world.app.restart();
            }
            Self::Sidecar(name) => {
                world.kill_sidecar(name, CRASH_BOUND_PER_KEY);
                world.start(name);
            }
            Self::Connections => {
                let close = || close_all_connections(site);
                world.strike("all connections closed", CRASH_BOUND_PER_KEY, 1, close);
            }
            Self::Restart(name) => {
                world.leave(name);
                world.start(name);
            }
            Self::Broker => {
                let kill = || site.servers.kill("r1");
                world.strike("kill of the broker", BROKER_BOUND_PER_KEY, 1, kill);
                restart(site);
            }
        }
    }
}

/// Errors at random, and everything else that breaks, over two queues with keys: each message is done, in the order of its
/// key.
pub fn storm(site: &Site, plan: &Plan) -> String {
    let retry =
        "retry: {maxAttempts: 0, whenExhausted: Block, backoff: {initialMilliseconds: 20, maxSeconds: 1}}";
    let health = "delivery: {healthCheck: {periodSeconds: 1, failureThreshold: 2}}";
    let setting = Setting {
        order: Order::PerKey,
        queues: 2,
        more: format!("  {retry}\n  {health}\n"),
        ..Setting::default()
    };
    let mut world = World::new(site, "storm", setting, WORK);
    let mut random = Random::new(1);
    let mut trouble = || -> Vec<Rule> {
        let mut digit = || random.below(10);
        let bodies: BTreeSet<String> = (0..4).map(|_| format!("{}{},", digit(), digit())).collect();
        let acts = [Act::Answer(500), Act::Answer(503), Act::Close, Act::Reset, Act::Answer(429)];
        let rules = bodies.iter().zip(acts).map(|(body, act)| Rule::body(body, act).times(10).after(WORK));
        rules.chain([Rule::always(Act::Answer(200)).after(WORK)]).collect()
    };
    let share = plan.storm / BLOWS.len();
    world.publish(share, 100);
    ["a", "b"].iter().for_each(|name| world.start(name));
    for blow in BLOWS {
        world.app.set_rules(trouble());
        world.publish(share, 100);
        world.await_log("it goes on", SOON, more(&world, share / 2));
        blow.fall(&mut world);
    }
    world.await_quiet(END);
    let verdict = world.finish(END);
    format!("{verdict}")
}
