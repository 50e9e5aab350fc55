//! One script per row of the failure table (see `lib.rs`).

use std::time::Duration;

use lockstep_core::{
    AttemptNotice, ByHand, Config, DataLossPolicy, Event, Failure, Hold, Incoming, Input, OrderingMode,
    Output, Settlement, TransportFailure, UndecodablePolicy, WhenExhausted,
};
use lockstep_model::{DeadLetterBy, Epoch, Identity, Position};

use crate::world::{Q, R, World, config, message, one_by_one};

fn per_queue() -> Config {
    config(OrderingMode::PerQueue)
}

fn identity(offset: u64) -> Identity {
    Identity::Position { offset, stored_ms: 1, log_offset: 1 }
}

fn leased(config: Config, secs: u64) -> World {
    let mut world = World::cold(config);
    world.healthy(true);
    world.acquire(Q, 0, Some(Duration::from_secs(secs)));
    world
}

fn renew(world: &mut World, secs: u64) {
    let deadline = Some(world.now + Duration::from_secs(secs));
    world.input(Input::LeaseRenewed { queue: Q, epoch: world.epoch, deadline });
}

#[test]
fn restored_attempts_go_on_after_a_crash() {
    let mut world = World::cold(per_queue());
    world.input(Input::AttemptsRestored { queue: Q, identity: identity(0), attempts: 2 });
    world.healthy(true);
    world.acquire(Q, 0, None);
    world.fetch(0..2);
    assert_eq!(world.number(0), 3);
    world.answer(0, 500);
    assert!(world.took(&Output::SaveAttempts { queue: Q, identity: identity(0), attempts: 3 }));
    assert!(world.event(|event| matches!(event, Event::Blocked { hold: Hold::Exhausted, attempts: 3, .. })));
    world.secs(60);
    world.answer(0, 200);
    assert!(world.took(&Output::SaveAttempts { queue: Q, identity: identity(0), attempts: 0 }));
    assert_eq!(world.number(1), 1);
}

#[test]
fn attempts_spent_before_a_crash_are_not_spent_again() {
    let policy = Config { when_exhausted: WhenExhausted::DeadLetter, ..per_queue() };
    let mut world = World::cold(policy);
    world.input(Input::AttemptsRestored { queue: Q, identity: identity(0), attempts: 3 });
    world.healthy(true);
    world.acquire(Q, 0, None);
    world.fetch(0..1);
    assert_eq!(world.settle_asked(Q), Some((0, Settlement::DeadLetter)));
}

#[test]
fn attempts_of_messages_that_others_finished_are_forgotten() {
    let mut world = World::cold(per_queue());
    world.input(Input::AttemptsRestored { queue: Q, identity: identity(4), attempts: 2 });
    world.healthy(true);
    world.acquire(Q, 5, None);
    assert!(world.took(&Output::SaveAttempts { queue: Q, identity: identity(4), attempts: 0 }));
}

#[test]
fn a_doubtful_lease_starts_nothing_and_keeps_what_it_knows() {
    let mut world = leased(per_queue(), 30);
    world.fetch(0..2);
    world.input(Input::LeaseDoubtful { queue: Q, epoch: world.epoch });
    world.answer(0, 200);
    assert!(world.attempted().is_empty());
    assert_eq!(world.commit_asked(Q), None);
    renew(&mut world, 30);
    assert_eq!(world.commit_asked(Q), Some(1));
    assert_eq!(world.attempted(), [1], "the buffer is kept and 0 is not repeated");
}

#[test]
fn a_commit_is_repeated_when_doubt_ends() {
    let mut world = leased(per_queue(), 30);
    world.fetch(0..1);
    world.answer(0, 200);
    assert_eq!(world.confirm_all(), Some(1));
    world.input(Input::LeaseDoubtful { queue: Q, epoch: world.epoch });
    renew(&mut world, 30);
    assert_eq!(world.commit_asked(Q), Some(1), "the broker may have lost it");
}

