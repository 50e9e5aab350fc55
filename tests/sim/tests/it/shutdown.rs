//! Drains and the application's shutdown hook.

use std::time::Duration;

use lockstep_contract::Phase;
use lockstep_core::OrderingMode;
use lockstep_sidecar::{
    runtime::{Command, Ended},
    state::State,
};
use lockstep_tests_sim::{Member, Plan, World};

#[tokio::test(start_paused = true)]
async fn a_drain_lets_what_runs_end_and_starts_nothing() {
    let world = World::log(OrderingMode::PerQueue, 4);
    world.app.behave(|_, _| Plan::answer(200, Duration::from_secs(2)));
    world.publish(50, 0);
    let member = world.member("a").await;
    world.until("all queues run", || world.app.running() == 4).await;
    let posts = world.app.posts();
    let asked = world.clock.now();
    member.begin_drain().await;
    member.begin_drain().await;
    assert_eq!(member.ended().await, Ended::Drained);
    assert!(world.clock.now().since(asked) < Duration::from_secs(3));
    assert_eq!(world.app.posts(), posts);
    let next = world.member("b").await;
    world.until_done().await;
    assert_eq!(next.drain().await, Ended::Drained);
    assert_eq!(world.judge().counts.duplicates, 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_by_its_deadline() {
    let world = World::log(OrderingMode::PerQueue, 1);
    world.app.behave(|_, _| Plan::answer(200, Duration::from_secs(60)));
    world.publish(1, 0);
    let mut config = world.config(7);
    config.timeout = Duration::from_secs(120);
    let folder = tempfile::tempdir().unwrap();
    let broker = world.broker("a");
    let member = Member::start_in("a", broker, &world.app, world.clock, config, folder.path());
    member.health(true).await;
    world.until("it runs", || world.app.running() == 1).await;
    let asked = world.clock.now();
    // What was cut may still be worked on, so the next process has to wait for it.
    assert_eq!(member.drain().await, Ended::Cut);
    assert_eq!(world.clock.now().since(asked).as_secs(), 10);
    assert_eq!(State::open(folder.path()).unclean(), Some(Duration::from_secs(120)));
}

#[tokio::test(start_paused = true)]
async fn a_drain_charges_nothing_to_waiting_messages() {
    let world = World::log(OrderingMode::PerQueue, 1);
    world.app.behave(|_, request| match request {
        1..=2 => Plan::answer(500, Duration::ZERO),
        _ => Plan::ok(),
    });
    world.publish(3, 0);
    let mut config = world.config(7);
    config.backoff = lockstep_core::Backoff::Constant {
        initial: Duration::from_secs(3_000),
        max: Duration::from_secs(3_000),
    };
    let member = world.member_with("a", config).await;
    world.until("it was tried once", || world.app.posts() == 1).await;
    let asked = world.clock.now();
    assert_eq!(member.drain().await, Ended::Drained);
    assert!(world.clock.now().since(asked) < Duration::from_secs(1));
    let next = world.member("b").await;
    world.until_done().await;
    assert_eq!(next.drain().await, Ended::Drained);
    world.judge();
}

#[tokio::test(start_paused = true)]
async fn the_hook_waits_for_what_runs_and_the_drain_frees_nothing() {
    let world = World::log(OrderingMode::PerQueue, 2);
    world.app.behave(|_, _| Plan::answer(200, Duration::from_secs(1)));
    world.publish(20, 0);
    let member = world.member("a").await;
    world.until("both run", || world.app.running() == 2).await;
    let quiet = member.hold().await;
    quiet.await.unwrap();
    assert_eq!(world.app.running(), 0);
    let posts = world.app.posts();
    assert_eq!(member.status().await.phase, Phase::Held);
    assert!(*member.watch_closely.borrow());
    member.begin_drain().await;
    assert_eq!(member.ended().await, Ended::Drained);
    assert_eq!(world.app.posts(), posts);
}

#[tokio::test(start_paused = true)]
async fn a_hook_after_the_drain_is_answered_too() {
    let world = World::log(OrderingMode::PerQueue, 1);
    world.app.behave(|_, _| Plan::answer(200, Duration::from_secs(1)));
    world.publish(20, 0);
    let member = world.member("a").await;
    world.until("it runs", || world.app.running() == 1).await;
    member.begin_drain().await;
    let quiet = member.hold().await;
    // Answered, or closed because the loop has ended: either way nothing runs any more.
    quiet.await.ok();
    assert_eq!(world.app.running(), 0);
    assert_eq!(member.ended().await, Ended::Drained);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_application_gets_messages_again() {
    let world = World::log(OrderingMode::PerQueue, 1);
    world.publish(1_000, 0);
    let member = world.member("a").await;
    world.until("it delivers", || world.app.posts() > 10).await;
    member.hold().await.await.unwrap();
    let posts = world.app.posts();
    member.health(true).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.app.posts(), posts);
    member.send(Command::Checked { passed: false, healthy: true, problem: Some("refused".into()) }).await;
    assert_eq!(member.status().await.phase, Phase::Held);
    member.health(true).await;
    world.until_done().await;
    assert!(!*member.watch_closely.borrow());
    assert_eq!(member.drain().await, Ended::Drained);
    world.judge();
}

#[tokio::test(start_paused = true)]
async fn an_application_that_was_not_shut_down_gets_messages_again() {
    let world = World::log(OrderingMode::PerQueue, 1);
    world.publish(1_000, 0);
    let member = world.member("a").await;
    world.until("it delivers", || world.app.posts() > 10).await;
    let held = world.clock.now();
    member.hold().await.await.unwrap();
    let posts = world.app.posts();
    world.until("it goes on", || world.app.posts() > posts).await;
    assert!(world.clock.now().since(held) >= Duration::from_secs(30));
    world.until_done().await;
    assert_eq!(member.drain().await, Ended::Drained);
    world.judge();
}
