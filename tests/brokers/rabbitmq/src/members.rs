//! Members come and go: nothing is lost, nothing comes twice, nothing out of order.

use std::time::Duration;

use lockstep_history::Order;
use lockstep_tests_support::time::now_micros;

use crate::{
    plan::Plan,
    world::{Setting, Site, World},
};

/// So long a scenario without faults may take for its last messages.
const END: Duration = Duration::from_secs(1_800);

/// Four queues in order, handed from member to member.
pub fn relay(site: &Site, plan: &Plan) -> String {
    let setting = Setting { queues: 4, ..Setting::default() };
    hand_on(site, plan, "members", setting, Duration::from_millis(8), 64)
}

/// One queue with 200 keys, then two with 100 each.
pub fn per_key(site: &Site, plan: &Plan) -> String {
    let setting = |queues| Setting { order: Order::PerKey, queues, ..Setting::default() };
    let work = Duration::from_millis(40);
    let half = Plan { messages: plan.messages / 2, ..*plan };
    let one = hand_on(site, &half, "keys", setting(1), work, 200);
    let two = hand_on(site, &half, "more-keys", setting(2), work, 200);
    format!("one queue: {one}; two queues: {two}")
}

fn hand_on(site: &Site, plan: &Plan, name: &str, setting: Setting, work: Duration, keys: usize) -> String {
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
    let verdict = world.finish(END);
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    let attempts = world.deliveries().iter().map(|one| one.attempt).max();
    assert_eq!(attempts, Some(1), "an attempt was charged");
    format!("{verdict}")
}

/// One classic queue, shared by two members at a time.
pub fn unordered(site: &Site, plan: &Plan) -> String {
    let setting = Setting { order: Order::Unordered, ..Setting::default() };
    let mut world = World::new(site, "unordered", setting, Duration::from_millis(40));
    world.publish(plan.messages / 2, 1);
    world.join("stays");
    for round in 0..plan.joins {
        let name = format!("guest-{round}");
        let since = now_micros();
        world.join(&name);
        // What "stays" has it keeps, so that only new messages are shared.
        world.publish(200, 1);
        for name in ["stays", &name] {
            world.await_deliveries(name, since, 20, Duration::from_secs(60));
        }
        world.leave(&name);
    }
    let verdict = world.finish(END);
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    format!("{verdict}")
}