#[test]
fn a_lost_lease_cancels_and_ignores_what_runs() {
    let mut world = leased(per_queue(), 30);
    world.fetch(0..2);
    let attempt = world.running[0].id;
    let old = world.epoch;
    world.input(Input::QueueLost { queue: Q, epoch: old });
    assert_eq!(world.cancelled(), Some(attempt));
    assert!(world.event(|event| *event == Event::Abandoned { queue: Q, deliveries: 2 }));
    world.acquire(Q, 0, Some(Duration::from_secs(30)));
    world.fetch(0..1);
    assert_eq!(world.running.len(), 1, "the orphan keeps the lane");
    world.answer(0, 200);
    assert!(world.event(|event| matches!(event, Event::AttemptEnded { notice: AttemptNotice::Late, .. })));
    assert_eq!(world.attempted(), [0], "its success does not count for the new owner");
    assert_eq!(world.commit_asked(Q), None);
}

#[test]
fn nothing_starts_in_the_reserve_and_what_runs_is_cancelled_before_the_end() {
    let mut world = leased(per_queue(), 10);
    world.fetch(0..1);
    world.answer(0, 200);
    world.fetch(1..3);
    world.millis(9_600);
    assert_eq!(world.cancelled(), None);
    world.millis(300);
    assert!(world.cancelled().is_some(), "100 ms before the end");
    world.fail(1, TransportFailure::Cancelled);
    assert!(world.attempted().is_empty());
    world.millis(99);
    assert!(!world.released(Q));
    world.millis(1);
    assert!(world.released(Q), "the adapter has to let go although it said nothing");
    assert!(world.event(|event| *event == Event::Abandoned { queue: Q, deliveries: 2 }));
    world.events.clear();
    world.input(Input::QueueLost { queue: Q, epoch: world.epoch });
    assert!(world.events.is_empty(), "that is no surprise");
}

#[test]
fn a_renewal_in_the_reserve_starts_again_uncharged() {
    let mut world = leased(per_queue(), 10);
    world.fetch(0..1);
    world.millis(9_900);
    world.fail(0, TransportFailure::Cancelled);
    renew(&mut world, 10);
    assert_eq!(world.number(0), 1);
}

#[test]
fn a_failed_commit_is_repeated_with_backoff_and_keeps_its_position() {
    for failure in [Failure::NotDone, Failure::Unknown] {
        let mut world = World::new(per_queue());
        world.fetch(0..2);
        world.answer(0, 200);
        world.millis(25);
        assert_eq!(world.commit_asked(Q), Some(1));
        world.commit_answer(Q, 1, Err(failure));
        world.millis(49);
        assert_eq!(world.commit_asked(Q), None);
        world.answer(1, 200);
        world.millis(51);
        assert_eq!(world.commit_asked(Q), Some(2), "with whatever is finished by then");
    }
}

#[test]
fn an_unknown_settlement_is_repeated_and_never_an_attempt() {
    let mut world = World::new(Config { capabilities: one_by_one(), ..per_queue() });
    world.fetch(0..2);
    world.answer(0, 200);
    assert_eq!(world.settle_asked(Q), Some((0, Settlement::Accept)));
    world.settle_answer(Q, 0, Err(Failure::Unknown));
    assert_eq!(world.attempted(), [1]);
    world.millis(100);
    assert_eq!(world.settle_asked(Q), Some((0, Settlement::Accept)));
    world.settle_answer(Q, 0, Ok(()));
    world.settle_answer(Q, 0, Ok(()));
    assert!(world.event(|event| matches!(event, Event::Stale { .. })), "a second answer is a surprise");
}

#[test]
fn a_failed_dead_letter_blocks_its_lane_and_is_repeated() {
    let mut world = World::new(Config { when_exhausted: WhenExhausted::DeadLetter, ..per_queue() });
    world.fetch(0..2);
    world.answer(0, 422);
    assert!(world.settle_asked(Q).is_some());
    world.settle_answer(Q, 0, Err(Failure::NotDone));
    assert!(world.event(|event| matches!(event, Event::Blocked { hold: Hold::DeadLetterFailed, .. })));
    assert!(world.attempted().is_empty());
    world.millis(100);
    assert_eq!(world.settle_asked(Q), Some((0, Settlement::DeadLetter)));
    world.settle_answer(Q, 0, Ok(()));
    assert!(world.event(|event| matches!(event, Event::DeadLettered { by_hand: false, .. })));
    assert_eq!(world.attempted(), [1]);
}

#[test]
fn a_dead_letter_that_no_broker_takes_blocks() {
    let mut capabilities = one_by_one();
    capabilities.dead_letter = DeadLetterBy::Unsupported;
    let policy = Config { capabilities, when_exhausted: WhenExhausted::DeadLetter, ..per_queue() };
    let mut world = World::new(policy);
    world.fetch(0..1);
    world.answer(0, 422);
    assert!(world.event(|event| matches!(event, Event::Blocked { hold: Hold::Rejected, .. })));
    world.by_hand(0, ByHand::DeadLetter);
    assert!(world.event(|event| matches!(event, Event::ByHandRefused { .. })));
}

