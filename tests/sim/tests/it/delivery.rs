//! Order, retries, dead letters, hot settings.

use std::{collections::BTreeSet, time::Duration};

use lockstep_broker::memory::{Happening, MemoryOptions};
use lockstep_core::{ByHand, OrderingMode, WhenExhausted};
use lockstep_model::{Message, Moment, Position};
use lockstep_sidecar::runtime::Ended;
use lockstep_tests_sim::{Plan, World};

#[tokio::test(start_paused = true)]
async fn every_mode_delivers_everything_once_and_commits_it() {
    for mode in [OrderingMode::PerQueue, OrderingMode::PerKey, OrderingMode::Unordered] {
        let world = World::log(mode, 4);
        world.publish(500, 16);
        let member = world.member("a").await;
        world.until_done().await;
        assert_eq!(member.drain().await, Ended::Drained);
        let verdict = world.judge();
        assert_eq!((verdict.counts.done, verdict.counts.duplicates), (2_000, 0), "{mode:?}: {verdict}");
    }
}

#[tokio::test(start_paused = true)]
async fn brokers_that_settle_one_by_one_are_served_as_well() {
    for mode in [OrderingMode::PerQueue, OrderingMode::PerKey] {
        let world = World::new(MemoryOptions::per_delivery(), mode, 2);
        world.publish(200, 8);
        let member = world.member("a").await;
        world.until_done().await;
        assert_eq!(member.drain().await, Ended::Drained);
        world.judge();
    }
}

/// 200 messages that take a millisecond each; answers when each batch of settlements was done, and when all were.
async fn settled(options: MemoryOptions) -> (BTreeSet<Moment>, Duration) {
    let world = World::new(options, OrderingMode::PerQueue, 1);
    world.app.behave(|_, _| Plan::answer(200, Duration::from_millis(1)));
    world.publish(200, 0);
    let member = world.member("a").await;
    world.until_done().await;
    assert_eq!(member.drain().await, Ended::Drained);
    world.judge();
    let records = world.source.records();
    let accepted = records.iter().filter(|record| matches!(record.what, Happening::Accepted { .. }));
    let moments: BTreeSet<_> = accepted.map(|record| record.at).collect();
    let took = moments.last().unwrap().since(*moments.first().unwrap());
    (moments, took)
}

