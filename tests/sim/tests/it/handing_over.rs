//! Members that come, go, crash and fall ill.

use std::time::Duration;

use lockstep_contract::{ConditionStatus, ConditionType, Reason};
use lockstep_core::{OrderingMode, RunState};
use lockstep_sidecar::runtime::Ended;
use lockstep_tests_sim::{Member, Plan, World};

#[tokio::test(start_paused = true)]
async fn members_join_and_leave_without_a_duplicate() {
    for mode in [OrderingMode::PerQueue, OrderingMode::PerKey] {
        let world = World::log(mode, 8);
        world.app.behave(|_, _| Plan::answer(200, Duration::from_millis(3)));
        world.publish(300, 12);
        let first = world.member("a").await;
        world.until("it delivers", || world.app.posts() > 200).await;
        let second = world.member("b").await;
        let third = world.member("c").await;
        world
            .until("all have queues", || ["a", "b", "c"].iter().all(|m| world.source.owned_by(m) >= 2))
            .await;
        assert_eq!(first.drain().await, Ended::Drained);
        world
            .until("the others have all", || world.source.owned_by("b") + world.source.owned_by("c") == 8)
            .await;
        assert_eq!(second.drain().await, Ended::Drained);
        world.until_done().await;
        assert_eq!(third.drain().await, Ended::Drained);
        let verdict = world.judge();
        assert_eq!(verdict.counts.duplicates, 0, "{mode:?}: {verdict}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_costs_only_a_bounded_rewind() {
    let mut world = World::log(OrderingMode::PerQueue, 4);
    world.publish(400, 0);
    let first = world.member("a").await;
    world.until("it delivers", || world.app.posts() > 500).await;
    // At most what is finished and not confirmed, and the attempt that was cut.
    world.fault("crash of a", 33);
    first.crash().await;
    let second = world.member("b").await;
    world.until_done().await;
    assert_eq!(second.drain().await, Ended::Drained);
    world.judge();
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_that_comes_back_in_time_costs_nothing() {
    let world = World::log(OrderingMode::PerQueue, 4);
    world.publish(400, 0);
    let member = world.member("a").await;
    world.until("it delivers", || world.app.posts() > 500).await;
    world.source.cut("a");
    world.until("nothing runs", || world.app.running() == 0).await;
    world.source.restore("a");
    world.until_done().await;
    assert_eq!(member.drain().await, Ended::Drained);
    let verdict = world.judge();
    assert_eq!(verdict.counts.duplicates, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_runs_out_stops_its_owner_before_the_next_begins() {
    let mut world = World::log(OrderingMode::PerQueue, 2);
    // Longer than a lease: what runs when it ends must be cut, or it runs beside the next owner's.
    world.app.behave(|_, _| Plan::answer(200, Duration::from_secs(20)));
    world.publish(4, 0);
    let mut config = world.config(7);
    config.timeout = Duration::from_secs(60);
    let first = world.member_with("a", config.clone()).await;
    world.until("both queues run", || world.app.running() == 2).await;
    world.fault("a is cut off", 1);
    world.source.cut("a");
    let second = world.member_with("b", config).await;
    world.until("what ran is cut", || world.app.running() == 0).await;
    world.until("the other has all", || world.source.owned_by("b") == 2).await;
    world.until_done().await;
    assert_eq!(second.drain().await, Ended::Drained);
    drop(first);
    world.judge();
}

#[tokio::test(start_paused = true)]
async fn a_restarted_broker_costs_nothing() {
    let world = World::log(OrderingMode::PerQueue, 4);
    world.publish(400, 0);
    let member = world.member("a").await;
    world.until("it delivers", || world.app.posts() > 500).await;
    world.source.restart();
    world.until_done().await;
    assert_eq!(member.drain().await, Ended::Drained);
    assert_eq!(world.judge().counts.duplicates, 0);
}

#[tokio::test(start_paused = true)]
async fn a_paused_group_leaves_and_comes_back() {
    let world = World::log(OrderingMode::PerQueue, 2);
    world.publish(200, 0);
    let member = world.member("a").await;
    world.until("it delivers", || world.app.posts() > 50).await;
    let mut paused = world.config(7);
    paused.state = RunState::Paused;
    member.reload(paused).await;
    world.until("it left", || world.source.owned_by("a") == 0).await;
    let posts = world.app.posts();
    assert!(posts < 400);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.app.posts(), posts);
    assert_eq!(member.status().await.phase, lockstep_contract::Phase::Paused);
    member.reload(world.config(7)).await;
    world.until_done().await;
    assert_eq!(member.drain().await, Ended::Drained);
    assert_eq!(world.judge().counts.duplicates, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lasting_illness_hands_the_queues_over_and_health_brings_them_back() {
    let world = World::log(OrderingMode::PerQueue, 4);
    world.app.behave(|_, _| Plan::answer(200, Duration::from_millis(20)));
    world.publish(2_000, 0);
    let first = world.member("a").await;
    let second = world.member("b").await;
    world
        .until("both have queues", || world.source.owned_by("a") == 2 && world.source.owned_by("b") == 2)
        .await;
    world.app.set_up("a", false);
    first.health(false).await;
    world.until("the other has all", || world.source.owned_by("b") == 4).await;
    assert_eq!(first.status().await.phase, lockstep_contract::Phase::HandedOver);
    world.app.set_up("a", true);
    first.health(true).await;
    world.until("both have queues again", || world.source.owned_by("a") == 2).await;
    world.until_done().await;
    assert_eq!(first.drain().await, Ended::Drained);
    assert_eq!(second.drain().await, Ended::Drained);
    assert_eq!(world.judge().counts.duplicates, 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_joined_before_the_first_health() {
    let world = World::log(OrderingMode::PerQueue, 1);
    world.publish(1, 0);
    let folder = tempfile::tempdir().unwrap();
    let member =
        Member::start_in("a", world.broker("a"), &world.app, world.clock, world.config(7), folder.path());
    member.health(false).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.source.owned_by("a"), 0);
    assert!(!member.is_ready());
    member.health(true).await;
    world.until_done().await;
    assert!(member.is_ready());
}

#[tokio::test(start_paused = true)]
async fn attempts_survive_a_restart_and_an_unclean_one_waits() {
    let mut world = World::log(OrderingMode::PerQueue, 1);
    world.app.behave(|_, _| Plan::answer(500, Duration::from_millis(1)));
    world.publish(1, 0);
    let folder = tempfile::tempdir().unwrap();
    let start = |world: &World| {
        Member::start_in("a", world.broker("a"), &world.app, world.clock, world.config(7), folder.path())
    };
    let first = start(&world);
    first.health(true).await;
    world.until("it is tried three times", || world.app.posts() == 3).await;
    world.until("the third has ended", || world.app.running() == 0).await;
    world.fault("crash of a", 0);
    first.crash().await;
    let crashed = world.clock.now();
    world.app.behave(|_, _| Plan::ok());
    let second = start(&world);
    second.health(true).await;
    world.until_done().await;
    // The earlier process's attempts could have run for the timeout.
    assert!(world.clock.now().since(crashed) >= Duration::from_secs(5));
    assert_eq!(second.drain().await, Ended::Drained);
    let history = world.app.history();
    let mut attempts = Vec::new();
    for event in history.events() {
        if let lockstep_history::Event::Start { attempt, .. } = event {
            attempts.push(*attempt);
        }
    }
    assert_eq!(attempts, [1, 2, 3, 4]);
    world.judge();

    world.publish(1, 0);
    let cleanly = world.clock.now();
    let third = start(&world);
    third.health(true).await;
    world.until_done().await;
    assert!(world.clock.now().since(cleanly) < Duration::from_secs(1));
    assert_eq!(third.drain().await, Ended::Drained);
}

#[tokio::test(start_paused = true)]
async fn a_member_with_nothing_to_do_is_well_and_says_why() {
    let world = World::log(OrderingMode::PerQueue, 1);
    let first = world.member("a").await;
    world.until("it has the queue", || world.source.owned_by("a") == 1).await;
    let second = world.member("b").await;
    world.until("the other is ready", || second.is_ready()).await;
    let status = second.status().await;
    assert!(status.source.connected && status.source.reason.is_empty(), "{:?}", status.source);
    let owned = status.conditions.iter().find(|c| c.kind == ConditionType::QueuesOwned).unwrap();
    assert_eq!((owned.status, owned.reason), (ConditionStatus::True, Reason::MoreReplicasThanQueues));
    assert!(owned.message.contains("more members"), "{}", owned.message);
    let busy = first.status().await;
    let owned = busy.conditions.iter().find(|c| c.kind == ConditionType::QueuesOwned).unwrap();
    assert_eq!(owned.reason, Reason::Owned);
    assert_eq!(first.drain().await, Ended::Drained);
    assert_eq!(second.drain().await, Ended::Drained);
}
