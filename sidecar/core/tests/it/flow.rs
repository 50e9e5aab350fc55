//! Order, buffer, span, commits and settlements when nothing goes wrong.

use std::time::Duration;

use bytes::Bytes;
use lockstep_core::{Config, Incoming, Input, OrderingMode, Output, Settlement};
use lockstep_model::{Identity, Moment, Position};

use crate::world::{Q, R, World, config, message, one_by_one};

#[test]
fn a_queue_is_delivered_in_order_and_committed() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    assert!(world.took(&Output::JoinGroup));
    world.fetch(0..3);
    for position in 0..3 {
        assert_eq!(world.attempted(), [position]);
        world.answer(position, 200);
    }
    assert_eq!(world.confirm_all(), Some(3));
}

#[test]
fn a_failed_attempt_is_tried_again_before_anything_else() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.fetch(0..2);
    world.answer(0, 500);
    assert!(world.attempted().is_empty());
    world.secs(1);
    assert_eq!(world.attempted(), [0]);
    assert_eq!(world.number(0), 2);
    world.answer(0, 200);
    assert_eq!(world.attempted(), [1]);
    assert_eq!(world.commit_asked(Q), None, "one delivery younger than 25 ms is not worth a commit");
    world.millis(25);
    assert_eq!(world.commit_asked(Q), Some(1));
}

#[test]
fn keys_run_in_parallel_and_each_in_order() {
    let mut world = World::new(config(OrderingMode::PerKey));
    world.deliver(Q, (0..8).map(|n| message(n, (n % 4 > 0).then_some(n % 4))).collect());
    world.answer(0, 200);
    world.answer(1, 200);
    assert_eq!(world.attempted(), [2, 3, 4, 5], "4 follows 0 in the queue's own lane, 5 follows 1");
    world.answer(2, 200);
    assert_eq!(world.attempted(), [3, 4, 5, 6], "7 waits for 3");
    world.answer(4, 200);
    world.millis(25);
    assert_eq!(world.confirm_all(), Some(3), "the prefix ends before 3");
    world.answer(3, 200);
    assert_eq!(world.confirm_all(), None);
    world.millis(25);
    assert_eq!(world.confirm_all(), Some(5), "the finished range ahead is passed");
}

#[test]
fn unordered_deliveries_do_not_wait_for_each_other() {
    let mut world = World::new(config(OrderingMode::Unordered));
    world.fetch(0..4);
    world.answer(0, 500);
    assert_eq!(world.attempted(), [1]);
    world.answer(1, 200);
    assert_eq!(world.attempted(), [2, 3]);
}

#[test]
fn a_queue_holds_at_32_unconfirmed_deliveries() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.fetch(0..60);
    for position in 0..32 {
        world.answer(position, 200);
    }
    assert!(world.attempted().is_empty());
    assert_eq!(world.commit_asked(Q), Some(16));
    world.commit_answer(Q, 16, Ok(()));
    assert_eq!(world.attempted(), [32]);
    assert_eq!(world.commit_asked(Q), Some(32));
}

#[test]
fn commits_carry_the_last_identity_and_respect_the_lease() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.acquire(Q, 0, Some(Duration::from_secs(30)));
    let reserve = world.now + Duration::from_millis(29_500);
    world.fetch(0..1);
    world.answer(0, 200);
    let commit = world.take(|output| match output {
        Output::Commit { last, not_after, .. } => Some((last.clone(), *not_after)),
        _ => None,
    });
    let last = Identity::Position { offset: 0, stored_ms: 1, log_offset: 1 };
    assert_eq!(commit, Some((last, Some(reserve))));
}

#[test]
fn filtered_messages_are_passed_at_most_once_a_second() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.deliver_next(Q, vec![], Some(100));
    assert_eq!(world.confirm_all(), Some(100));
    world.deliver_next(Q, vec![], Some(200));
    assert_eq!(world.confirm_all(), None);
    world.deliver_next(Q, vec![message(250, None)], Some(300));
    world.answer(250, 200);
    assert_eq!(world.confirm_all(), Some(300), "with a delivery it goes along");
    world.deliver_next(Q, vec![], Some(400));
    world.secs(1);
    assert_eq!(world.confirm_all(), Some(400));
}

