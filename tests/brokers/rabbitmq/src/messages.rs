//! Strange and big messages arrive as they are, and harm nothing.

use std::{fs, time::Duration};

use lockstep_history::{How, Order};
use lockstep_tests_support::{
    app::{App, Options, Request},
    behaviour::{Act, Rule},
    rabbitmq::{Outgoing, nested},
    strange::{HOSTILE, must_be_unharmed},
    time::wait_until,
};

use crate::{
    plan::Plan,
    world::{Delivery, Setting, Site, World},
};

const LIMIT: Duration = Duration::from_secs(120);
/// The largest message that 3.10 takes by default.
const LARGEST: usize = 128 << 20;
/// More than all bodies together may hold.
const OVER_BUDGET: usize = 65 << 20;
/// Bytes of bodies that a sidecar may hold, and what it needs beside them, in KiB.
const BUDGET: u64 = 64 << 10;
const BESIDE: u64 = 64 << 10;

fn with_headers<const N: usize>(headers: [(&str, &str); N]) -> Outgoing {
    let headers = headers.map(|(name, value)| (name.into(), value.into()));
    Outgoing { headers: headers.into(), ..Outgoing::of("x") }
}

/// Headers that want to be headers of HTTP, are no text, are far too many, or have tables in them; bodies of no byte and of
/// all bytes; a message without an id.
pub fn strange(site: &Site, _: &Plan) -> String {
    let hostile = with_headers(HOSTILE);
    let not_text = Outgoing { headers: vec![(b"b\xff".into(), b"\xfe\r\n".into())], ..Outgoing::of("y") };
    let many: Vec<(Vec<u8>, Vec<u8>)> =
        (0..3_500).map(|index| (format!("p{index}").into(), b"1".into())).collect();
    let event = with_headers([
        ("cloudEvents_specversion", "1.0"),
        ("cloudEvents_id", "e-1"),
        ("cloudEvents_source", "/shop"),
        ("cloudEvents_type", "order.paid"),
    ]);
    let messages = vec![
        Outgoing::of(""),
        not_text,
        Outgoing::of((0..=255).collect::<Vec<u8>>()),
        Outgoing { headers: many, ..Outgoing::of("x") },
        hostile,
        Outgoing { raw_headers: nested("deep", 3), ..Outgoing::of("z") },
        event,
        Outgoing { id: Some(String::new()), ..Outgoing::of("no id") },
        Outgoing::of("last"),
    ];
    let mut world = World::new(site, "strange", Setting::default(), Duration::ZERO);
    let app = App::start(Options { log: Some(world.app.log()), ..Options::default() }).unwrap();
    world.callback = Some(format!("http://{}/one", app.address()));
    let bodies: Vec<Vec<u8>> = messages.iter().map(|message| message.body.clone()).collect();
    let queue = world.queues[0].clone();
    world.publish_to(&queue, messages);
    world.join("one");
    let requests: Vec<Request> = bodies.iter().map(|_| app.next_request(LIMIT)).collect();
    for (request, body) in requests.iter().zip(&bodies) {
        must_be_unharmed(request, body);
    }
    let header = |index: usize, name: &str| requests[index].header(name).map(str::to_owned);
    assert_eq!(
        header(1, "lockstep-property-b%ff").as_deref(),
        Some("%FE%0D%0A"),
        "{:?}",
        requests[1].headers
    );
    assert!(requests[3].number("lockstep-properties-dropped").is_some_and(|dropped| dropped > 3_000));
    let nested = header(5, "lockstep-property-deep");
    assert!(nested.as_deref().is_some_and(|json| json.contains("%22n%22:{%22n%22:")), "{nested:?}");
    assert_eq!(header(6, "ce-id").as_deref(), Some("e-1"), "{:?}", requests[6].headers);
    assert_eq!(header(6, "ce-type").as_deref(), Some("order.paid"));
    assert_eq!(header(0, "ce-idsynthetic"), None, "{:?}", requests[0].headers);
    assert_eq!(header(7, "ce-idsynthetic").as_deref(), Some("true"), "{:?}", requests[7].headers);
    format!("{}", world.finish(LIMIT))
}

fn is_undecodable(world: &World<'_>) -> bool {
    world.sidecars["one"].status().to_string().contains("ndecodable")
}

