//! The reference can fail: an engine that breaks an invariant on purpose is caught within so many cases.

use std::collections::BTreeSet;

use lockstep_core::{Event, Hold, OrderingMode, Output, Sabotage, Settlement as Ending};
use lockstep_model::Settlement;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::{any_case, world};

const WITHIN: u32 = 3_000;

fn runner() -> TestRunner {
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]))
}

/// Says what the reference says of the first case that it refuses.
fn caught(sabotage: Option<Sabotage>, tamper: Option<world::Tamper>) -> Option<String> {
    let mut runner = runner();
    let kinds = [
        (OrderingMode::PerKey, Settlement::Cumulative),
        (OrderingMode::PerQueue, Settlement::Cumulative),
        (OrderingMode::PerKey, Settlement::PerDelivery),
        (OrderingMode::PerQueue, Settlement::PerDelivery),
    ];
    (0..WITHIN).find_map(|number| {
        let (mode, settlement) = kinds[number as usize % kinds.len()];
        let case = any_case(mode, settlement).new_tree(&mut runner).ok()?.current();
        world::judge(&case, sabotage, tamper, &mut world::Record::default()).err()
    })
}

fn assert_caught(sabotage: Sabotage) {
    assert!(caught(Some(sabotage), None).is_some(), "{sabotage:?} is not noticed within {WITHIN} cases");
}

macro_rules! sabotages {
    ($($test:ident: $which:ident,)+) => {
        $(
            #[test]
            fn $test() {
                assert_caught(Sabotage::$which);
            }
        )+
    };
}

sabotages! {
    an_orphan_that_loses_its_lane_is_noticed: I1,
    a_failure_taken_for_success_is_noticed: I2,
    a_commit_too_far_is_noticed: I3,
    a_lost_queue_that_is_kept_is_noticed: I4,
    a_fetch_beyond_its_share_is_noticed: I5,
    a_settlement_sent_twice_is_noticed: I6,
    a_charge_for_nothing_is_noticed: I7,
    a_drain_that_fetches_is_noticed: I8,
    a_missing_reserve_is_noticed: I9,
    a_lane_that_stops_the_others_is_noticed: I10,
}

/// What an engine leaves undone is noticed as well: each kind of output, left out.
#[test]
fn whatever_is_left_out_is_noticed() {
    let left_out: [(&str, world::Tamper); 7] = [
        ("attempts", |outputs| outputs.retain(|output| !matches!(output, Output::Attempt { .. }))),
        ("fetches", |outputs| outputs.retain(|output| !matches!(output, Output::Fetch { .. }))),
        ("commits", |outputs| outputs.retain(|output| !matches!(output, Output::Commit { .. }))),
        ("settlements", |outputs| outputs.retain(|output| !matches!(output, Output::Settle { .. }))),
        ("releases", |outputs| outputs.retain(|output| !matches!(output, Output::ReleaseQueue { .. }))),
        ("saved attempts", |outputs| outputs.retain(|output| !matches!(output, Output::SaveAttempts { .. }))),
        ("the end", |outputs| outputs.retain(|output| !matches!(output, Output::Finished))),
    ];
    for (what, tamper) in left_out {
        assert!(caught(None, Some(tamper)).is_some(), "{what} are not missed within {WITHIN} cases");
    }
}

/// A word for an output that only some worlds bring about.
pub(crate) fn kind(output: &Output<u64>) -> Option<&'static str> {
    let kind = match output {
        Output::LeaveGroup => "leave",
        Output::CancelAttempt { .. } => "cancel attempt",
        Output::Settle { settlement: Ending::Accept, .. } => "accept",
        Output::Settle { settlement: Ending::Release, .. } => "give back",
        Output::Settle { settlement: Ending::DeadLetter, .. } => "dead-letter",
        Output::ReleaseQueue { .. } => "release",
        Output::Finished => "finish",
        Output::Event(Event::Suppressed { .. }) => "suppress",
        Output::Event(Event::Skipped { by_hand: true, .. }) => "skip by hand",
        Output::Event(Event::Skipped { by_hand: false, .. }) => "skip",
        Output::Event(Event::DeadLettered { by_hand: true, .. }) => "dead letter by hand",
        Output::Event(Event::ByHandRefused { .. }) => "refuse a hand",
        Output::Event(Event::Breaker { open: true }) => "open breaker",
        Output::Event(Event::Breaker { open: false }) => "closed breaker",
        Output::Event(Event::Storm { open: true }) => "open storm",
        Output::Event(Event::Storm { open: false }) => "closed storm",
        Output::Event(Event::EndpointPaused { until: Some(_) }) => "pause",
        Output::Event(Event::Abandoned { .. }) => "abandon",
        Output::Event(Event::Moved { reset: true, .. }) => "reset",
        Output::Event(Event::Moved { reset: false, .. }) => "loss",
        Output::Event(Event::Blocked { hold, .. }) => match hold {
            Hold::Exhausted => "exhausted",
            Hold::Undecodable => "undecodable",
            Hold::Rejected => "rejected",
            Hold::DeadLetterFailed => "dead letter failed",
            Hold::DeadLetterStorm => "held by a storm",
            Hold::Age => "old",
        },
        _ => return None,
    };
    Some(kind)
}

/// The worlds bring the engine everywhere: a reference that never sees a storm proves nothing about storms.
#[test]
fn the_worlds_reach_everything() {
    let everything = [
        "leave",
        "cancel attempt",
        "accept",
        "give back",
        "dead-letter",
        "release",
        "finish",
        "suppress",
        "skip by hand",
        "skip",
        "dead letter by hand",
        "refuse a hand",
        "open breaker",
        "closed breaker",
        "open storm",
        "closed storm",
        "pause",
        "abandon",
        "reset",
        "loss",
        "exhausted",
        "undecodable",
        "rejected",
        "dead letter failed",
        "held by a storm",
        "old",
    ];
    let mut runner = runner();
    let mut missing: BTreeSet<_> = everything.into_iter().collect();
    let modes = [OrderingMode::PerKey, OrderingMode::PerQueue, OrderingMode::Unordered];
    for number in 0..WITHIN as usize {
        let settlement =
            if number.is_multiple_of(2) { Settlement::Cumulative } else { Settlement::PerDelivery };
        let tree = any_case(modes[number % 3], settlement).new_tree(&mut runner).expect("a case must come");
        let mut record = world::Record::default();
        assert_eq!(world::judge(&tree.current(), None, None, &mut record), Ok(()));
        missing.retain(|kind| !record.seen.contains(kind));
        if missing.is_empty() {
            return;
        }
    }
    panic!("not reached within {WITHIN} cases: {missing:?}");
}
