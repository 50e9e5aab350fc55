//! The broker's acknowledgement timeout: the sidecar is quicker, and where it was told wrongly it recovers.

use std::time::Duration;

use lockstep_tests_support::{
    behaviour::{Act, Rule},
    rabbitmq::Outgoing,
    time::{now_micros, wait_until},
};

use crate::{
    bounds::RESUME,
    plan::Plan,
    world::{Delivery, Setting, Site, World},
};

const END: Duration = Duration::from_secs(300);
/// What sidecars are told.
const TOLD: &str = "      acknowledgementTimeoutSeconds: 60\n";
/// The product's own.
const DEFAULT: Duration = Duration::from_secs(1_800);
const ENDLESS: &str =
    "  retry: {maxAttempts: 0, whenExhausted: Block, backoff: {initialMilliseconds: 200, maxSeconds: 1}}\n";

/// A blocked head, with messages behind it and a broker that loses patience after `patience`.
fn blocked<'a>(site: &'a Site, name: &str, patience: Duration) -> World<'a> {
    site.set_acknowledgement_timeout(patience);
    let setting = Setting { source: TOLD.to_owned(), more: ENDLESS.to_owned(), ..Setting::default() };
    let mut world = World::new(site, name, setting, Duration::ZERO);
    world.app.set_rules(vec![Rule::body("stuck", Act::Answer(500))]);
    world.publish_bodies(["before", "stuck", "behind", "last"]);
    world.join("one");
    world.await_log("the head is blocked", Duration::from_secs(60), |log| {
        log.iter().filter(|one| one.position == 1).count() > 2
    });
    world
}

/// Heals the application and ends: how the stuck message's attempts went on, by ownership, and how long they paused at most.
fn heal(world: &mut World<'_>) -> String {
    world.app.set_rules(Vec::new());
    world.await_end(END);
    let log = world.deliveries();
    let stuck: Vec<_> = log.iter().filter(|one| one.position == 1).collect();
    let attempts: Vec<u32> = stuck.iter().map(|one| one.attempt).collect();
    // One that ran when its ownership ended is not charged.
    let next = |one: &Delivery, other: &Delivery| {
        other.attempt == one.attempt + 1 || other.attempt == one.attempt && other.epoch != one.epoch
    };
    let rising = stuck.windows(2).all(|pair| next(pair[0], pair[1]));
    assert!(rising, "the attempts begin anew or jump: {attempts:?}");
    let mut epochs: Vec<u64> = stuck.iter().filter_map(|one| one.epoch).collect();
    epochs.dedup();
    assert!(epochs.len() > 1, "the head was never given back");
    let pauses = stuck.windows(2).map(|pair| pair[1].start - pair[0].start);
    let longest = pauses.max().unwrap_or_default();
    assert!(longest <= RESUME, "the head did not come again for {} ms", longest / 1_000);
    world.leave_all();
    let verdict = world.judge();
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    let (attempts, longest) = (attempts.len(), longest / 1_000);
    format!("{attempts} attempts under {} ownerships, {longest} ms apart at most; {verdict}", epochs.len())
}

/// The head is blocked for longer than the broker waits: it is given back and taken anew before, its attempts are kept, and
/// the broker closes no channel.
pub fn rewound_head(site: &Site, _: &Plan) -> String {
    let patience = Duration::from_secs(45);
    let before = site.acknowledgement_timeouts();
    let mut world = blocked(site, "rewound", patience);
    let since = now_micros();
    let longer = u64::try_from(patience.as_micros()).unwrap() + 5_000_000;
    world.await_log("the head is blocked for long", patience * 2, |log| {
        log.last().is_some_and(|last| last.start > since + longer)
    });
    let report = heal(&mut world);
    assert_eq!(site.acknowledgement_timeouts(), before, "the broker closed a channel");
    site.set_acknowledgement_timeout(DEFAULT);
    report
}

/// The broker waits for less than the sidecar was told: each channel that it closes is told with the cure, and the head comes
/// again soon, in order and with its attempts.
pub fn short_timeout(site: &Site, _: &Plan) -> String {
    let before = site.acknowledgement_timeouts();
    let mut world = blocked(site, "short", Duration::from_secs(8));
    let told = world.await_reason("one", "AcknowledgementTimeout");
    assert!(told.contains("acknowledgementTimeoutSeconds"), "{told}");
    assert!(
        site.acknowledgement_timeouts() > before,
        "the broker closed no channel: this test tests nothing"
    );
    let since = now_micros();
    let soon = Duration::from_micros(RESUME);
    world.await_log("the head comes again", soon, |log| log.last().is_some_and(|last| last.start > since));
    // The second one, which follows a channel that lived for a short time only.
    wait_until("the broker closes another channel", Duration::from_secs(60), || {
        site.acknowledgement_timeouts() > before + 1
    });
    let since = now_micros();
    world
        .await_log("it comes again once more", soon, |log| log.last().is_some_and(|last| last.start > since));
    let report = heal(&mut world);
    site.set_acknowledgement_timeout(DEFAULT);
    report
}

/// A slow application, for which what is usually ahead would wait too long: less is, and no channel is lost.
pub fn slow_application(site: &Site, _: &Plan) -> String {
    const MESSAGES: usize = 10;
    let before = site.acknowledgement_timeouts();
    // Three attempts of 10 s fit into half of what is told, so that three messages of 2 s are out at most. Were there
    // eight, the last would wait for 16 s.
    site.set_acknowledgement_timeout(Duration::from_secs(9));
    let more = "  delivery: {timeoutSeconds: 10}\n".to_owned();
    let setting = Setting { source: TOLD.to_owned(), more, ..Setting::default() };
    let mut world = World::new(site, "slow", setting, Duration::from_secs(2));
    let queue = world.queues[0].clone();
    world.publish_to(&queue, vec![Outgoing::of("x"); MESSAGES]);
    world.join("one");
    let mut most = 0;
    wait_until("all is delivered", Duration::from_secs(60), || {
        most = most.max(world.counts().unacknowledged);
        world.deliveries().len() >= MESSAGES
    });
    let verdict = world.finish(END);
    assert!((1..=3).contains(&most), "{most} messages were out at once");
    assert_eq!(site.acknowledgement_timeouts(), before, "the broker closed a channel");
    assert_eq!(verdict.counts.posts, verdict.counts.published, "{verdict}");
    site.set_acknowledgement_timeout(DEFAULT);
    format!("at most {most} out at once; {verdict}")
}