#[test]
fn shares_that_shrank_are_kept_to_before_more_is_asked_for() {
    let mut world = World::new(Config { buffer_count: 8, ..per_queue() });
    world.fetch(0..8);
    world.acquire(R, 0, None);
    assert_eq!(world.fetches.iter().map(|asked| (asked.0, asked.3)).collect::<Vec<_>>(), [(R, 1)]);
}

#[test]
fn a_reset_moves_the_queue_either_way() {
    for to in [0, 7, 90] {
        let mut world = World::new(per_queue());
        world.deliver(Q, (5..8).map(|n| message(n, None)).collect());
        world.answer(5, 200);
        world.confirm_all();
        world.input(Input::PositionMoved { queue: Q, epoch: world.epoch, to: Position(to), reset: true });
        assert!(world.event(|event| matches!(event, Event::Moved { reset: true, .. })));
        assert_eq!(world.cancelled(), None, "what runs may end");
        assert_eq!(world.fetches[0].2, to);
        world.fetches[0].2 = to;
        world.deliver(Q, vec![message(to, None)]);
        assert_eq!(world.attempted(), [6], "and keeps its lane");
        world.answer(6, 200);
        assert_eq!(world.attempted(), [to]);
        world.answer(to, 200);
        assert_eq!(world.confirm_all(), Some(to + 1));
    }
}

#[test]
fn a_commit_that_a_reset_overtook_is_corrected() {
    let mut world = World::new(per_queue());
    world.fetch(0..1);
    world.answer(0, 200);
    assert_eq!(world.commit_asked(Q), Some(1));
    world.input(Input::PositionMoved { queue: Q, epoch: world.epoch, to: Position(0), reset: true });
    assert_eq!(world.commit_asked(Q), None, "one at a time");
    world.commit_answer(Q, 1, Ok(()));
    assert_eq!(world.commit_asked(Q), Some(0));
}

#[test]
fn retention_continues_behind_the_gap() {
    let mut world = World::new(per_queue());
    world.input(Input::PositionMoved { queue: Q, epoch: world.epoch, to: Position(40), reset: false });
    assert!(world.event(|event| {
        *event == Event::Moved { queue: Q, from: Position(0), to: Position(40), reset: false }
    }));
    assert_eq!(world.fetches[0].2, 40);
    assert_eq!(world.confirm_all(), Some(40));
}

#[test]
fn retention_stops_when_a_person_wants_it_so() {
    let mut world = World::new(Config { on_data_loss: DataLossPolicy::Stop, ..per_queue() });
    world.fetch(0..2);
    world.input(Input::PositionMoved { queue: Q, epoch: world.epoch, to: Position(40), reset: false });
    world.answer(0, 200);
    world.secs(100);
    assert!(world.attempted().is_empty() && world.fetches.is_empty());
    assert_eq!(world.commit_asked(Q), None);
    assert!(world.engine.queues().all(|view| view.stopped));
}

#[test]
fn an_undecodable_message_is_dead_lettered_in_its_place() {
    let mut world = World::new(Config { undecodable: UndecodablePolicy::DeadLetter, ..per_queue() });
    let broken = Incoming { undecodable: true, ..message(1, None) };
    world.deliver(Q, vec![message(0, None), broken, message(2, None)]);
    assert_eq!(world.settle_asked(Q), None, "not before what comes before it");
    world.answer(0, 200);
    assert_eq!(world.settle_asked(Q), Some((1, Settlement::DeadLetter)));
    assert!(world.attempted().is_empty());
    world.settle_answer(Q, 1, Ok(()));
    assert_eq!(world.attempted(), [2]);
}

