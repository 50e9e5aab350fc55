//! The broker changes under a running sidecar.

use std::time::Duration;

use lockstep_history::How;
use lockstep_tests_support::{
    behaviour::{Act, Rule},
    rabbitmq::Outgoing,
    time::{now_micros, wait_until},
};

use crate::{
    bounds::{CRASH_BOUND, RESUME},
    plan::Plan,
    world::{Delivery, Setting, Site, World},
};

const END: Duration = Duration::from_secs(300);
const SOON: Duration = Duration::from_secs(60);

/// A memory alarm: consuming and acknowledging go on, while the dead letter waits that can't be published, and with it its
/// queue alone. When the alarm is over it is published, once.
pub fn memory_alarm(site: &Site, _: &Plan) -> String {
    let dead = "alarm-dead";
    site.node.declare(dead, &[]);
    let retry = "retry: {maxAttempts: 0, whenExhausted: DeadLetter, backoff: {initialMilliseconds: 20, maxSeconds: 1}}";
    let more = format!("  {retry}\n  deadLetter: {{policy: Queue, name: {dead}}}\n");
    let setting = Setting { queues: 2, more, ..Setting::default() };
    let mut world = World::new(site, "alarm", setting, Duration::ZERO);
    let work = Duration::from_millis(10);
    let rules =
        |work| vec![Rule::body("poison", Act::Answer(400)), Rule::always(Act::Answer(200)).after(work)];
    world.app.set_rules(rules(work));
    let [other, poisoned] = [0, 1].map(|index| world.queues[index].clone());
    // A first dead letter, so that the connection for them is there: the one that the alarm blocks.
    let first = world.publish_to(&poisoned, vec![Outgoing::of("poison")])[0];
    world.join("one");
    wait_until("the first dead letter is there", SOON, || site.node.ready(dead) == 1);
    world.excuse(&poisoned, first, How::DeadLetter);
    // Held until the alarm is on.
    world.app.set_rules(vec![Rule::always(Act::Answer(500))]);
    world.publish_to(&other, vec![Outgoing::of("x".repeat(1_024)); 1_500]);
    let poison = world.publish_to(&poisoned, vec![Outgoing::of("poison"); 3]);
    world.publish_to(&poisoned, vec![Outgoing::of("behind")]);
    site.servers.ctl(&["set_vm_memory_high_watermark", "0"]);
    let is_alarmed = || site.node.api("GET", "/nodes", "").is_some_and(|nodes| nodes[0]["mem_alarm"] == true);
    wait_until("the alarm is on", SOON, is_alarmed);
    let alarm = now_micros();
    // The poison was stored before, behind a message that is done only now.
    world.app.set_rules(rules(work));
    world.await_log("consuming goes on", SOON, |log| {
        log.iter().filter(|one| *one.queue == *other && one.start > alarm).count() >= 300
    });
    wait_until("acknowledging goes on", SOON, || {
        site.node
            .counts(&other)
            .is_some_and(|counts| counts.ready < 1_200 && counts.unacknowledged <= CRASH_BOUND)
    });
    // A broker takes one publish of each connection before it blocks it.
    let passed = site.node.ready(dead) - 1;
    assert!(passed <= 1, "{passed} of 3 dead letters were published in spite of the alarm");
    world.await_reason("one", "BrokerBlocked");
    let asked = now_micros();
    site.servers.ctl(&["set_vm_memory_high_watermark", "absolute", "1GiB"]);
    let cleared = now_micros();
    world.publish_to(&other, vec![Outgoing::of("last")]);
    let resumes = Duration::from_micros(RESUME);
    let goes_on = |queue: &str, since: u64| {
        let first = |one: &&Delivery| *one.queue == *queue && one.start > since && one.done;
        world.await_log("both queues go on", resumes, |log| log.iter().any(|one| first(&one)));
        world.deliveries().iter().find(first).unwrap().start.saturating_sub(cleared)
    };
    // The dead letters of the one are confirmed then, maybe before we are told that the alarm is over.
    let after = goes_on(&poisoned, asked).max(goes_on(&other, cleared)) / 1_000;
    assert!(after * 1_000 <= RESUME, "it took {after} ms to go on");
    assert_eq!(site.node.ready(dead), 4, "not all dead letters are there");
    wait_until("nothing is told any more", SOON, || world.source_of("one")["reason"] == "");
    for place in poison {
        world.excuse(&poisoned, place, How::DeadLetter);
    }
    let verdict = world.finish(END);
    // One publish was on its way when the broker stopped to read; its confirm came late.
    assert_eq!(site.node.ready(dead), 4, "a dead letter was published twice");
    format!("{passed} of 3 dead letters passed the alarm, all went on {after} ms after it; {verdict}")
}

