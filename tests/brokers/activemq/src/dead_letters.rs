//! Messages that are given up.

use std::time::Duration;

use lockstep_history::How;
use lockstep_tests_support::{
    behaviour::{Act, Rule},
    time::wait_until,
};

use crate::{
    plan::Plan,
    world::{Setting, Site, World},
};

const END: Duration = Duration::from_secs(120);
const RETRY: &str = "  retry: {maxAttempts: 3, whenExhausted: DeadLetter, backoff: {initialMilliseconds: 20, maxSeconds: 1}}\n";
/// The property in which the broker says why a message is a dead letter.
const CAUSE: &str = "dlqDeliveryFailureCause";

fn attempts(world: &World<'_>, place: u64) -> Vec<u32> {
    world.deliveries().iter().filter(|one| one.position == place).map(|one| one.attempt).collect()
}

/// What the application refuses for good is with the queue's dead letters, whole, with its cause, and in nobody's way; nothing
/// else is.
pub fn by_the_broker(site: &Site, _: &Plan) -> String {
    let setting = Setting { more: RETRY.to_owned(), ..Setting::default() };
    let mut world = World::new(site, "letters", setting, Duration::ZERO);
    world.app.set_rules(vec![Rule::body("poison", Act::Answer(500))]);
    world.publish_bodies(["before", "poison", "after"]);
    let queue = world.queues[0].clone();
    world.join("one");
    wait_until("the dead letter is there", END, || site.dead_letters(&queue) == 1);
    world.excuse(&queue, 1, How::DeadLetter);
    let verdict = world.finish(END);
    assert_eq!(attempts(&world, 1), [1, 2, 3]);
    let taken = site.node.browse(&site.dead_letters_of(&queue));
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!((taken[0].content.as_slice(), taken[0].place()), (&b"poison"[..], Some(1)));
    let cause = taken[0].property(CAUSE).unwrap_or_default();
    assert!(cause.contains("java.lang.Exception"), "the cause is missing: {:?}", taken[0]);
    format!("{cause}; {verdict}")
}

/// What comes from a queue of dead letters would be deleted there: it waits in its place, and that is told.
pub fn kept(site: &Site, _: &Plan) -> String {
    let setting = Setting { more: RETRY.to_owned(), prefix: "DLQ.", ..Setting::default() };
    let mut world = World::new(site, "kept", setting, Duration::ZERO);
    world.app.set_rules(vec![Rule::body("poison", Act::Answer(500))]);
    world.publish_bodies(["before", "poison", "after"]);
    world.join("one");
    wait_until("it is told", END, || world.sidecars["one"].status().to_string().contains("DeadLetterFailed"));
    let said = world.sidecars["one"].process.output();
    assert!(said.contains("is one for dead letters"), "{said}");
    assert_eq!(world.counts().unsettled, 2, "the message is gone");
    assert!(attempts(&world, 2).is_empty(), "it was passed over");
    world.app.set_rules(Vec::new());
    world.kill_sidecar("one", 1);
    world.join("one");
    format!("{}", world.finish(END))
}