#[tokio::test(start_paused = true)]
async fn settlements_are_gathered_unless_a_broker_waits_for_them() {
    let (batches, _) = settled(MemoryOptions::per_delivery()).await;
    assert!((200 / 8..=200 / 8 + 4).contains(&batches.len()), "{} batches", batches.len());
    // Of two that may be unsettled none waits for more: that would take 10 ms for each two.
    let (_, took) = settled(MemoryOptions { lookahead: Some(2), ..MemoryOptions::per_delivery() }).await;
    assert!(took < Duration::from_millis(300), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_the_broker_takes_late_holds_up_no_other_key() {
    let takes = Duration::from_secs(4);
    let options =
        MemoryOptions { lookahead: Some(30), dead_letter_takes: takes, ..MemoryOptions::per_delivery() };
    let world = World::new(options, OrderingMode::PerKey, 1);
    world.app.behave(|id, _| match id {
        "orders/0-0" => Plan::answer(422, Duration::ZERO),
        _ => Plan::answer(200, Duration::from_millis(1)),
    });
    world.source.publish(world.source.queues()[0], Some("poisoned"), "{}");
    // Fewer than the span, which ends at what is not settled.
    world.publish(400, 8);
    let mut config = world.config(7);
    config.when_exhausted = WhenExhausted::DeadLetter;
    let started = world.clock.now();
    let member = world.member_with("a", config).await;
    world.until_done().await;
    assert_eq!(member.drain().await, Ended::Drained);
    let records = world.source.records();
    let accepted = records.iter().filter(|record| matches!(record.what, Happening::Accepted { .. }));
    let took = accepted.map(|record| record.at).max().unwrap().since(started);
    assert!(took < takes, "what was done waited for the dead letter: {took:?}");
    assert_eq!(world.source.dead_letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn keys_run_side_by_side() {
    let world = World::log(OrderingMode::PerKey, 1);
    world.app.behave(|_, _| Plan::answer(200, Duration::from_millis(10)));
    world.publish(640, 32);
    let started = world.clock.now();
    let member = world.member("a").await;
    world.until_done().await;
    let took = world.clock.now().since(started);
    drop(member);
    // Alone they would take 6.4 s; 32 lanes need at least 0.2 s.
    assert!(took < Duration::from_secs(1), "{took:?}");
    world.judge();
}

#[tokio::test(start_paused = true)]
async fn a_failing_message_is_retried_before_what_is_behind_it() {
    let world = World::log(OrderingMode::PerQueue, 1);
    world.app.behave(|id, request| match (id, request) {
        ("orders/0-3", 1..=3) => Plan::answer(500, Duration::from_millis(1)),
        ("orders/0-5", 1) => Plan { takes: Duration::ZERO, answer: None },
        ("orders/0-7", 1) => Plan::answer(200, Duration::from_secs(60)),
        _ => Plan::ok(),
    });
    world.publish(10, 0);
    let member = world.member("a").await;
    world.until_done().await;
    assert_eq!(member.drain().await, Ended::Drained);
    world.judge();
    assert_eq!(world.app.requests_for("orders/0-3"), 4);
    assert_eq!(world.app.requests_for("orders/0-5"), 2);
    assert_eq!(world.app.requests_for("orders/0-7"), 2);
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_message_goes_to_the_dead_letters() {
    let world = World::log(OrderingMode::PerQueue, 1);
    world.app.behave(|id, _| match id {
        "orders/0-2" => Plan::answer(500, Duration::ZERO),
        "orders/0-4" => Plan::answer(422, Duration::ZERO),
        _ => Plan::ok(),
    });
    world.publish(6, 0);
    let mut config = world.config(7);
    config.max_attempts = 3;
    config.when_exhausted = WhenExhausted::DeadLetter;
    let member = world.member_with("a", config).await;
    world.until_done().await;
    let status = member.status().await;
    assert_eq!((status.counters.dead_lettered, status.counters.done), (2, 4));
    assert_eq!(member.drain().await, Ended::Drained);
    world.judge();
    let dead = world.source.dead_letters();
    let dead: Vec<_> = dead.iter().map(|dead| (dead.message.id.as_str(), dead.attempts)).collect();
    assert_eq!(dead, [("orders/0-2", 3), ("orders/0-4", 1)]);
    assert_eq!(world.app.requests_for("orders/0-2"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_message_is_shown_and_passed_by_hand() {
    let world = World::log(OrderingMode::PerQueue, 1);
    world.app.behave(|id, _| if id == "orders/0-1" { Plan::answer(422, Duration::ZERO) } else { Plan::ok() });
    world.publish(4, 0);
    let member = world.member("a").await;
    world.until("the message is tried", || world.app.requests_for("orders/0-1") > 1).await;
    let status = member.status().await;
    assert_eq!(status.totals.blocked, 1);
    assert_eq!(status.queues[0].blocked[0].message_id, "orders/0-1");
    let wrong_queue = member.by_hand("orders/9", "orders/0-1", ByHand::Skip).await;
    assert!(wrong_queue.unwrap_err().to_string().contains("not owned"));
    let wrong_id = member.by_hand("orders/0", "orders/0-2", ByHand::Skip).await;
    assert!(wrong_id.unwrap_err().to_string().contains("no lane"));
    assert_eq!(member.by_hand("orders/0", "orders/0-1", ByHand::Skip).await, Ok(()));
    world.until_done().await;
    assert_eq!(member.status().await.counters.skipped, 1);
    assert_eq!(member.drain().await, Ended::Drained);
    let verdict = world.verdict(&[(0, 1)]);
    assert!(verdict.is_clean(), "{verdict}");
}

#[tokio::test(start_paused = true)]
async fn hot_settings_free_a_blocked_message() {
    let world = World::log(OrderingMode::PerQueue, 1);
    world.app.behave(|id, _| if id == "orders/0-1" { Plan::answer(422, Duration::ZERO) } else { Plan::ok() });
    world.publish(4, 0);
    let member = world.member("a").await;
    world.until("the message is tried", || world.app.requests_for("orders/0-1") > 1).await;
    let mut config = world.config(7);
    config.when_exhausted = WhenExhausted::DeadLetter;
    member.reload(config).await;
    world.until_done().await;
    assert_eq!(member.drain().await, Ended::Drained);
    world.judge();
    assert_eq!(world.source.dead_letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn undecodable_bytes_block_and_are_never_posted() {
    let world = World::log(OrderingMode::PerQueue, 1);
    let queue = world.source.queues()[0];
    world.publish(2, 0);
    world.source.publish_undecodable(queue, "garbage");
    world.publish(2, 0);
    let member = world.member("a").await;
    world.until("the two before are done", || world.source.committed(queue) == Some(Position(2))).await;
    assert_eq!(member.status().await.totals.blocked, 1);
    let mut config = world.config(7);
    config.undecodable = lockstep_core::UndecodablePolicy::DeadLetter;
    member.reload(config).await;
    world.until_done().await;
    assert_eq!(member.drain().await, Ended::Drained);
    assert_eq!(world.source.dead_letters()[0].raw.as_deref(), Some(b"garbage".as_slice()));
    assert_eq!(world.app.posts(), 4);
    world.judge();
}

#[tokio::test(start_paused = true)]
async fn what_retention_removed_is_told_as_a_gap() {
    let world = World::log(OrderingMode::PerQueue, 1);
    let queue = world.source.queues()[0];
    world.app.behave(|id, _| if id == "orders/0-0" { Plan::answer(500, Duration::ZERO) } else { Plan::ok() });
    world.publish(10, 0);
    let member = world.member("a").await;
    world.until("the head is tried", || world.app.requests_for("orders/0-0") > 1).await;
    world.source.trim(queue, Position(6));
    for _ in 0..1_000 {
        world.source.publish(queue, None, "{}");
    }
    world.app.behave(|_, _| Plan::ok());
    world.until_done().await;
    let status = member.status().await;
    drop(member);
    // What was in the buffer is delivered, only what can't be read any more is a gap.
    assert!(status.gaps.iter().all(|gap| gap.queue == "orders/0" && gap.to == 6), "{:?}", status.gaps);
}

#[tokio::test(start_paused = true)]
async fn metrics_follow() {
    let world = World::log(OrderingMode::PerQueue, 1);
    let queue = world.source.queues()[0];
    world.source.publish_message(queue, Message { id: "only".into(), ..Message::default() });
    let member = world.member("a").await;
    world.until_done().await;
    assert!(member.is_ready());
    drop(member.status().await);
    let text = member.metrics.encode();
    for line in [
        "lockstep_received_messages_total{queue=\"orders/0\"} 1",
        "lockstep_attempts_total{verdict=\"Done\"} 1",
        "lockstep_attempt_duration_seconds_count 1",
        "lockstep_lag_messages{queue=\"orders/0\"} 0",
        "lockstep_lease_held{queue=\"orders/0\"} 1.0",
        "lockstep_commits_total{result=\"Ok\"} 1",
        "lockstep_source_connected 1",
        "lockstep_application_healthy 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
