//! One script per row of the callback contract's table: outcome, verdict, whether an attempt is spent.

use std::time::Duration;

use lockstep_core::{
    AttemptNotice, Config, Event, Hold, OrderingMode, Output, Settlement, StatusCodes, TransportFailure,
    VerdictHeader, WhenExhausted,
};
use lockstep_model::{Position, QueueId};

use crate::world::{Q, R, World, config, message};

fn per_key() -> Config {
    config(OrderingMode::PerKey)
}

/// A world with one message of each of four keys, one of them attempted.
fn four_keys(config: Config) -> World {
    let mut world = World::new(config);
    world.deliver(Q, (0..4).map(|n| message(n, Some(n))).collect());
    world
}

fn notice(world: &mut World, wanted: AttemptNotice) -> bool {
    world.event(|event| matches!(event, Event::AttemptEnded { notice, .. } if *notice == wanted))
}

fn blocked(world: &mut World, wanted: Hold) -> bool {
    world.event(|event| matches!(event, Event::Blocked { hold, .. } if *hold == wanted))
}

#[test]
fn any_2xx_is_done() {
    for status in [200, 201, 202, 204, 299] {
        let mut world = World::new(config(OrderingMode::PerQueue));
        world.fetch(0..1);
        world.answer(0, status);
        assert_eq!(world.confirm_all(), Some(1), "{status}");
    }
}

#[test]
fn a_message_at_fault_is_exhausted_at_once() {
    for status in [400, 413, 414, 415, 422, 431] {
        let policy = Config { when_exhausted: WhenExhausted::DeadLetter, ..config(OrderingMode::PerQueue) };
        let mut world = World::new(policy);
        world.fetch(0..1);
        world.answer(0, status);
        assert!(notice(&mut world, AttemptNotice::Never), "{status}");
        assert_eq!(world.settle_asked(Q), Some((0, Settlement::DeadLetter)), "{status}");
    }
}

#[test]
fn a_message_at_fault_is_tried_on_at_the_longest_delay_when_blocked() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.fetch(0..1);
    world.answer(0, 422);
    assert!(blocked(&mut world, Hold::Rejected));
    world.millis(59_999);
    assert!(world.attempted().is_empty());
    world.millis(1);
    assert_eq!(world.number(0), 2, "an attempt is spent");
    world.answer(0, 200);
    assert_eq!(world.confirm_all(), Some(1));
    assert!(world.event(|event| matches!(event, Event::Unblocked { .. })));
}

#[test]
fn other_failures_are_tried_again_and_charged() {
    for status in [402, 406, 408, 409, 411, 418, 425, 429, 451, 500, 502, 503, 504, 599, 100, 199] {
        let mut world = World::new(config(OrderingMode::PerQueue));
        world.fetch(0..1);
        world.answer(0, status);
        assert!(notice(&mut world, AttemptNotice::Again), "{status}");
        assert!(world.attempted().is_empty(), "{status}");
        world.secs(1);
        assert_eq!(world.number(0), 2, "{status}");
    }
    for failure in [TransportFailure::TimedOut, TransportFailure::Broken] {
        let mut world = World::new(config(OrderingMode::PerQueue));
        world.fetch(0..1);
        world.fail(0, failure);
        world.secs(1);
        assert_eq!(world.number(0), 2, "{failure:?}");
    }
}

#[test]
fn overload_with_retry_after_pauses_the_endpoint_uncharged() {
    for status in [429, 503] {
        let mut world = four_keys(per_key());
        world.answer(0, 200);
        assert_eq!(world.attempted(), [1, 2], "the limit doubled");
        world.answer_with(1, status, Some(20), None);
        assert_eq!(world.engine.snapshot().limit, 1);
        assert_eq!(world.attempted(), [2], "nothing starts");
        world.answer(2, 200);
        world.millis(19_999);
        assert!(world.attempted().is_empty());
        world.millis(1);
        assert_eq!(world.attempted(), [1, 3]);
        assert_eq!(world.number(1), 1, "no attempt is spent");
    }
}

#[test]
fn a_pause_is_capped_and_ends_with_new_health() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.fetch(0..1);
    world.answer_with(0, 503, Some(100_000), None);
    assert_eq!(world.engine.snapshot().paused_until, Some(world.now + Duration::from_secs(300)));
    world.healthy(false);
    world.healthy(true);
    assert_eq!(world.attempted(), [0]);
}

#[test]
fn a_message_that_was_snoozed_ten_times_the_cap_is_charged() {
    let mut world =
        World::new(Config { retry_after_max: Duration::from_secs(2), ..config(OrderingMode::PerQueue) });
    world.fetch(0..1);
    for _ in 0..10 {
        world.answer_with(0, 503, Some(2), None);
        world.secs(2);
        assert_eq!(world.number(0), 1);
    }
    world.answer_with(0, 503, Some(2), None);
    assert_eq!(world.engine.snapshot().paused_until, None, "its own lane waits, not the endpoint");
    world.secs(60);
    assert_eq!(world.number(0), 2);
}