#[test]
fn a_person_gets_past_one_message() {
    let mut world = World::new(per_queue());
    world.fetch(0..4);
    world.answer(0, 422);
    world.by_hand(1, ByHand::Skip);
    assert!(world.event(|event| matches!(event, Event::ByHandRefused { .. })), "only heads");
    world.by_hand(0, ByHand::Skip);
    assert!(world.event(|event| matches!(event, Event::Skipped { by_hand: true, .. })));
    world.by_hand(1, ByHand::DeadLetter);
    assert_eq!(world.settle_asked(Q), None, "it is attempted just now");
    world.answer(1, 500);
    assert_eq!(world.settle_asked(Q), Some((1, Settlement::DeadLetter)));
    world.settle_answer(Q, 1, Err(Failure::NotDone));
    world.by_hand(1, ByHand::Skip);
    assert_eq!(world.attempted(), [2], "past a dead letter that fails");
    world.by_hand(2, ByHand::Skip);
    world.answer(2, 200);
    assert!(!world.event(|event| matches!(event, Event::Skipped { position: Position(2), .. })));
}

#[test]
fn old_heads_are_reported_whatever_the_cause() {
    let mut world = World::new(Config { hand_over: Duration::from_secs(10_000), ..per_queue() });
    world.healthy(false);
    world.fetch(0..1);
    world.secs(300);
    assert!(world.event(|event| matches!(event, Event::Blocked { hold: Hold::Age, attempts: 0, .. })));
    let head = world.engine.queues().next().and_then(|view| view.blocked).expect("it must be reported");
    assert_eq!((head.position, head.hold, head.age), (Position(0), Hold::Age, Duration::from_secs(300)));
}

#[test]
fn a_failed_fetch_is_asked_again_after_a_growing_wait() {
    let mut world = World::new(per_queue());
    for n in 0..4 {
        let (queue, fetch, ..) = world.fetches.pop().expect("a fetch must be open");
        world.input(Input::FetchFailed { queue, epoch: world.epoch, fetch });
        world.millis(50 * (1 << n) - 1);
        assert!(world.fetches.is_empty());
        world.millis(50 * (1 << n) + 1);
        assert_eq!(world.fetches.len(), 1);
    }
}

#[test]
fn a_source_that_answers_nothing_at_once_cannot_spin_us() {
    let mut world = World::new(per_queue());
    for _ in 0..3 {
        world.deliver(Q, vec![]);
        assert_eq!(world.fetches.len(), 1, "a source waits by itself");
    }
    world.deliver(Q, vec![]);
    assert!(world.fetches.is_empty());
    world.millis(10);
    assert_eq!(world.fetches.len(), 1);
    world.secs(20);
    world.deliver(Q, vec![]);
    assert_eq!(world.fetches.len(), 1, "a long poll that ended is nothing to be wary of");
}

#[test]
fn surprises_from_the_broker_are_counted_and_dropped() {
    let mut world = World::new(per_queue());
    let old = Epoch(1);
    let (queue, fetch, ..) = world.fetches[0];
    let inputs = [
        Input::LeaseRenewed { queue, epoch: old, deadline: None },
        Input::LeaseDoubtful { queue, epoch: old },
        Input::QueueRevoking { queue, epoch: old, deadline: None },
        Input::RevocationCancelled { queue, epoch: old },
        Input::QueueLost { queue, epoch: old },
        Input::Released { queue, epoch: old },
        Input::Fetched { queue, epoch: old, fetch, deliveries: vec![message(0, None)], next: Position(1) },
        Input::FetchFailed { queue, epoch: old, fetch },
        Input::PositionMoved { queue, epoch: old, to: Position(9), reset: true },
        Input::Settled { queue, epoch: world.epoch, position: Position(0), result: Ok(()) },
        Input::Committed { queue, epoch: world.epoch, position: Position(9), result: Ok(()) },
        Input::QueueAcquired { queue, epoch: old, deadline: None, cursor: Position(9), settle_within: None },
        Input::Left,
    ];
    for input in inputs {
        world.events.clear();
        world.input(input.clone());
        assert!(world.event(|event| matches!(event, Event::Stale { .. })), "{input:?}");
    }
    assert_eq!(world.fetches.len(), 1);
    world.deliver(Q, vec![message(3, None), message(2, None), message(5, None)]);
    assert!(world.event(|event| matches!(event, Event::Stale { what: "disorder", .. })));
    world.answer(3, 200);
    assert_eq!(world.attempted(), [5]);
}

#[test]
fn more_than_was_asked_for_is_read_again_later() {
    let mut world = World::new(Config { buffer_count: 2, ..per_queue() });
    world.fetch(0..3);
    assert!(world.event(|event| matches!(event, Event::Stale { what: "surplus", .. })));
    world.answer(0, 200);
    assert_eq!(world.fetches[0].2, 2);
}
