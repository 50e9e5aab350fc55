//! The broker ends consumers that acknowledge nothing for long.

use std::time::Duration;

use lockstep_tests_support::{
    activemq::Outgoing,
    behaviour::{Act, Rule},
};

use crate::{
    bounds::CRASH_BOUND,
    plan::Plan,
    world::{Setting, Site, World},
};

const END: Duration = Duration::from_secs(120);
/// Longer than the broker waits for an acknowledgement, twice.
const SLOW: Duration = Duration::from_secs(8);

/// A message is worked on for longer than the broker waits: the end of the consumer is told with the cure, what runs is not
/// acknowledged through it, the message comes again, and the queue goes on in order.
pub fn slow(site: &Site, _: &Plan) -> String {
    let setting = Setting { prefix: "slow.", ..Setting::default() };
    let mut world = World::new(site, "aborted", setting, Duration::ZERO);
    world.app.set_rules(vec![Rule::body("stuck", Act::Answer(200)).after(SLOW).times(2)]);
    let queue = world.queues[0].clone();
    world.publish_bodies(["before", "stuck", "behind"]);
    world.fault("the broker ends the consumer", 2 * CRASH_BOUND, 2);
    world.join("one");
    let told = world.await_reason("one", "SlowConsumer");
    assert!(told.contains(&queue) && told.contains("slowConsumerStrategy"), "{told}");
    let tries = |count: usize| {
        move |log: &[crate::world::Delivery]| log.iter().filter(|one| one.position == 1).count() >= count
    };
    world.await_log("the message comes again", END, tries(2));
    world.publish_to(&queue, vec![Outgoing::of("x"); 20]);
    let verdict = world.finish(END);
    let tries = world.deliveries().iter().filter(|one| one.position == 1).count();
    format!("{tries} deliveries of the slow message; {verdict}")
}