#[test]
fn without_snoozes_a_retry_after_is_ignored_and_every_again_is_charged() {
    let mut world = World::new(Config { retry_after_max: Duration::ZERO, ..config(OrderingMode::PerQueue) });
    world.fetch(0..1);
    world.answer_with(0, 503, Some(30), None);
    assert_eq!(world.engine.snapshot().paused_until, None);
    world.secs(1);
    assert_eq!(world.number(0), 2);
    world.answer_with(0, 503, None, Some(VerdictHeader::Again));
    world.secs(2);
    assert_eq!(world.number(0), 3);
}

#[test]
fn three_misconfigured_messages_open_the_breaker_and_one_answer_closes_it() {
    for status in [301, 304, 401, 403, 404, 405, 407, 410] {
        let mut world = four_keys(per_key());
        for _ in 0..3 {
            let position = world.attempted()[0];
            world.answer(position, status);
            if !world.engine.snapshot().breaker_open {
                world.millis(600);
            }
        }
        // A head may have been tried twice before the third was reached.
        while !world.engine.snapshot().breaker_open {
            let position = world.attempted()[0];
            world.answer(position, status);
            world.millis(600);
        }
        assert!(world.event(|event| *event == Event::Breaker { open: true }), "{status}");
        world.secs(1);
        assert_eq!(world.attempted().len(), 1, "one probe");
        let probed = world.attempted()[0];
        world.answer(probed, status);
        world.millis(1_900);
        assert!(world.attempted().is_empty(), "the interval grows");
        world.millis(2_200);
        assert_ne!(world.attempted(), [probed], "probes rotate over lanes");
        assert!(world.running.iter().all(|t| t.number == 1), "no attempt is spent");
        let probed = world.attempted()[0];
        world.answer(probed, 500);
        assert!(world.event(|event| *event == Event::Breaker { open: false }), "any other verdict closes it");
    }
}

#[test]
fn a_lone_misconfigured_message_is_charged_only_after_another_was_done() {
    let mut world = World::new(per_key());
    world.deliver(Q, vec![message(0, Some(0)), message(1, Some(1))]);
    world.answer(0, 404);
    assert_eq!(world.attempted(), [1]);
    world.secs(1);
    world.answer(1, 500);
    world.secs(2);
    assert_eq!(world.number(0), 1, "no success of another message yet");
    world.answer(0, 404);
    assert_eq!(world.number(1), 2);
    world.answer(1, 200);
    world.secs(4);
    assert_eq!(world.number(0), 1);
    world.answer(0, 404);
    world.secs(60);
    assert_eq!(world.number(0), 2, "it proved to be the message");
    world.answer(0, 404);
    world.secs(60);
    world.answer(0, 404);
    assert!(blocked(&mut world, Hold::Exhausted));
}

#[test]
fn an_unreachable_application_is_waited_for_uncharged() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.fetch(0..1);
    world.fail(0, TransportFailure::Unreachable);
    world.healthy(false);
    world.secs(20);
    assert!(world.attempted().is_empty());
    world.healthy(true);
    assert_eq!(world.number(0), 1);
}

#[test]
fn a_cancelled_attempt_is_not_charged() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.fetch(0..1);
    world.fail(0, TransportFailure::Cancelled);
    assert_eq!(world.number(0), 1);
}

#[test]
fn the_verdict_header_says_again_and_snoozes_this_lane_only() {
    let mut world = four_keys(per_key());
    world.answer_with(0, 422, Some(5), Some(VerdictHeader::Again));
    assert_eq!(world.attempted(), [1], "others go on");
    world.answer(1, 200);
    world.answer(2, 200);
    world.answer(3, 200);
    world.millis(4_999);
    assert!(world.attempted().is_empty());
    world.millis(1);
    assert_eq!(world.number(0), 1, "no attempt is spent");
}

#[test]
fn the_verdict_header_dead_letters_and_skips() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.fetch(0..2);
    world.answer_with(0, 500, None, Some(VerdictHeader::DeadLetter));
    assert_eq!(world.settle_asked(Q), Some((0, Settlement::DeadLetter)), "whatever whenExhausted says");
    assert!(world.attempted().is_empty(), "the lane waits for the confirmation");
    world.settle_answer(Q, 0, Ok(()));
    world.answer_with(1, 404, None, Some(VerdictHeader::Skip));
    assert!(world.event(|event| matches!(event, Event::Skipped { by_hand: false, .. })));
    assert_eq!(world.confirm_all(), Some(2));
}

