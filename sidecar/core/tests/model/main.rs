//! The engine against an independent reference: random worlds, every output judged, and nothing left over at the end.
//!
//! `LOCKSTEP_CASES` sets the number of cases over all tests (10,000 by default), `LOCKSTEP_SEED` their seed.

#![allow(
    clippy::wildcard_enum_match_arm,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test names what it looks for, fails on anything else, and its worlds are small"
)]

mod allowed;
mod case;
mod found;
mod model;
mod owed;
mod sabotage;
mod steps;
mod verdict;
mod world;

use lockstep_core::OrderingMode;
use lockstep_model::Settlement;
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};

use crate::case::Case;

/// The cases are dealt out to so many tests.
const TESTS: u32 = 6;

fn cases() -> u32 {
    let asked = std::env::var("LOCKSTEP_CASES").ok().and_then(|cases| cases.parse().ok());
    asked.unwrap_or(10_000_u32).div_ceil(TESTS)
}

fn seed() -> [u8; 32] {
    let seed: u64 = std::env::var("LOCKSTEP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}

fn any_case(mode: OrderingMode, settlement: Settlement) -> impl Strategy<Value = Case> {
    let steps = proptest::collection::vec(any::<(u8, u8, u8)>(), 0..80);
    (any::<[u8; 24]>(), steps).prop_map(move |(setup, steps)| Case { mode, settlement, setup, steps })
}

fn check(mode: OrderingMode, settlement: Settlement) {
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    let mut seed = seed();
    // Each test goes its own way.
    (seed[8], seed[9]) = (mode as u8, settlement as u8);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let judged =
        runner.run(&any_case(mode, settlement), |case| world::run(&case).map_err(TestCaseError::fail));
    match judged {
        Ok(()) => {}
        Err(TestError::Abort(reason)) => panic!("{reason}"),
        Err(TestError::Fail(reason, case)) => panic!("{reason}\n{case:?}"),
    }
}

#[test]
fn a_log_in_queue_order() {
    check(OrderingMode::PerQueue, Settlement::Cumulative);
}

#[test]
fn a_log_in_key_order() {
    check(OrderingMode::PerKey, Settlement::Cumulative);
}

#[test]
fn a_log_without_order() {
    check(OrderingMode::Unordered, Settlement::Cumulative);
}

#[test]
fn one_by_one_in_queue_order() {
    check(OrderingMode::PerQueue, Settlement::PerDelivery);
}

#[test]
fn one_by_one_in_key_order() {
    check(OrderingMode::PerKey, Settlement::PerDelivery);
}

#[test]
fn one_by_one_without_order() {
    check(OrderingMode::Unordered, Settlement::PerDelivery);
}
