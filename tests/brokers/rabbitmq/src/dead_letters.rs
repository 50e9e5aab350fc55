//! Messages that are given up.

use std::time::Duration;

use lockstep_history::{How, Order, Verdict};
use lockstep_tests_support::{
    behaviour::{Act, Rule},
    rabbitmq::{Declaration, Outgoing, Taken},
    time::wait_until,
};

use crate::{
    plan::Plan,
    site::limited,
    world::{Setting, Site, World},
};

const END: Duration = Duration::from_secs(120);
const RETRY: &str = "  retry: {maxAttempts: 3, whenExhausted: DeadLetter, backoff: {initialMilliseconds: 20, maxSeconds: 1}}\n";
const DEAD: &str = "dead-by-broker";
/// Both ways to lose its place: by us, and by the limit.
const WITH_EXCHANGE: &Declaration = &limited(20, DEAD);

const BY_LIMIT: &str = "dead-by-limit";
/// As many deliveries as a few lost connections cost.
const LIMITED: &Declaration = &limited(2, BY_LIMIT);

fn poisoned<'a>(site: &'a Site, name: &str, setting: Setting) -> World<'a> {
    let mut world = World::new(site, name, setting, Duration::ZERO);
    world.app.set_rules(vec![Rule::body("poison", Act::Answer(500))]);
    world.publish_bodies(["before", "poison", "after"]);
    world
}

/// What every dead letter must be: whole, once, after its attempts, and in nobody's way. Its properties as they are written,
/// and the verdict.
fn must_be_dead(world: &mut World<'_>, dead: &str) -> (String, Verdict) {
    let queue = world.queues[0].clone();
    wait_until("the dead letter is there", END, || world.site.node.ready(dead) == 1);
    world.excuse(&queue, 1, How::DeadLetter);
    let verdict = world.finish(END);
    let attempts: Vec<u32> =
        world.deliveries().iter().filter(|one| one.position == 1).map(|one| one.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let taken = world.site.node.peek(dead, 5);
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!(taken[0].body, b"poison");
    let properties = String::from_utf8_lossy(&taken[0].properties).into_owned();
    assert!(properties.contains(&format!("{queue}-1")), "the id is missing: {properties}");
    (properties, verdict)
}

/// Published, confirmed, to a queue that the manifest names: with where it comes from.
pub fn to_a_queue(site: &Site, _: &Plan) -> String {
    let dead = "dead-by-name";
    site.node.declare(dead, &[]);
    let more = format!("{RETRY}  deadLetter: {{policy: Queue, name: {dead}}}\n");
    let mut world = poisoned(site, "letters", Setting { more, ..Setting::default() });
    world.join("one");
    let (properties, verdict) = must_be_dead(&mut world, dead);
    for part in ["x-lockstep-queue", "letters-0", "x-lockstep-attempts", "x-lockstep-consumer-group"] {
        assert!(properties.contains(part), "{part} is missing: {properties}");
    }
    format!("{verdict}")
}

/// Rejected, where the queue's declaration has a dead-letter exchange. Where it has none nothing is rejected, since it would
/// be lost: the message waits.
pub fn by_the_broker(site: &Site, _: &Plan) -> String {
    site.node.declare(DEAD, &[]);
    let setting = || Setting { more: RETRY.to_owned(), ..Setting::default() };
    let declaration = Some(WITH_EXCHANGE);
    let mut world = poisoned(site, "rejected", Setting { declaration, ..setting() });
    world.join("one");
    let (properties, verdict) = must_be_dead(&mut world, DEAD);
    assert!(properties.contains("x-first-death-reason"), "the broker did not dead-letter it: {properties}");

    let mut world = poisoned(site, "kept", Setting { order: Order::PerKey, ..setting() });
    world.join("one");
    wait_until("the queue is blocked", END, || {
        world.sidecars["one"].status().to_string().contains("DeadLetterFailed")
    });
    let waits = world.counts();
    assert!(waits.ready + waits.unacknowledged >= 1, "the message is gone: {waits:?}");
    world.app.set_rules(Vec::new());
    world.await_deliveries("one", 0, 1, END);
    drop(world.sidecars.remove("one"));
    wait_until("the message is back in its queue", END, || site.node.ready(&world.queues[0]) >= 1);
    format!("{verdict}")
}

/// The queue for dead letters is not there: the source keeps the message until it is.
pub fn unroutable(site: &Site, _: &Plan) -> String {
    let dead = "dead-too-late";
    let more = format!("{RETRY}  deadLetter: {{policy: Queue, name: {dead}}}\n");
    let mut world = poisoned(site, "unroutable", Setting { more, ..Setting::default() });
    world.join("one");
    let told = world.await_reason("one", "DeadLetterQueueNotFound");
    assert!(told.contains(dead), "{told}");
    wait_until("the source still has it", END, || world.counts().unacknowledged >= 1);
    assert_eq!(world.deliveries().iter().filter(|one| one.position == 2).count(), 0, "it was passed over");
    site.node.declare(dead, &[]);
    format!("{}", must_be_dead(&mut world, dead).1)
}

/// Connections are lost more often than the delivery limit bears: the broker dead-letters what was out each time, also what
/// never reached the application, as the group was warned. Nothing is lost, and the rest comes in order. (Where there is no
/// exchange for dead letters, an ordered group refuses such a queue.)
pub fn by_the_limit(site: &Site, _: &Plan) -> String {
    const MESSAGES: usize = 60;
    site.node.declare(BY_LIMIT, &[]);
    let (declaration, more) = (Some(LIMITED), RETRY.replace("maxAttempts: 3", "maxAttempts: 0"));
    let mut world =
        World::new(site, "limit", Setting { declaration, more, ..Setting::default() }, Duration::ZERO);
    world.app.set_rules(vec![Rule::body("stuck", Act::Answer(500))]);
    let queue = world.queues[0].clone();
    world.publish_bodies(["stuck"]);
    world.publish_to(&queue, vec![Outgoing::of("x"); MESSAGES - 1]);
    world.join("one");
    let told = world.await_reason("one", "DeliveryLimitFinite");
    assert!(told.contains("delivery limit of 2") && told.contains(&queue), "{told}");
    let mut closings = 0;
    while site.node.ready(BY_LIMIT) == 0 {
        closings += 1;
        assert!(closings < 6, "the limit of 2 was not reached by {closings} lost connections");
        let before = world.deliveries().len();
        world.await_log("it is tried again", END, |log| log.len() > before + 1);
        site.servers.ctl(&["close_all_connections", "a test"]);
    }
    world.fault("the limit was reached", 1, 0);
    world.app.set_rules(Vec::new());
    wait_until("what is left is delivered", END, || {
        let dead = usize::try_from(site.node.ready(BY_LIMIT)).unwrap();
        world.deliveries().iter().filter(|one| one.done).count() + dead >= MESSAGES
    });
    let dead: Vec<u64> = site.node.peek(BY_LIMIT, MESSAGES).iter().filter_map(Taken::place).collect();
    assert!(dead.contains(&0) && dead.len() < MESSAGES, "{dead:?}");
    for place in &dead {
        world.excuse(&queue, *place, How::DeadLetter);
    }
    let verdict = world.finish(END);
    format!("{} dead letters after {closings} lost connections; {verdict}", dead.len())
}
