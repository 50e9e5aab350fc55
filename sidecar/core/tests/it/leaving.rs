//! How queues are given back: hand-over, drain, revocation, acknowledgement timeout.

use std::time::Duration;

use bytes::Bytes;
use lockstep_core::{
    Config, Event, Failure, Incoming, Input, OrderingMode, Output, Settlement, TransportFailure,
};
use lockstep_model::{Epoch, Identity, Position};

use crate::world::{Q, R, World, config, message, one_by_one};

fn per_queue() -> Config {
    config(OrderingMode::PerQueue)
}

fn identity(offset: u64) -> Identity {
    Identity::Position { offset, stored_ms: 1, log_offset: 1 }
}

fn drain(world: &mut World, secs: u64) {
    world.input(Input::DrainRequested { deadline: world.now + Duration::from_secs(secs) });
}

fn confirm_release(world: &mut World) {
    world.input(Input::Released { queue: Q, epoch: world.epoch });
}

#[test]
fn a_slow_application_hands_over_and_comes_back_damped() {
    let mut world = World::new(per_queue());
    assert!(world.took(&Output::JoinGroup));
    world.fetch(0..2);
    world.healthy(false);
    world.secs(30);
    assert!(world.took(&Output::LeaveGroup));
    assert!(!world.released(Q), "the running attempt may end");
    world.answer(0, 200);
    assert_eq!(world.confirm_all(), Some(1));
    assert!(world.released(Q));
    confirm_release(&mut world);
    world.input(Input::Left);
    for (wait, again) in [(5, true), (10, false)] {
        world.healthy(true);
        world.millis(wait * 1_000 - 1);
        assert!(!world.took(&Output::JoinGroup), "health must be stable");
        world.millis(1);
        assert!(world.took(&Output::JoinGroup));
        if again {
            world.healthy(false);
            world.secs(30);
            assert!(world.took(&Output::LeaveGroup));
            world.input(Input::Left);
        }
    }
}

#[test]
fn health_that_flickers_does_not_hand_over() {
    let mut world = World::new(per_queue());
    for _ in 0..10 {
        world.healthy(false);
        world.secs(20);
        world.healthy(true);
    }
    assert!(!world.took(&Output::LeaveGroup));
}

#[test]
fn a_drain_finishes_what_runs_commits_and_leaves() {
    let mut world = World::new(per_queue());
    world.acquire(R, 0, None);
    let r = world.epoch;
    world.epoch = Epoch(2);
    world.fetch(0..3);
    drain(&mut world, 30);
    assert!(world.fetches.is_empty());
    assert!(world.released(R), "an idle queue goes at once");
    assert!(world.took(&Output::LeaveGroup));
    assert!(!world.released(Q));
    world.answer(0, 200);
    assert!(world.attempted().is_empty(), "PerQueue starts nothing more");
    assert_eq!(world.confirm_all(), Some(1));
    assert!(world.released(Q));
    confirm_release(&mut world);
    world.input(Input::Released { queue: R, epoch: r });
    assert!(!world.engine.is_finished());
    world.input(Input::Left);
    assert!(world.took(&Output::Finished));
    assert!(world.engine.is_finished());
    assert_eq!(world.wake, None);
}

#[test]
fn a_drain_abandons_waiting_heads_uncharged() {
    let mut world = World::new(per_queue());
    world.fetch(0..2);
    world.answer(0, 500);
    drain(&mut world, 30);
    assert!(world.released(Q));
    assert!(world.event(|event| *event == Event::Abandoned { queue: Q, deliveries: 2 }));
    assert!(
        !world.took(&Output::SaveAttempts { queue: Q, identity: identity(0), attempts: 0 }),
        "one is spent"
    );
}

#[test]
fn a_drain_closes_the_prefix_of_keys() {
    let mut world = World::new(config(OrderingMode::PerKey));
    world
        .deliver(Q, vec![message(0, Some(1)), message(1, Some(1)), message(2, Some(2)), message(3, Some(3))]);
    world.answer(0, 200);
    assert_eq!(world.attempted(), [1, 2]);
    world.answer(2, 200);
    assert_eq!(world.attempted(), [1, 3]);
    world.answer(1, 500);
    drain(&mut world, 30);
    world.answer(3, 200);
    assert_eq!(
        world.confirm_all(),
        Some(1),
        "2 and 3 are repeated by the next owner: 1 waits without a verdict"
    );
    assert!(world.released(Q));
}

#[test]
fn a_drain_starts_buffered_holes_only_while_they_close_the_prefix() {
    let mut world = World::new(Config { max_in_flight: 2, ..config(OrderingMode::PerKey) });
    world.deliver(Q, (0..6).map(|n| message(n, Some(if n == 3 { 1 } else { n }))).collect());
    world.answer(0, 200);
    world.answer(1, 429);
    assert_eq!(world.attempted(), [2]);
    world.answer(2, 200);
    assert_eq!(world.attempted(), [4, 5]);
    drain(&mut world, 30);
    world.answer(4, 200);
    world.secs(1);
    assert_eq!(world.attempted(), [5], "1 waited and is abandoned, so 3 closes nothing");
    world.answer(5, 200);
    assert_eq!(world.confirm_all(), Some(1));
    assert!(world.released(Q));

    let mut world = World::new(Config { max_in_flight: 2, ..config(OrderingMode::PerKey) });
    world
        .deliver(Q, vec![message(0, Some(0)), message(1, Some(1)), message(2, Some(1)), message(3, Some(3))]);
    world.answer(0, 200);
    assert_eq!(world.attempted(), [1, 3]);
    drain(&mut world, 30);
    world.answer(3, 200);
    world.answer(1, 200);
    assert_eq!(world.attempted(), [2]);
    world.answer(2, 200);
    assert_eq!(world.confirm_all(), Some(4), "nothing is repeated");
    assert!(world.released(Q));
}

