//! The application dies, is crashed by a message, or is deployed broken; and what becomes of dead letters.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::Duration,
};

use lockstep_history::{Event, How, Order, Rules};
use lockstep_tests_support::{
    app::{App, Options},
    behaviour::{Act, Rule},
    rocketmq::{Outgoing, queue_name},
    time::{now_micros, pause, wait_until},
};

use crate::{
    plan::Plan,
    world::{Delivery, QUEUES, Setting, Site, World},
};

const END: Duration = Duration::from_secs(1_800);
/// After so long the application closes an idle connection.
const IDLE: Duration = Duration::from_secs(5);

/// kill -9 of the application under load: an answer that was on its way may be lost, one in each queue.
pub fn killed(site: &Site, plan: &Plan) -> String {
    let checks =
        format!("periodSeconds: 1, failureThreshold: 2, handOverSeconds: {}", plan.down.as_secs() / 3);
    let more = format!("  delivery: {{healthCheck: {{{checks}}}}}\n");
    let mut world =
        World::new(site, "app", Setting { more, ..Setting::default() }, Duration::from_millis(10));
    world.publish(plan.messages_with_faults, 64, |_| "a");
    world.join("one");
    let mut kills = Vec::new();
    for round in 1..=plan.application_kills {
        world.await_deliveries("one", now_micros(), 50, Duration::from_secs(90));
        world.fault("kill of the application", 1, 0);
        kills.push(now_micros());
        world.app.kill();
        let since = now_micros();
        let down_for = |down: Duration| now_micros() - since > u64::try_from(down.as_micros()).unwrap();
        if round == plan.application_kills {
            // So long that the queues are given back, to nobody here.
            wait_until("the queues were given back", plan.down * 2, || {
                down_for(plan.down) && world.sidecars["one"].status()["phase"] == "HandedOver"
            });
        } else {
            // Long enough for many refused connections, were they made.
            let down = Duration::from_millis(1_500);
            wait_until("the application was down for a while", down * 2, || down_for(down));
        }
        world.app.restart();
    }
    world.await_end(END);
    world.leave("one");
    let highest = uncharged_refusals(&world.deliveries(), &kills);
    let verdict = world.judge(&Rules::new(Order::PerQueue), []);
    format!("highest attempt {highest}; {verdict}")
}

/// Each kill charges at most the attempts that it broke off; refused connections, many in each time that the
/// application is down, are charged nowhere. The highest attempt.
fn uncharged_refusals(log: &[Delivery], kills: &[u64]) -> u32 {
    let mut seen: BTreeMap<(&str, u64), &Delivery> = BTreeMap::new();
    for one in log {
        let before = seen.insert((&one.queue, one.position), one);
        // A message that was not seen before may have been on its way at the last kill.
        let since = before.map_or_else(|| last_kill(kills, one.start), |before| before.start);
        let met = kills.iter().filter(|kill| (since..one.start).contains(*kill)).count();
        let base = before.map_or(1, |before| before.attempt);
        let most = base + u32::try_from(met).unwrap();
        let (queue, position, attempt) = (&one.queue, one.position, one.attempt);
        assert!(attempt <= most, "{queue} @{position} came with attempt {attempt}, {met} kills after {base}");
    }
    log.iter().map(|one| one.attempt).max().unwrap_or_default()
}

fn last_kill(kills: &[u64], at: u64) -> u64 {
    kills.iter().copied().rfind(|kill| *kill < at).unwrap_or(at)
}