/// Headers that are nested 5,000 levels deep, once with what would be in its way behind it: told, and held in its place while
/// another queue goes on; or dead-lettered, with the messages behind it going on.
pub fn undecodable(site: &Site, _: &Plan) -> String {
    let deep = || Outgoing { raw_headers: nested("deep", 5_000), ..Outgoing::of("deep") };
    let mut world = World::new(site, "deep", Setting { queues: 2, ..Setting::default() }, Duration::ZERO);
    let [queue, other] = [0, 1].map(|index| world.queues[index].clone());
    world.publish_to(&queue, vec![Outgoing::of("before")]);
    site.node.publish(&queue, &[deep(), Outgoing::of("behind")]);
    world.join("one");
    world.await_deliveries("one", 0, 1, LIMIT);
    wait_until("the message that can't be decoded is told", LIMIT, || is_undecodable(&world));
    world.publish_to(&other, vec![Outgoing::of("x"); 20]);
    let of = |queue: &str| world.deliveries().iter().filter(|one| *one.queue == *queue).count();
    wait_until("the other queue goes on", LIMIT, || of(&other) == 20);
    assert_eq!(of(&queue), 1, "what is behind it was delivered");
    assert!(world.sidecars.get_mut("one").unwrap().process.is_running());
    world.leave("one");
    world.judge();

    let dead = "deep-dead";
    site.node.declare(dead, &[]);
    let retry = "  retry: {undecodable: DeadLetter}\n";
    let more = format!("{retry}  deadLetter: {{policy: Queue, name: {dead}}}\n");
    let mut world = World::new(site, "deep-letters", Setting { more, ..Setting::default() }, Duration::ZERO);
    let queue = world.queues[0].clone();
    world.publish_to(&queue, vec![Outgoing::of("before"), deep(), Outgoing::of("behind")]);
    world.join("one");
    wait_until("the dead letter is there", LIMIT, || site.node.ready(dead) == 1);
    world.excuse(&queue, 1, How::DeadLetter);
    let verdict = world.finish(LIMIT);
    assert_eq!(site.node.peek(dead, 2)[0].body, b"deep");
    format!("{verdict}")
}

/// The most memory that a process has had in use, in KiB.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Twelve messages of 16 MiB, with keys of their own, before a slow application: all that is ahead would be 192 MiB.
pub fn big(site: &Site, _: &Plan) -> String {
    let setting = Setting { order: Order::PerKey, ..Setting::default() };
    let mut world = World::new(site, "big", setting, Duration::ZERO);
    let queue = world.queues[0].clone();
    let slow = Duration::from_millis(300);
    world.app.set_rules(vec![Rule::always(Act::Answer(200)).after(slow)]);
    let message = |key: usize| Outgoing { key: Some(format!("{key}")), ..Outgoing::of(vec![b'x'; 16 << 20]) };
    for key in 0..12 {
        world.publish_to(&queue, vec![message(key)]);
    }
    world.join("one");
    world.await_end(LIMIT);
    let peak = peak(world.sidecars["one"].process.pid());
    let verdict = world.finish(LIMIT);
    assert!(peak <= BUDGET + BESIDE, "the sidecar took {} MiB", peak >> 10);
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    format!("at most {} MiB resident; {verdict}", peak >> 10)
}

/// Two messages of 128 MiB among small ones, in order: one of them is held at a time.
pub fn largest(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "largest", Setting::default(), Duration::ZERO);
    let queue = world.queues[0].clone();
    world.publish_bodies(["before", "too"]);
    for _ in 0..2 {
        world.publish_to(&queue, vec![Outgoing::of(vec![b'x'; LARGEST])]);
    }
    world.publish_bodies(["after"]);
    world.join("one");
    world.await_end(LIMIT);
    let peak = peak(world.sidecars["one"].process.pid());
    let verdict = world.finish(LIMIT);
    let most = u64::try_from(LARGEST >> 10).unwrap() + BESIDE;
    assert!(peak <= most, "the sidecar took {} MiB", peak >> 10);
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    format!("at most {} MiB resident; {verdict}", peak >> 10)
}

/// A body that has no room beside the one before it is fetched anew; meanwhile it fails, and the connection is lost. It
/// stays before the messages that were given back with it.
pub fn interrupted(site: &Site, _: &Plan) -> String {
    let big = |name: &str| Outgoing::of([name.as_bytes(), &[b'x'; OVER_BUDGET]].concat());
    let mut world = World::new(site, "interrupted", Setting::default(), Duration::ZERO);
    world.app.set_rules(vec![Rule::body("failing", Act::Answer(500))]);
    let queue = world.queues[0].clone();
    world.publish_bodies(["before"]);
    world.publish_to(&queue, vec![big("taken"), big("failing")]);
    world.publish_bodies(["after", "and", "more"]);
    world.join("one");
    let tries = |log: &[Delivery]| log.iter().filter(|one| one.position == 2).count();
    world.await_log("the big one is tried", LIMIT, |log| tries(log) > 1);
    world.strike("all connections closed", 1, 0, || {
        site.servers.ctl(&["close_all_connections", "a test"]);
    });
    let before = tries(&world.deliveries());
    world.await_log("it is tried again, or another is", LIMIT, |log| {
        tries(log) > before + 1 || log.iter().any(|one| one.position > 2)
    });
    world.app.set_rules(Vec::new());
    format!("{}", world.finish(LIMIT))
}