#[test]
fn a_drain_ends_by_its_deadline() {
    let mut world = World::new(per_queue());
    world.fetch(0..1);
    drain(&mut world, 5);
    world.millis(4_999);
    assert_eq!(world.cancelled(), None);
    world.millis(1);
    assert!(world.cancelled().is_some());
    assert!(world.released(Q));
    assert!(world.took(&Output::Finished));
    world.fail(0, TransportFailure::Cancelled);
}

#[test]
fn a_drain_without_queues_ends_at_once() {
    let mut world = World::cold(per_queue());
    drain(&mut world, 5);
    assert!(world.took(&Output::Finished));
    assert!(!world.took(&Output::LeaveGroup), "it never joined");
}

#[test]
fn a_revoked_queue_is_released_when_idle_or_kept_when_that_is_cancelled() {
    let mut world = World::new(per_queue());
    world.fetch(0..3);
    world.input(Input::QueueRevoking { queue: Q, epoch: world.epoch, deadline: None });
    world.input(Input::RevocationCancelled { queue: Q, epoch: world.epoch });
    world.answer(0, 200);
    assert_eq!(world.attempted(), [1]);
    world.input(Input::QueueRevoking { queue: Q, epoch: world.epoch, deadline: None });
    world.answer(1, 200);
    assert!(world.attempted().is_empty());
    assert_eq!(world.commit_asked(Q), Some(1), "at once, for it is on its way out");
    world.commit_answer(Q, 1, Ok(()));
    assert_eq!(world.commit_asked(Q), Some(2));
    assert!(!world.released(Q), "the commit is not confirmed");
    world.commit_answer(Q, 2, Ok(()));
    assert!(world.released(Q));
}

#[test]
fn a_revocation_ends_by_its_deadline() {
    let mut world = World::new(per_queue());
    world.fetch(0..1);
    let deadline = Some(world.now + Duration::from_secs(3));
    world.input(Input::QueueRevoking { queue: Q, epoch: world.epoch, deadline });
    world.secs(3);
    assert!(world.cancelled().is_some());
    assert!(world.released(Q));
}

#[test]
fn unordered_deliveries_are_given_back_one_by_one() {
    let mut world = World::new(Config { capabilities: one_by_one(), ..config(OrderingMode::Unordered) });
    world.fetch(0..3);
    world.input(Input::QueueRevoking { queue: Q, epoch: world.epoch, deadline: None });
    assert_eq!(world.settle_asked(Q), Some((1, Settlement::Release)));
    assert_eq!(world.settle_asked(Q), Some((2, Settlement::Release)));
    world.settle_answer(Q, 1, Ok(()));
    world.settle_answer(Q, 2, Err(Failure::Unknown));
    world.answer(0, 200);
    assert_eq!(world.settle_asked(Q), Some((0, Settlement::Accept)));
    assert!(!world.released(Q));
    world.settle_answer(Q, 0, Ok(()));
    assert!(world.released(Q));
}

#[test]
fn deliveries_go_back_before_the_acknowledgement_timeout_with_their_attempts() {
    let unique = Identity::Unique(Bytes::from_static(b"m"));
    let held = || Incoming { identity: unique.clone(), ..message(0, None) };
    let mut world = World::cold(Config { capabilities: one_by_one(), max_attempts: 1, ..per_queue() });
    world.healthy(true);
    world.epoch = Epoch(9);
    let (queue, epoch, settle_within) = (Q, world.epoch, Some(Duration::from_secs(20)));
    world.input(Input::QueueAcquired { queue, epoch, deadline: None, cursor: Position(0), settle_within });
    world.deliver(Q, vec![held()]);
    world.answer(0, 500);
    world.millis(9_999);
    assert!(!world.released(Q));
    world.millis(1);
    assert!(world.released(Q));
    confirm_release(&mut world);
    assert!(!world.took(&Output::LeaveGroup), "it comes back at once");
    world.acquire(Q, 0, None);
    world.deliver(Q, vec![held()]);
    assert_eq!(world.number(0), 2);
}

#[test]
fn a_delivery_that_could_not_be_given_back_is_given_back_again() {
    let mut world = World::new(Config { capabilities: one_by_one(), ..config(OrderingMode::Unordered) });
    world.fetch(0..2);
    world.input(Input::QueueRevoking { queue: Q, epoch: world.epoch, deadline: None });
    assert_eq!(world.settle_asked(Q), Some((1, Settlement::Release)));
    world.settle_answer(Q, 1, Err(Failure::NotDone));
    world.input(Input::RevocationCancelled { queue: Q, epoch: world.epoch });
    world.millis(100);
    assert_eq!(world.settle_asked(Q), Some((1, Settlement::Release)), "or the broker waits for it for ever");
}

#[test]
fn a_stopped_queue_is_released_too() {
    let stop = lockstep_core::DataLossPolicy::Stop;
    let mut world = World::new(Config { on_data_loss: stop, ..per_queue() });
    world.fetch(0..1);
    world.input(Input::PositionMoved { queue: Q, epoch: world.epoch, to: Position(9), reset: false });
    world.input(Input::QueueRevoking { queue: Q, epoch: world.epoch, deadline: None });
    assert!(!world.released(Q), "the orphan runs");
    world.answer(0, 200);
    assert!(world.released(Q));
}
