//! Limits, retry and timeouts of running pods.

use std::{collections::BTreeMap, time::Duration};

use lockstep_history::{Event, Outcome};
use lockstep_tests_support::{
    http::call,
    time::{now_micros, pause, wait_until},
};
use serde_json::{Value, json};

use super::changes::{HOT_WITHIN, apply_hot, identities};
use crate::{
    group::{LOOK_EVERY, PATIENCE, Setting},
    plan::Plan,
    site::Site,
    world::World,
};

/// Work that takes so long, in microseconds, that lanes run beside each other, and that one a pod can't keep up.
const WORK: &str = "answer 200 delay=30000";
/// In microseconds: what ran when a limit was lowered has ended by then.
const ENDED: u64 = 500_000;

/// Limits, retry and timeouts reach every pod within 5 s and do there what they say, and no pod is restarted.
pub(super) fn changes(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "hot-changes");
    world.apply(&Setting { rules: WORK.to_owned(), ..Setting::default() });
    world.await_settled(PATIENCE);
    world.publish_on();
    world.await_more_done(100);
    let pods = identities(&world);
    let took = [in_flight(&world), retry(&world), timeout(&world)];
    world.await_settled(PATIENCE);
    assert_eq!(identities(&world), pods, "a pod was restarted");
    let slowest = took.into_iter().max().unwrap_or_default();
    format!("slowest change {:.1} s; {}", slowest.as_secs_f32(), world.judge())
}

/// At a limit of one no application works at two messages; at a higher one it does again.
fn in_flight(world: &World<'_>) -> Duration {
    let narrow = apply_hot(world, &json!({"delivery": {"maxInFlight": 1}}));
    let since = now_micros() + ENDED;
    await_effect("every pod's limit is 1", || {
        world.pods().iter().all(|pod| world.sidecar_status(pod)["limit"]["max"] == 1)
    });
    world.await_more_done(100);
    assert_eq!(most_at_once(world, since), 1, "an application had several messages at once");
    let change = json!({"delivery": {"maxInFlight": 16}, "sidecar": {"logLevel": "debug"}});
    let wide = apply_hot(world, &change);
    let since = now_micros();
    await_effect("an application has several messages at once", || most_at_once(world, since) > 1);
    narrow.max(wide)
}

/// The second failure is the last, and what is blocked is tried again within the bound of the backoff; by default it
/// would be the sixteenth, and a minute.
fn retry(world: &World<'_>) -> Duration {
    let backoff = json!({"initialMilliseconds": 100, "maxSeconds": 1});
    let took = apply_hot(world, &json!({"retry": {"maxAttempts": 2, "backoff": backoff}}));
    let pod = world.pods().swap_remove(0);
    let blocked = || world.sidecar_status(&pod)["totals"]["blocked"].as_u64();
    set_rules(&pod, "answer 503");
    await_effect("a message is blocked", || blocked() > Some(0));
    set_rules(&pod, WORK);
    await_effect("nothing is blocked any more", || blocked() == Some(0));
    took
}

/// A request that would take ten seconds is given up after one.
fn timeout(world: &World<'_>) -> Duration {
    let took = apply_hot(world, &json!({"delivery": {"timeoutSeconds": 1}}));
    let pod = world.pods().swap_remove(0);
    // The next attempt may come before the application has noticed.
    world.fault("a request given up", 0, 2);
    let since = now_micros();
    set_rules(&pod, &format!("answer 200 delay=10000000 times=1\n{WORK}"));
    await_effect("a request is given up", || {
        let history = world.site.collector.history(&world.topic);
        history
            .events()
            .iter()
            .any(|event| matches!(event, Event::End { at, outcome: Outcome::Broken, .. } if *at > since))
    });
    // A busy machine might break off others too.
    took.max(apply_hot(world, &json!({"delivery": {"timeoutSeconds": 30}})))
}

fn await_effect(what: &str, mut condition: impl FnMut() -> bool) {
    wait_until(what, HOT_WITHIN, || {
        pause(LOOK_EVERY);
        condition()
    });
}

fn set_rules(pod: &Value, rules: &str) {
    let address = format!("{}:8080", pod["status"]["podIP"].as_str().unwrap());
    assert_eq!(call(&address, "PUT", "/rules", rules.as_bytes()).unwrap().0, 200);
}

/// How many requests an application had at a time at most, of those that came since then.
fn most_at_once(world: &World<'_>, since: u64) -> i32 {
    let history = world.site.collector.history(&world.topic);
    let mut consumers = BTreeMap::new();
    let mut moments = Vec::new();
    for event in history.events() {
        if let Event::Start { at, post, consumer, .. } = event
            && *at >= since
        {
            consumers.insert(post, consumer);
            moments.push((*at, 1, consumer));
        }
        if let Event::End { at, post, .. } = event
            && let Some(consumer) = consumers.get(post)
        {
            moments.push((*at, -1, *consumer));
        }
    }
    moments.sort();
    let mut running: BTreeMap<_, i32> = BTreeMap::new();
    let counts = moments.into_iter().map(|(_, change, consumer)| {
        let count = running.entry(consumer).or_default();
        *count += change;
        *count
    });
    counts.max().unwrap_or(0)
}
