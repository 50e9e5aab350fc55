//! Each invariant's switch must trip its check, and nothing but the switch may.

use std::time::Duration;

use lockstep_core::{Config, Input, Invariant, OrderingMode, Sabotage, TransportFailure};

use crate::world::{Q, World, config, log, message, one_by_one};

/// Plays a script with and without the switch.
fn trips(sabotage: Sabotage, invariant: Invariant, config: &Config, script: impl Fn(&mut World)) {
    let mut world = World::saboteur(config.clone(), sabotage);
    script(&mut world);
    let violation = world.engine.violation().expect("the check must trip").clone();
    assert_eq!(violation.invariant, invariant, "{violation}");
    let mut world = World::new(config.clone());
    script(&mut world);
    assert_eq!(world.engine.violation(), None);
}

#[test]
fn i1_two_attempts_in_one_lane() {
    trips(Sabotage::I1, Invariant::I1, &config(OrderingMode::PerQueue), |world| {
        world.fetch(0..2);
        // A success raises the limit to 2: the orphan takes one of them.
        world.answer(0, 200);
        world.input(Input::QueueLost { queue: Q, epoch: world.epoch });
        world.acquire(Q, 1, None);
        world.fetch(1..2);
    });
}

#[test]
fn i2_accept_without_a_success() {
    let config = Config { capabilities: one_by_one(), ..config(OrderingMode::PerQueue) };
    trips(Sabotage::I2, Invariant::I2, &config, |world| {
        world.fetch(0..1);
        world.answer(0, 500);
    });
}

#[test]
fn i3_a_commit_beyond_a_hole() {
    trips(Sabotage::I3, Invariant::I3, &config(OrderingMode::PerQueue), |world| {
        world.fetch(0..2);
        world.answer(0, 200);
        world.millis(25);
    });
}

#[test]
fn i4_work_after_a_loss() {
    trips(Sabotage::I4, Invariant::I4, &config(OrderingMode::PerQueue), |world| {
        world.fetch(0..2);
        world.input(Input::QueueLost { queue: Q, epoch: world.epoch });
        world.answer(0, 200);
    });
}

#[test]
fn i5_a_fetch_beyond_the_share() {
    trips(Sabotage::I5, Invariant::I5, &config(OrderingMode::PerQueue), |world| {
        world.fetch(0..1);
    });
}

#[test]
fn i6_a_delivery_ends_twice() {
    let config = Config { capabilities: one_by_one(), ..config(OrderingMode::PerQueue) };
    trips(Sabotage::I6, Invariant::I6, &config, |world| {
        world.fetch(0..1);
        world.answer(0, 200);
    });
}

#[test]
fn i7_an_attempt_charged_that_never_arrived() {
    trips(Sabotage::I7, Invariant::I7, &config(OrderingMode::PerQueue), |world| {
        world.fetch(0..1);
        world.fail(0, TransportFailure::Unreachable);
        world.secs(1);
    });
}

#[test]
fn i8_a_fetch_while_draining() {
    trips(Sabotage::I8, Invariant::I8, &config(OrderingMode::PerQueue), |world| {
        world.fetch(0..1);
        world.input(Input::DrainRequested { deadline: world.now + Duration::from_secs(5) });
    });
}

#[test]
fn i9_an_attempt_in_the_reserve() {
    trips(Sabotage::I9, Invariant::I9, &config(OrderingMode::PerQueue), |world| {
        world.input(Input::QueueLost { queue: Q, epoch: world.epoch });
        world.acquire(Q, 0, Some(Duration::from_secs(10)));
        world.millis(9_600);
        world.fetch(0..1);
    });
}

#[test]
fn i10_one_lane_stops_another() {
    let config = Config { capabilities: log(), ..config(OrderingMode::PerKey) };
    trips(Sabotage::I10, Invariant::I10, &config, |world| {
        world.deliver(Q, vec![message(0, Some(1)), message(1, Some(2))]);
        world.answer(0, 500);
    });
}
