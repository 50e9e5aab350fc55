//! Sidecars and brokers are killed.

use std::{collections::BTreeMap, net::TcpStream, sync::Arc, thread, time::Duration};

use lockstep_history::{Order, Rules};
use lockstep_tests_support::time::{now_micros, wait_until};

use crate::{
    plan::Plan,
    world::{CRASH_BOUND, Setting, Site, World},
};

const END: Duration = Duration::from_secs(1_800);
/// How long the application works on a message, in milliseconds.
const WORK: u64 = 10;

/// kill -9 of sidecars under load: restarted under its name, or left to its peer.
pub fn killed_sidecar(site: &Site, plan: &Plan) -> String {
    let mut world = World::new(site, "killed", Setting::default(), Duration::from_millis(WORK));
    world.publish(plan.messages_with_faults, 64, |_| "a");
    let mut names = ["a-0".to_owned(), "b-0".to_owned()];
    names.iter().for_each(|name| world.start(name));
    for round in 0..plan.sidecar_kills {
        let since = now_micros();
        names.iter().for_each(|name| world.await_deliveries(name, since, 20, Duration::from_secs(60)));
        let victim = &mut names[round % 2];
        world.kill(victim);
        // Every third comes back as somebody else, so that its locks must expire.
        if round % 3 == 2 {
            *victim = format!("{}-{}", &victim.split('-').next().unwrap_or_default(), round + 1);
        }
        let next = victim.clone();
        world.start(&next);
        if world.history_is_short(plan, round) {
            world.publish(plan.messages_with_faults / 2, 64, |_| "a");
        }
    }
    world.await_end(END);
    names.iter().for_each(|name| world.leave(name));
    let verdict = world.judge(&Rules::new(Order::PerQueue), []);
    format!("at most {} duplicates a queue and kill; {verdict}", verdict.counts.most_duplicates)
}

impl World<'_> {
    /// Whether the load may run out before the last kill.
    fn history_is_short(&self, plan: &Plan, round: usize) -> bool {
        round + 1 < plan.sidecar_kills
            && self.deliveries().len() * 4 > plan.messages_with_faults * (2 + round)
    }
}

/// kill -9 of a broker under load. It saves committed positions every 5 s: so much of the work may come again, and
/// what one crash costs.
pub fn killed_broker(site: &Site, plan: &Plan) -> String {
    const SAVED_EVERY_MS: u64 = 5_000;
    let bound = SAVED_EVERY_MS * 12 / 10 / WORK + CRASH_BOUND;
    let mut world = World::new(site, "broker", Setting::default(), Duration::from_millis(WORK));
    world.publish(plan.messages_with_faults, 64, |_| "a");
    world.join("one");
    world.join("two");
    let mut slowest = 0;
    for _ in 0..plan.broker_kills {
        let since = now_micros();
        for name in ["one", "two"] {
            world.await_deliveries(name, since, 200, Duration::from_secs(60));
        }
        // A look at a commit between the note and the kill would seem to be undone without a fault.
        world.unwatched_fault("kill of broker-b", (bound, 1), || site.servers.kill("broker-b"));
        let back = restart_broker_b(site);
        let on_b = |queue: &str| queue.contains("/broker-b/");
        world.await_log("all queues of broker-b go on", Duration::from_secs(30), |log| {
            let resumed = log.iter().filter(|one| one.start > back && on_b(&one.queue));
            resumed.map(|one| &*one.queue).collect::<std::collections::BTreeSet<_>>().len() == 4
        });
        let mut first: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for one in world.deliveries().iter().filter(|one| one.start > back && on_b(&one.queue)) {
            first.entry(Arc::clone(&one.queue)).or_insert(one.start - back);
        }
        slowest = slowest.max(first.into_values().max().unwrap_or_default());
    }
    assert!(slowest <= 10_000_000, "a queue resumed {} ms after the broker's return", slowest / 1_000);
    world.await_end(END);
    let verdict = world.judge(&Rules::new(Order::PerQueue), []);
    format!("queues resumed within {} ms, bound {bound}; {verdict}", slowest / 1_000)
}

/// Starts it again; when it first took a connection, which is long before the name server lists it.
fn restart_broker_b(site: &Site) -> u64 {
    let address = site.servers.broker("broker-b");
    thread::scope(|scope| {
        let back = scope.spawn(move || {
            wait_until("broker-b is back", Duration::from_secs(120), || TcpStream::connect(&address).is_ok());
            now_micros()
        });
        site.servers.restart("broker-b");
        back.join().unwrap()
    })
}
