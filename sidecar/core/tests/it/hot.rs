//! One script per row of the table of hot fields (see `reconfigure.rs`).

use std::time::Duration;

use lockstep_core::{
    Backoff, Config, DataLossPolicy, Event, Hold, Input, OrderingMode, Output, RunState, Settlement,
    StatusCodes, UndecodablePolicy, WhenExhausted,
};
use lockstep_model::Position;

use crate::world::{Q, World, config, message};

fn per_queue() -> Config {
    config(OrderingMode::PerQueue)
}

#[test]
fn state_paused_leaves_and_running_comes_back() {
    let mut world = World::new(per_queue());
    world.fetch(0..2);
    world.reconfigure(|c| c.state = RunState::Paused);
    assert!(world.took(&Output::LeaveGroup));
    assert!(world.fetches.is_empty(), "the open fetch is dropped");
    assert!(!world.released(Q), "the running attempt may end");
    world.answer(0, 200);
    assert!(world.attempted().is_empty());
    assert_eq!(world.confirm_all(), Some(1));
    assert!(world.released(Q));
    world.input(Input::Released { queue: Q, epoch: world.epoch });
    world.input(Input::Left);
    assert!(world.took(&Output::JoinGroup), "of the start");
    assert!(!world.took(&Output::JoinGroup));
    world.reconfigure(|c| c.state = RunState::Running);
    assert!(world.took(&Output::JoinGroup));
}

#[test]
fn max_in_flight_lets_running_attempts_end() {
    let mut world = World::new(config(OrderingMode::Unordered));
    world.fetch(0..20);
    world.answer(0, 200);
    world.answer(1, 200);
    assert_eq!(world.attempted().len(), 4);
    world.reconfigure(|c| c.max_in_flight = 1);
    assert_eq!(world.cancelled(), None);
    let position = world.attempted()[0];
    world.answer(position, 200);
    assert_eq!(world.attempted().len(), 3, "nothing starts above the limit");
    world.reconfigure(|c| c.max_in_flight = 8);
    let position = world.attempted()[0];
    world.answer(position, 200);
    assert_eq!(world.attempted().len(), 2);
    let position = world.attempted()[0];
    world.answer(position, 200);
    assert_eq!(world.engine.snapshot().limit, 4, "it grows again by successes");
}

#[test]
fn timeout_counts_from_the_next_attempt() {
    let mut world = World::new(per_queue());
    world.fetch(0..2);
    world.reconfigure(|c| c.timeout = Duration::from_secs(3));
    world.answer(0, 200);
    assert_eq!(world.timeout, Duration::from_secs(3));
}

#[test]
fn max_attempts_is_applied_by_the_next_outcome_and_frees_blocked_heads_for_it() {
    let mut world = World::new(Config { max_attempts: 1, ..per_queue() });
    world.fetch(0..1);
    world.answer(0, 500);
    assert!(world.attempted().is_empty());
    world.reconfigure(|c| c.max_attempts = 5);
    assert_eq!(world.number(0), 2, "tried at once");
    world.events.clear();
    world.answer(0, 500);
    assert!(!world.event(|event| matches!(event, Event::Blocked { .. })), "and not exhausted any more");
}

#[test]
fn a_shorter_backoff_ends_waits() {
    let mut world = World::new(per_queue());
    world.fetch(0..1);
    world.answer(0, 422);
    world.reconfigure(|c| {
        c.backoff = Backoff::Constant { initial: Duration::from_millis(10), max: Duration::from_secs(1) };
    });
    assert_eq!(world.attempted(), [0]);
}

#[test]
fn a_longer_backoff_leaves_waits_alone() {
    let mut world = World::new(per_queue());
    world.fetch(0..1);
    world.answer(0, 422);
    world.reconfigure(|c| {
        c.backoff = Backoff::Constant { initial: Duration::from_secs(9), max: Duration::from_secs(600) };
    });
    assert!(world.attempted().is_empty());
    world.secs(60);
    assert_eq!(world.attempted(), [0]);
}

#[test]
fn retry_after_max_counts_from_the_next_answer() {
    let mut world = World::new(per_queue());
    world.fetch(0..1);
    world.answer_with(0, 503, Some(100), None);
    world.reconfigure(|c| c.retry_after_max = Duration::from_secs(7));
    world.secs(99);
    assert!(world.attempted().is_empty(), "the pause under way stays");
    world.secs(1);
    world.answer(0, 200);
    world.fetch(1..2);
    world.answer_with(1, 503, Some(100), None);
    world.secs(7);
    assert_eq!(world.attempted(), [1]);
}