#[test]
fn one_by_one_accepts_in_lane_order_without_waiting() {
    let mut world = World::new(Config { capabilities: one_by_one(), ..config(OrderingMode::PerQueue) });
    world.fetch(0..3);
    world.answer(0, 200);
    assert_eq!(world.attempted(), [1], "the next attempt does not wait for the answer");
    world.answer(1, 200);
    assert_eq!(world.settle_asked(Q), Some((0, Settlement::Accept)));
    assert_eq!(world.settle_asked(Q), Some((1, Settlement::Accept)));
    assert_eq!(world.commit_asked(Q), None);
}

#[test]
fn a_lookahead_of_one_holds_one_unsettled_delivery() {
    let mut capabilities = one_by_one();
    capabilities.lookahead = Some(1);
    let mut world = World::new(Config { capabilities, ..config(OrderingMode::PerQueue) });
    assert_eq!(world.fetches[0].3, 1);
    world.fetch(0..1);
    assert!(world.fetches.is_empty());
    world.answer(0, 200);
    assert!(world.fetches.is_empty(), "the acceptance is not confirmed");
    world.confirm_all();
    assert_eq!(world.fetches.len(), 1);
}

#[test]
fn queues_share_the_buffer_and_none_goes_without() {
    let mut world = World::new(Config { buffer_count: 1, ..config(OrderingMode::PerQueue) });
    world.acquire(R, 0, None);
    assert_eq!(world.fetches.iter().map(|asked| (asked.0, asked.3)).collect::<Vec<_>>(), [(Q, 1), (R, 1)]);
}

#[test]
fn a_fetch_asks_again_when_half_of_the_share_is_free() {
    let mut world = World::new(Config { buffer_count: 8, ..config(OrderingMode::PerQueue) });
    world.fetch(0..8);
    assert!(world.fetches.is_empty());
    for position in 0..3 {
        world.answer(position, 200);
        world.confirm_all();
    }
    assert_eq!(world.fetches[0].2, 8, "one in flight, four buffered");
    assert_eq!(world.fetches[0].3, 4);
}

#[test]
fn bytes_bound_the_buffer_but_one_large_message_passes() {
    let mut world = World::new(Config { buffer_bytes: 100, ..config(OrderingMode::PerQueue) });
    let large = Incoming { bytes: 5_000, ..message(0, None) };
    world.deliver(Q, vec![large]);
    assert!(world.fetches.is_empty());
    world.answer(0, 200);
    assert_eq!(world.fetches.len(), 1);
}

#[test]
fn a_blocked_lane_keeps_one_delivery_and_reads_the_rest_again() {
    let mut world = World::new(Config { buffer_count: 4, ..config(OrderingMode::PerKey) });
    world.deliver(Q, (0..4).map(|n| message(n, Some(7))).collect());
    world.answer(0, 422);
    assert_eq!(world.fetches[0].2, 4, "the tail is dropped, so that other lanes get the space");
    world.deliver(Q, vec![message(4, Some(1)), message(5, Some(7)), message(6, Some(2))]);
    assert_eq!(world.attempted(), [4]);
    world.answer(4, 200);
    world.answer(6, 200);
    assert_eq!(world.confirm_all(), None, "nothing is committed beyond the blocked head");
    world.secs(60);
    world.answer(0, 200);
    assert_eq!(world.fetches.last().map(|asked| asked.2), Some(1), "read again from the first dropped one");
    world.deliver(Q, (1..5).map(|n| message(n, Some(if n == 4 { 1 } else { 7 }))).collect());
    for position in [1, 2, 3] {
        assert_eq!(world.attempted(), [position]);
        world.answer(position, 200);
    }
    assert_eq!(world.fetches.last().map(|asked| asked.2), Some(5));
    world.deliver(Q, vec![message(5, Some(7)), message(6, Some(2))]);
    world.answer(5, 200);
    world.millis(25);
    assert_eq!(world.confirm_all(), Some(7));
}

