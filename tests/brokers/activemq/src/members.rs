//! Members come and go: nothing is lost, nothing comes twice, nothing out of order.

use std::time::Duration;

use lockstep_history::Order;
use lockstep_tests_support::time::now_micros;

use crate::{
    plan::Plan,
    world::{Delivery, Setting, Site, World},
};

/// So long a scenario without faults may take for its last messages.
const END: Duration = Duration::from_secs(1_800);

/// Four queues in order, handed from member to member.
pub fn relay(site: &Site, plan: &Plan) -> String {
    let setting = Setting { queues: 4, ..Setting::default() };
    hand_on(site, plan, "members", setting, Duration::from_millis(4), 64).1
}

/// One queue with 200 keys, which are message groups; then two with 100 each, which a property has. The broker gives what
/// comes back its place again.
pub fn per_key(site: &Site, plan: &Plan) -> String {
    let order = Order::PerKey;
    let setting =
        |queues, by_property| Setting { order, queues, by_property, prefix: "strict.", ..Setting::default() };
    let work = Duration::from_millis(40);
    let half = Plan { messages: plan.messages / 2, ..*plan };
    let (by_group, one) = hand_on(site, &half, "keys", setting(1, false), work, 200);
    let (by_property, two) = hand_on(site, &half, "more-keys", setting(2, true), work, 200);
    assert!(by_group > 1 && by_property > 2, "keys must run beside each other: {by_group}, {by_property}");
    format!("one queue, {by_group} at once: {one}; two queues, {by_property} at once: {two}")
}

/// How many requests ran at once, and the verdict.
fn hand_on(
    site: &Site,
    plan: &Plan,
    name: &str,
    setting: Setting,
    work: Duration,
    keys: usize,
) -> (usize, String) {
    let mut world = World::new(site, name, setting, work);
    world.publish(plan.messages, keys);
    world.join("member-0");
    world.await_deliveries("member-0", 0, 50, Duration::from_secs(30));
    for round in 1..=plan.joins {
        let (old, new) = (format!("member-{}", round - 1), format!("member-{round}"));
        world.join(&new);
        let since = now_micros();
        world.leave(&old);
        world.await_deliveries(&new, since, 50, Duration::from_secs(60));
    }
    world.await_quiet(END);
    let verdict = world.finish(END);
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    let log = world.deliveries();
    assert_eq!(log.iter().map(|one| one.attempt).max(), Some(1), "an attempt was charged");
    (at_once(&log), format!("{verdict}"))
}

/// The most requests that ran at the same time.
fn at_once(log: &[Delivery]) -> usize {
    let starts = log.iter().map(|one| (one.start, 1));
    let ends = log.iter().filter_map(|one| one.end).map(|end| (end, -1));
    let mut changes: Vec<(u64, isize)> = starts.chain(ends).collect();
    changes.sort_unstable();
    let running = changes.iter().scan(0, |running, (_, change)| {
        *running += change;
        Some(*running)
    });
    running.max().unwrap_or_default().unsigned_abs()
}