/// A queue is deleted while messages of it are out, declared again in a way that keeps no order, and at last as it was: what
/// is left of it is not delivered, nor what the wrong queue has; each trouble is told with the cure, and consumption resumes.
pub fn deleted_queue(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "deleted", Setting::default(), Duration::from_millis(50));
    let queue = world.queues[0].clone();
    world.publish(200, 8);
    world.join("one");
    world.await_deliveries("one", 0, 20, SOON);
    world.fault("the queue is deleted", 1, 0);
    site.node.delete(&queue);
    let told = world.await_reason("one", "QueueNotFound");
    assert!(told.contains("declare queue") && told.contains("x-single-active-consumer"), "{told}");
    let gone = now_micros();
    let done: Vec<u64> = world.deliveries().iter().filter(|one| one.done).map(|one| one.position).collect();
    for place in (0..200).filter(|place| !done.contains(place)) {
        world.excuse(&queue, place, How::Skip);
    }
    site.node.declare(&queue, &[]);
    site.node.publish(&queue, &[Outgoing::of("of the wrong queue")]);
    let told = world.await_reason("one", "NotSingleActive");
    assert!(told.contains("declare queue") && told.contains("x-single-active-consumer"), "{told}");
    let ready = site.node.ready(&queue);
    assert_eq!(ready, 1, "a message of a queue without a single active consumer was taken");
    site.node.delete(&queue);
    site.node.declare(&queue, site.ordered);
    let back = now_micros();
    world.publish(100, 8);
    world.await_log("the new queue is consumed", SOON, |log| log.iter().any(|one| one.start > back));
    let log = world.deliveries();
    let first = log.iter().find(|one| one.start > gone).unwrap();
    assert_eq!(first.position, 200, "a message of a deleted queue was delivered after its end: {first:?}");
    let after = first.start - back;
    assert!(after <= RESUME, "it took {} ms to go on", after / 1_000);
    let verdict = world.finish(END);
    format!("resumed after {} ms; {verdict}", after / 1_000)
}

/// A queue that is missing at the start is told and holds up no other; it is consumed once it is there.
pub fn late_queue(site: &Site, _: &Plan) -> String {
    let setting = Setting { queues: 2, ..Setting::default() };
    let mut world = World::without_queues(site, "late", setting, Duration::ZERO);
    let [there, late] = [0, 1].map(|index| world.queues[index].clone());
    site.node.declare(&there, site.ordered);
    world.publish_to(&there, vec![Outgoing::of("x"); 20]);
    world.await_check("one", |code, said| {
        code == Some(1) && said.contains("QueueNotFound") && said.contains(&format!("name='{late}'"))
    });
    world.join("one");
    world.await_deliveries("one", 0, 20, SOON);
    let told = world.await_reason("one", "QueueNotFound");
    assert!(told.contains(&late) && told.contains("declare queue"), "{told}");
    // On the server of this test that limit would drop messages.
    assert!(!told.contains("\"x-delivery-limit\":-1}"), "{told}");
    site.node.declare(&late, site.ordered);
    let back = now_micros();
    world.publish_to(&late, vec![Outgoing::of("x"); 20]);
    world.await_log("the late queue is consumed", SOON, |log| log.iter().any(|one| *one.queue == *late));
    let after = (now_micros() - back) / 1_000;
    assert!(after * 1_000 <= RESUME, "it took {after} ms");
    wait_until("nothing is told any more", SOON, || world.source_of("one")["reason"] == "");
    format!("consumed after {after} ms; {}", world.finish(END))
}