#[test]
fn the_span_bounds_how_far_finished_deliveries_run_ahead() {
    let mut world = World::new(Config { span: 6, ..config(OrderingMode::PerKey) });
    assert_eq!(world.fetches[0].3, 6);
    world.deliver(Q, (0..6).map(|n| message(n, Some(n))).collect());
    world.answer(0, 500);
    for position in 1..6 {
        world.answer(position, 200);
    }
    assert!(world.fetches.is_empty());
    world.secs(1);
    world.answer(0, 200);
    assert!(world.fetches.is_empty(), "a crash would repeat all that is not confirmed");
    world.confirm_all();
    assert_eq!(world.fetches[0].3, 6);
}

#[test]
fn nothing_starts_in_the_quiet_time_after_an_unclean_exit() {
    let quiet_until = Some(Moment::from_millis(31_000));
    let mut world = World::new(Config { quiet_until, ..config(OrderingMode::PerQueue) });
    world.fetch(0..1);
    world.millis(29_999);
    assert!(world.attempted().is_empty());
    world.millis(1);
    assert_eq!(world.attempted(), [0]);
}

#[test]
fn nothing_is_joined_before_the_first_healthy_check() {
    let mut world = World::cold(config(OrderingMode::PerQueue));
    world.secs(100);
    world.healthy(false);
    assert!(!world.took(&Output::JoinGroup));
    world.healthy(true);
    assert!(world.took(&Output::JoinGroup));
}

#[test]
fn dispatch_can_be_held() {
    let mut world = World::new(config(OrderingMode::PerKey));
    world
        .deliver(Q, vec![message(0, Some(1)), message(1, Some(1)), message(2, Some(2)), message(3, Some(3))]);
    world.answer(0, 200);
    assert_eq!(world.attempted(), [1, 2]);
    world.deliver(Q, vec![message(4, Some(1))]);
    world.answer(2, 200);
    assert_eq!(world.attempted(), [1, 3]);
    world.input(Input::DispatchHeld(true));
    assert!(!world.engine.is_quiet());
    world.answer(1, 200);
    assert_eq!(world.attempted(), [3], "4 is beyond all that was started");
    world.answer(3, 200);
    assert!(world.engine.is_quiet());
    world.input(Input::DispatchHeld(false));
    assert_eq!(world.attempted(), [4]);
}

#[test]
fn known_successes_of_redelivered_messages_are_not_attempted_again() {
    let unique = |position| Incoming {
        identity: Identity::Unique(Bytes::from_static(b"a")),
        ..message(position, None)
    };
    let mut world = World::new(Config { capabilities: one_by_one(), ..config(OrderingMode::PerQueue) });
    world.deliver(Q, vec![unique(0)]);
    world.answer(0, 200);
    world.input(Input::QueueLost { queue: Q, epoch: world.epoch });
    world.acquire(Q, 0, None);
    world.deliver(Q, vec![Incoming { redeliveries: 1, ..unique(0) }]);
    assert!(world.attempted().is_empty());
    assert!(world.event(|event| matches!(event, lockstep_core::Event::Suppressed { .. })));
    world.settle_asked(Q);
    assert_eq!(world.settle_asked(Q), Some((0, Settlement::Accept)));
    world.settle_answer(Q, 0, Ok(()));
    world.deliver(Q, vec![Incoming { redeliveries: 1, ..unique(1) }]);
    assert_eq!(world.attempted(), [1], "settled: what comes now is another handing-over");
    assert_eq!(world.engine.queues().next().map(|view| view.cursor), Some(Position(0)));
}

#[test]
fn what_a_slow_commit_left_out_is_committed_at_once_when_it_is_old() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.fetch(0..4);
    world.answer(0, 200);
    world.millis(25);
    assert_eq!(world.commit_asked(Q), Some(1));
    world.answer(1, 200);
    world.secs(3);
    world.commit_answer(Q, 1, Ok(()));
    assert_eq!(world.commit_asked(Q), Some(2));
}