/// A message that always crashes the application is charged, reaches its limit and is dead-lettered; the rest goes on.
pub fn crashing_message(site: &Site, _: &Plan) -> String {
    let more = "  retry: {maxAttempts: 3, whenExhausted: DeadLetter, backoff: {initialMilliseconds: 50, maxSeconds: 1}}\n";
    let setting = Setting { more: more.to_owned(), ..Setting::default() };
    let mut world = World::new(site, "crash", setting, Duration::ZERO);
    world.app.set_rules(vec![Rule::body("poison", Act::Crash)]);
    let bodies = ["one", "poison", "two"];
    let messages = bodies.map(|body| Outgoing { body: body.into(), ..Outgoing::default() });
    let positions = world.publish_to("broker-a", 0, &messages);
    let dead_letters = format!("%DLQ%{}", world.group);
    world.fault("crashes of the application", 1, 0);
    world.start("one");
    let cluster = site.cluster.clone();
    let end = now_micros() + 120_000_000;
    while cluster.committed(&world.group, &world.topic, "broker-a", 0) != Some(3) {
        assert!(now_micros() < end, "the queue is stuck: {}", world.sidecars["one"].status());
        if !world.app.is_running() {
            world.app.restart();
        }
        pause(Duration::from_millis(50));
    }
    // The broker may show it only after it has confirmed it.
    wait_until("the poison is a dead letter", Duration::from_secs(30), || dead_letters_of(&world) >= 1);
    assert_eq!(
        cluster.try_end_of(&dead_letters, "broker-a", 0),
        Some(1),
        "{dead_letters} has more than the poison"
    );
    let attempts: Vec<u32> =
        world.deliveries().iter().filter(|one| one.position == positions[1]).map(|one| one.attempt).collect();
    assert_eq!(attempts, [1, 2, 3], "each crash must be charged once");
    let queue = queue_name(&world.topic, "broker-a", 0).into();
    world.note(Event::Final { at: now_micros(), queue, position: positions[1], how: How::DeadLetter });
    format!("{}", world.judge(&Rules::new(Order::PerQueue), []))
}

/// A deploy that answers wrongly to everything: with `Block` nothing is dead-lettered, with `DeadLetter` at most 4
/// messages; after the repair everything is delivered.
pub fn bad_deploys(site: &Site, _: &Plan) -> String {
    let cases = [("Block", 0), ("DeadLetter", 4)];
    let cases = cases.into_iter().flat_map(|case| [404, 401, 400, 500].map(|status| (case, status)));
    thread::scope(|scope| {
        let start = |((policy, most), status)| {
            scope.spawn(move || {
                let dead = bad_deploy(site, policy, status);
                assert!(dead <= most, "{status} with {policy} dead-lettered {dead} messages");
                format!("{policy} {status}: {dead} dead letters; ")
            })
        };
        let running: Vec<_> = cases.map(start).collect();
        running.into_iter().map(|case| case.join().unwrap()).collect()
    })
}

fn bad_deploy(site: &Site, policy: &str, status: u16) -> u64 {
    let retry = "maxAttempts: 2, backoff: {initialMilliseconds: 20, maxSeconds: 1}";
    let setting =
        Setting { more: format!("  retry: {{{retry}, whenExhausted: {policy}}}\n"), ..Setting::default() };
    let mut world = World::new(site, &format!("deploy-{policy}-{status}"), setting, Duration::ZERO);
    world.publish(80, 8, |_| "a");
    world.app.set_rules(vec![Rule::always(Act::Answer(status))]);
    world.start("one");
    // The state must be stable: requests go on coming, as probes or retries, and nothing more is dead-lettered.
    let since = now_micros();
    world.await_log("the sidecar has tried for 5 s", Duration::from_secs(60), |log| {
        log.last().is_some_and(|last| last.start > since + 5_000_000)
    });
    let mut dead = 0;
    wait_until("the broker shows all dead letters", Duration::from_secs(30), || {
        dead = dead_letters_of(&world);
        world.sidecars["one"].status()["counters"]["deadLettered"] == dead
    });
    world.app.set_rules(Vec::new());
    world.await_end(END);
    assert_eq!(dead_letters_of(&world), dead, "something was dead-lettered after the repair");
    let delivered: BTreeSet<_> =
        world.deliveries().into_iter().map(|one| (one.queue, one.position)).collect();
    assert_eq!(delivered.len(), 80);
    world.leave("one");
    dead
}

fn dead_letters_of(world: &World<'_>) -> u64 {
    let topic = format!("%DLQ%{}", world.group);
    let cluster = &world.site.cluster;
    cluster.brokers().map(|broker| cluster.try_end_of(&topic, broker, 0).unwrap_or(0)).sum()
}

