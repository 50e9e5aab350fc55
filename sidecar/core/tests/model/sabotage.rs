//! The reference can fail: an engine that breaks an invariant on purpose is caught within so many cases.

use lockstep_core::{OrderingMode, Output, Sabotage};
use lockstep_model::Settlement;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::{any_case, world};

const WITHIN: u32 = 3_000;

/// Says what the reference says of the first case that it refuses.
fn caught(sabotage: Option<Sabotage>, tamper: Option<world::Tamper>) -> Option<String> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let kinds = [
        (OrderingMode::PerKey, Settlement::Cumulative),
        (OrderingMode::PerQueue, Settlement::Cumulative),
        (OrderingMode::PerKey, Settlement::PerDelivery),
        (OrderingMode::PerQueue, Settlement::PerDelivery),
    ];
    (0..WITHIN).find_map(|number| {
        let (mode, settlement) = kinds[number as usize % kinds.len()];
        let case = any_case(mode, settlement).new_tree(&mut runner).ok()?.current();
        world::judge(&case, sabotage, tamper, &mut None).err()
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