#[test]
fn a_2xx_is_done_whatever_the_header_says() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.fetch(0..1);
    world.answer_with(0, 200, None, Some(VerdictHeader::DeadLetter));
    assert_eq!(world.confirm_all(), Some(1));
}

#[test]
fn status_codes_overrule_the_table() {
    let codes = StatusCodes { done: vec![409], again: vec![404], never: vec![500], misconfigured: vec![418] };
    let policy =
        Config { status_codes: codes, when_exhausted: WhenExhausted::Skip, ..config(OrderingMode::PerQueue) };
    let mut world = World::new(policy);
    world.fetch(0..4);
    world.answer(0, 409);
    assert!(notice(&mut world, AttemptNotice::Done));
    world.answer(1, 404);
    assert!(notice(&mut world, AttemptNotice::Again));
    world.secs(1);
    world.answer(1, 500);
    assert!(notice(&mut world, AttemptNotice::Never));
    world.answer(2, 418);
    assert!(notice(&mut world, AttemptNotice::Misconfigured));
}

#[test]
fn the_nth_of_a_storm_is_held() {
    let policy =
        Config { when_exhausted: WhenExhausted::DeadLetter, storm: 3, ..config(OrderingMode::PerQueue) };
    let mut world = World::new(policy);
    world.fetch(0..4);
    for position in 0..2 {
        world.answer(position, 422);
        assert_eq!(world.settle_asked(Q), Some((position, Settlement::DeadLetter)));
        world.settle_answer(Q, position, Ok(()));
    }
    assert!(world.took(&Output::SaveStorm { in_row: 2 }));
    world.answer(2, 422);
    assert_eq!(world.settle_asked(Q), None);
    assert!(world.event(|event| *event == Event::Storm { open: true }));
    world.secs(60);
    world.answer(2, 422);
    assert_eq!(world.settle_asked(Q), None, "probed, and held on");
    world.secs(60);
    world.answer(2, 200);
    assert!(world.event(|event| *event == Event::Storm { open: false }));
    assert!(world.took(&Output::SaveStorm { in_row: 0 }));
    world.answer(3, 422);
    assert_eq!(world.settle_asked(Q), Some((3, Settlement::DeadLetter)), "the count starts anew");
}

#[test]
fn a_storm_is_remembered_over_a_restart() {
    let policy = Config { when_exhausted: WhenExhausted::Skip, storm: 5, ..config(OrderingMode::PerQueue) };
    let mut world = World::cold(policy);
    world.input(lockstep_core::Input::StormRestored { in_row: 4 });
    world.healthy(true);
    world.acquire(Q, 0, None);
    world.fetch(0..1);
    world.answer(0, 422);
    assert!(world.engine.snapshot().storm_open);
}

#[test]
fn the_limit_doubles_and_halves() {
    let mut world = World::new(Config { max_in_flight: 3, ..config(OrderingMode::Unordered) });
    world.fetch(0..9);
    assert_eq!(world.engine.snapshot().limit, 1);
    world.answer(0, 200);
    assert_eq!(world.engine.snapshot().limit, 2);
    world.answer(1, 200);
    assert_eq!(world.engine.snapshot().limit, 3);
    assert_eq!(world.attempted().len(), 3);
    world.fail(2, TransportFailure::TimedOut);
    assert_eq!(world.engine.snapshot().limit, 1);
}

#[test]
fn backoff_grows_with_full_jitter_to_its_maximum() {
    let mut world = World::new(Config { max_attempts: 0, ..config(OrderingMode::PerQueue) });
    world.fetch(0..1);
    let mut longest = Duration::ZERO;
    for n in 1..40 {
        assert_eq!(world.number(0), n);
        world.answer(0, 500);
        let wait = world.wake.expect("a retry must be planned").since(world.now);
        let ceiling = Duration::from_millis(500) * 2_u32.saturating_pow(n - 1).min(120);
        assert!(wait <= ceiling.min(Duration::from_secs(60)), "{wait:?} after {n} tries");
        longest = longest.max(wait);
        while world.attempted().is_empty() {
            world.secs(5);
        }
    }
    assert!(longest > Duration::from_secs(30), "it grows");
}

#[test]
fn queues_take_turns() {
    let mut world = World::new(config(OrderingMode::PerKey));
    let first = world.epoch;
    world.acquire(R, 100, None);
    world.deliver(R, (100..103).map(|n| message(n, Some(n))).collect());
    world.epoch = first;
    world.deliver(Q, (0..3).map(|n| message(n, Some(n))).collect());
    world.answer(100, 200);
    let queues: Vec<QueueId> = world.running.iter().map(|t| t.queue).collect();
    assert_eq!(queues.len(), 2);
    assert_ne!(queues[0], queues[1]);
    assert_eq!(world.engine.payload(Q, Position(0)), Some(&0));
}