/// What an application may do to a request, once each: nothing is lost, each is charged, and the next try is taken.
/// It also closes connections that were idle for 5 s.
pub fn strange_answers(site: &Site, _: &Plan) -> String {
    let retry = "retry: {backoff: {initialMilliseconds: 20, maxSeconds: 1}}";
    let more = format!("  delivery: {{timeoutSeconds: 1}}\n  {retry}\n");
    let mut world = World::new(site, "answers", Setting { more, ..Setting::default() }, Duration::ZERO);
    let app =
        App::start(Options { log: Some(world.app.log()), idle: Some(IDLE), ..Options::default() }).unwrap();
    world.callback = Some(format!("http://{}/one", app.address()));
    let charged = [Act::Never, Act::Close, Act::Half, Act::Reset, Act::Garbage, Act::Answer(500)];
    let uncharged = [Act::Huge(100 << 20), Act::Redirect(app.address().to_owned()), Act::RetryAfter(503, 1)];
    let acts = charged.iter().chain(&uncharged);
    let rules = acts.zip(0..).map(|(act, position)| {
        // A reused connection that breaks before an answer is repeated once for nothing.
        let times = if matches!(act, Act::Close | Act::Reset) { 2 } else { 1 };
        Rule { position: Some(position), ..Rule::always(act.clone()).times(times) }
    });
    app.set_rules(rules.collect());
    let count = charged.len() + uncharged.len();
    let messages = vec![Outgoing { body: b"x".to_vec(), ..Outgoing::default() }; count];
    world.publish_to("broker-a", 0, &messages);
    // The application can't record a request that it resets unread.
    world.fault("requests that leave no trace", 0, 0);
    world.join("one");
    world.await_end(END);
    let last: BTreeMap<u64, u32> = world.deliveries().iter().map(|one| (one.position, one.attempt)).collect();
    let attempts: Vec<u32> = last.into_values().collect();
    assert_eq!(attempts, [vec![2; charged.len()], vec![1; uncharged.len()]].concat());
    // The connections are idle for longer than the application keeps them.
    let idle = now_micros();
    wait_until("the connections were idle", IDLE * 3, || now_micros() > idle + 6_000_000);
    world.publish_to("broker-a", 0, &messages[..1]);
    world.await_end(END);
    world.leave("one");
    let last = world.deliveries().last().unwrap().clone();
    assert_eq!((last.position, last.attempt), (u64::try_from(count).unwrap(), 1), "{last:?}");
    format!("{}", world.judge(&Rules::new(Order::PerQueue), []))
}

/// Dead letters are seen by a second group on `%DLQ%group`, and sent back to the topic.
pub fn dead_letters(site: &Site, _: &Plan) -> String {
    let more = "  retry: {maxAttempts: 1, whenExhausted: DeadLetter}\n".to_owned();
    let mut world = World::new(site, "letters", Setting { more, ..Setting::default() }, Duration::ZERO);
    world
        .app
        .set_rules(vec![Rule { path: Some("one".to_owned()), ..Rule::body("broken", Act::Answer(400)) }]);
    let messages = ["fine", "broken"].map(|body| Outgoing { body: body.into(), ..Outgoing::default() });
    let positions = world.publish_to("broker-a", 0, &messages);
    world.join("one");
    wait_until("the dead letter is there", Duration::from_secs(60), || dead_letters_of(&world) == 1);
    let queue = queue_name(&world.topic, "broker-a", 0).into();
    world.note(Event::Final { at: now_micros(), queue, position: positions[1], how: How::DeadLetter });

    // What an administrator does: make the topic readable, then consume it like any other.
    let mut second = World::without_topic(site, "letters-again", Setting::default(), Duration::ZERO);
    second.topic = format!("%DLQ%{}", world.group);
    site.cluster.create_topic(&second.topic, 1);
    site.cluster.create_group(&second.group);
    second.join("two");
    second.await_deliveries("two", 0, 1, Duration::from_secs(60));
    wait_until("the dead letter is committed", Duration::from_secs(30), || {
        site.cluster.committed(&second.group, &second.topic, "broker-a", 0) == Some(1)
    });
    second.leave("two");

    // The application is repaired, and the dead letter's body is published again.
    world.app.set_rules(Vec::new());
    world.publish_to("broker-a", QUEUES - 1, &messages[1..]);
    world.await_end(END);
    world.leave("one");
    format!("{}", world.judge(&Rules::new(Order::PerQueue), []))
}