#[test]
fn when_exhausted_is_applied_by_one_more_try_of_a_blocked_head() {
    let mut world = World::new(Config { max_attempts: 1, ..per_queue() });
    world.fetch(0..1);
    world.answer(0, 500);
    assert_eq!(world.settle_asked(Q), None);
    world.reconfigure(|c| c.when_exhausted = WhenExhausted::DeadLetter);
    assert_eq!(world.attempted(), [0], "a repaired application gets its chance");
    world.answer(0, 500);
    assert_eq!(world.settle_asked(Q), Some((0, Settlement::DeadLetter)));
}

#[test]
fn status_codes_judge_the_next_answer_and_free_held_heads_for_it() {
    let mut world = World::new(per_queue());
    world.fetch(0..1);
    world.answer(0, 404);
    world.reconfigure(|c| c.status_codes = StatusCodes { done: vec![404], ..StatusCodes::default() });
    assert_eq!(world.attempted(), [0]);
    world.answer(0, 404);
    assert_eq!(world.confirm_all(), Some(1));
}

#[test]
fn undecodable_decides_a_held_head_at_once() {
    let mut world = World::new(per_queue());
    let broken = lockstep_core::Incoming { undecodable: true, ..message(0, None) };
    world.deliver(Q, vec![broken, message(1, None)]);
    assert!(world.event(|event| matches!(event, Event::Blocked { hold: Hold::Undecodable, .. })));
    assert!(world.attempted().is_empty());
    world.reconfigure(|c| c.undecodable = UndecodablePolicy::DeadLetter);
    assert_eq!(world.settle_asked(Q), Some((0, Settlement::DeadLetter)));
    world.settle_answer(Q, 0, Ok(()));
    assert_eq!(world.attempted(), [1]);
}

#[test]
fn on_data_loss_continue_ends_a_stop() {
    let mut world = World::new(Config { on_data_loss: DataLossPolicy::Stop, ..per_queue() });
    world.input(Input::PositionMoved { queue: Q, epoch: world.epoch, to: Position(50), reset: false });
    assert!(world.fetches.is_empty());
    assert_eq!(world.commit_asked(Q), None);
    world.reconfigure(|c| c.on_data_loss = DataLossPolicy::Continue);
    assert_eq!(world.fetches[0].2, 50);
    assert_eq!(world.commit_asked(Q), Some(50));
}

#[test]
fn hand_over_counts_anew() {
    let mut world = World::new(per_queue());
    world.healthy(false);
    world.secs(20);
    world.reconfigure(|c| c.hand_over = Duration::from_secs(15));
    world.millis(14_999);
    assert!(!world.took(&Output::LeaveGroup));
    world.millis(1);
    assert!(world.took(&Output::LeaveGroup));
}

#[test]
fn buffer_and_span_bound_the_next_fetch() {
    let mut world = World::new(per_queue());
    world.fetch(0..1);
    assert_eq!(world.fetches[0].3, 64, "the head is attempted, so the whole share is free");
    world.reconfigure(|c| c.buffer_count = 10);
    world.fetch(1..2);
    assert_eq!(world.fetches[0].3, 9);
    world.reconfigure(|c| c.span = 4);
    world.fetch(2..3);
    assert_eq!(world.fetches[0].3, 1);
}

#[test]
fn storm_frees_held_heads_for_one_more_try() {
    let mut world = World::new(Config { storm: 1, when_exhausted: WhenExhausted::Skip, ..per_queue() });
    world.fetch(0..1);
    world.answer(0, 422);
    assert!(world.event(|event| matches!(event, Event::Blocked { hold: Hold::DeadLetterStorm, .. })));
    world.reconfigure(|c| c.storm = 0);
    assert_eq!(world.attempted(), [0]);
    world.answer(0, 422);
    assert!(world.event(|event| matches!(event, Event::Skipped { .. })));
}

#[test]
fn blocked_age_counts_from_the_next_look() {
    let mut world = World::new(per_queue());
    world.input(Input::DispatchHeld(true));
    world.fetch(0..1);
    world.secs(5);
    world.reconfigure(|c| c.blocked_age = Duration::from_secs(10));
    world.millis(4_999);
    assert!(!world.event(|event| matches!(event, Event::Blocked { .. })));
    world.millis(1);
    assert!(world.event(|event| matches!(event, Event::Blocked { hold: Hold::Age, .. })));
}
