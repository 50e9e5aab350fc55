//! The keeper as a whole, with a scripted broker.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on must say so and fail")]

mod broker;

use std::{sync::Arc, time::Duration};

use lockstep_broker::{Clock, LeaseEvent, LeaseKeeper as _, SourceState, reason};
use lockstep_exclusive::{Keeper, Owners, Report, keeper};
use lockstep_model::{Epoch, Moment, Position, QueueId};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use self::broker::{Consumer, FLOOR, Member, PULSE, World};

const Q: QueueId = QueueId(0);
/// Longer than anything takes that is to come.
const SOON: Duration = Duration::from_secs(60);

/// A member that has joined, and what it was told.
struct Joined {
    member: Arc<Member>,
    keeper: Keeper,
    reports: mpsc::UnboundedSender<Report>,
    hint: watch::Sender<Option<Vec<String>>>,
    /// The last ownership's.
    epoch: Epoch,
    deadline: Option<Moment>,
}

impl Joined {
    fn new(world: &Arc<World>) -> Self {
        Self::with(world, Clock::new(), true)
    }

    fn with(world: &Arc<World>, clock: Clock, exclusive: bool) -> Self {
        let (hint, hinted) = watch::channel(None);
        let member = Arc::new(Member {
            world: Arc::clone(world),
            clock,
            exclusive,
            hint: hinted,
            problems: Default::default(),
            owners: Owners::default(),
        });
        let (reports, reported) = mpsc::unbounded_channel();
        let mut keeper = keeper(Arc::clone(&member), reported);
        keeper.join();
        Self { member, keeper, reports, hint, epoch: Epoch(0), deadline: None }
    }

    /// Waits for that word, and answers all that came, those of the source and of renewals only when they are waited for.
    async fn until(&mut self, end: &str) -> Vec<String> {
        let mut words = Vec::new();
        let found = timeout(SOON, async {
            loop {
                let event = self.keeper.next().await;
                let word = self.word(event);
                let is_end = word == end;
                if is_end || !(word.starts_with("source") || word == "renewed") {
                    words.push(word);
                }
                if is_end {
                    break;
                }
            }
        });
        found.await.unwrap_or_else(|_| panic!("no {end} after {words:?}"));
        words
    }

    fn word(&mut self, event: LeaseEvent) -> String {
        match event {
            LeaseEvent::Acquired { name, epoch, deadline, cursor, settle_within, extra, .. } => {
                assert_eq!((&*name, cursor, extra), ("q", Position(1), false));
                assert_eq!(settle_within, Some(Duration::from_secs(60)));
                assert!(epoch > self.epoch && epoch > FLOOR, "{epoch:?}");
                (self.epoch, self.deadline) = (epoch, deadline);
                "acquired".to_owned()
            }
            LeaseEvent::Renewed { deadline, .. } => {
                self.deadline = deadline;
                "renewed".to_owned()
            }
            LeaseEvent::Doubtful { .. } => "doubtful".to_owned(),
            LeaseEvent::Revoking { .. } => "revoking".to_owned(),
            LeaseEvent::RevocationCancelled { .. } => "kept".to_owned(),
            LeaseEvent::Lost { .. } => "lost".to_owned(),
            LeaseEvent::Released { .. } => "released".to_owned(),
            LeaseEvent::Left => "left".to_owned(),
            LeaseEvent::Moved { .. } => panic!("{event:?}"),
            LeaseEvent::Source(SourceState { problem, .. }) => {
                format!("source {}", problem.map_or("well", |problem| problem.reason))
            }
        }
    }

    fn consumer(&self) -> Arc<Consumer> {
        self.member.owners.owner(Q, self.epoch).expect("it must be owned")
    }

    fn release(&mut self) {
        self.keeper.release(Q, self.epoch);
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_taken_kept_by_signs_of_life_and_given_back() {
    let world = World::new();
    let mut joined = Joined::new(&world);
    let start = joined.member.clock.now();
    assert_eq!(joined.until("acquired").await, ["acquired"]);
    assert_eq!(joined.deadline, Some(start + PULSE.lease));
    assert_eq!(world.heard(), ["left", "connect 0", "count", "open 1 contested"]);
    let consumer = joined.consumer();
    // What is to be known of the queue is told.
    joined.until("source Notice").await;
    joined.until("renewed").await;
    assert_eq!(joined.deadline, Some(start + PULSE.look + PULSE.lease));
    assert_eq!(*consumer.told(), ["owns", "renewed"]);
    joined.keeper.leave();
    joined.release();
    assert_eq!(joined.until("left").await, ["released", "left"]);
    assert!(joined.member.owners.owner(Q, joined.epoch).is_none());
    assert!(consumer.told().contains(&"over"));
    assert_eq!(world.heard(), ["look 1", "close 1", "disconnect Some(1) true", "left"]);
    // And is taken again.
    joined.keeper.join();
    joined.until("acquired").await;
}

#[tokio::test(start_paused = true)]
async fn who_comes_later_waits_until_the_queue_is_given_back() {
    let world = World::new();
    let mut first = Joined::new(&world);
    first.until("acquired").await;
    let mut second = Joined::new(&world);
    second.until("source well").await;
    let waited = tokio::select! {
        biased;
        _ = second.until("acquired") => false,
        // More than the owner's lease.
        _ = async { for _ in 0..6 { first.until("renewed").await; } } => true,
    };
    assert!(waited, "both own it");
    first.release();
    first.until("released").await;
    // It is wanted by both still, and one of them has it.
    let third = tokio::select! {
        _ = first.until("acquired") => &second,
        _ = second.until("acquired") => &first,
    };
    assert!(third.member.owners.owner(Q, third.epoch).is_none());
    assert_eq!(world.state().consumers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_two_at_one_moment_the_slower_goes_back_to_looking() {
    let world = World::new();
    let clock = Clock::new();
    let (mut one, mut two) = (Joined::with(&world, clock, true), Joined::with(&world, clock, true));
    let one_won = tokio::select! {
        _ = one.until("acquired") => true,
        _ = two.until("acquired") => false,
    };
    let (winner, loser) = if one_won { (&mut one, &mut two) } else { (&mut two, &mut one) };
    // Both have come as far as to open.
    let opened = world.heard().iter().filter(|word| *word == "open 1 contested").count();
    assert_eq!(opened, 2);
    winner.keeper.leave();
    winner.release();
    winner.until("left").await;
    assert_eq!(loser.until("acquired").await, ["acquired"]);
    assert!(world.heard().contains(&"open 2 contested".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn queues_that_are_shared_are_taken_by_all_without_looking() {
    let world = World::new();
    let clock = Clock::new();
    let (mut one, mut two) = (Joined::with(&world, clock, false), Joined::with(&world, clock, false));
    one.until("acquired").await;
    two.until("acquired").await;
    let heard = world.heard();
    assert_eq!(heard.iter().filter(|word| *word == "open 1").count(), 2);
    assert!(!heard.contains(&"count".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_a_doubt_until_a_new_one_consumes() {
    let world = World::new();
    let mut joined = Joined::new(&world);
    joined.until("acquired").await;
    let old = joined.consumer();
    joined.until("source Notice").await;
    world.end_connections();
    joined.until("source ConnectionLost").await;
    assert_eq!(old.told().last(), Some(&"doubtful"));
    assert_eq!(joined.until("acquired").await, ["lost", "acquired"]);
    assert_eq!(old.told().last(), Some(&"over"));
    assert!(world.heard().contains(&"connect 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn without_sign_of_life_the_lease_ends_and_a_connection_that_does_not_answer_is_dropped() {
    let world = World::new();
    let mut joined = Joined::new(&world);
    joined.until("acquired").await;
    world.change(|state| state.silent = true);
    assert_eq!(joined.until("lost").await, ["lost"]);
    assert_eq!(Some(joined.member.clock.now()), joined.deadline);
    assert_eq!(joined.until("source ConnectionLost").await, ["source ConnectionLost"]);
    let mut heard = world.heard();
    heard.retain(|word| word.starts_with("close") || word.starts_with("disconnect"));
    assert_eq!(heard, ["close 1", "disconnect Some(1) false"]);
    world.change(|state| state.silent = false);
    joined.until("acquired").await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_tried_again_at_once_when_what_it_was_refused_for_has_changed() {
    let world = World::new();
    world.change(|state| state.refuses = true);
    let mut joined = Joined::new(&world);
    joined.until("source Refused").await;
    let begun = joined.member.clock.now();
    world.change(|state| {
        state.refuses = false;
        state.secret = 1;
    });
    joined.until("acquired").await;
    // Half a second is the least that it waits otherwise.
    assert!(joined.member.clock.now().since(begun) < Duration::from_millis(500));
    joined.until("source Notice").await;
}

#[tokio::test(start_paused = true)]
async fn who_may_not_consume_says_so_until_it_may() {
    let world = World::new();
    world.change(|state| state.forbids = true);
    let mut joined = Joined::new(&world);
    joined.until("source Forbidden").await;
    world.change(|state| state.forbids = false);
    joined.until("acquired").await;
    joined.until("source Notice").await;
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_the_broker_ends_is_closed_told_of_and_followed_by_another() {
    let world = World::new();
    let mut joined = Joined::new(&world);
    joined.until("acquired").await;
    world.heard();
    world.change(|state| state.consumers.clear());
    assert_eq!(joined.until("source Cancelled").await, ["lost", "source Cancelled"]);
    assert_eq!(joined.until("acquired").await, ["acquired"]);
    assert_eq!(world.heard(), ["close 1", "count", "open 2 contested"]);
    joined.until("source Notice").await;
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_starves_is_not_the_owner() {
    let world = World::new();
    let mut joined = Joined::new(&world);
    joined.until("acquired").await;
    world.change(|state| state.starves = true);
    assert_eq!(joined.until("lost").await, ["lost"]);
    world.change(|state| state.starves = false);
    joined.until("acquired").await;
    let heard = world.heard();
    assert_eq!(heard[4..7], ["look 1", "look 1", "close 1"]);
}

#[tokio::test(start_paused = true)]
async fn what_has_to_come_anew_ends_the_ownership_of_that_consumer_and_no_other() {
    let world = World::new();
    let mut joined = Joined::new(&world);
    joined.until("acquired").await;
    joined.reports.send(Report::Rewind { queue: Q, number: 2 }).unwrap();
    assert_eq!(joined.until("renewed").await, ["renewed"]);
    joined.reports.send(Report::Rewind { queue: Q, number: 1 }).unwrap();
    joined.until("revoking").await;
    world.heard();
    joined.release();
    assert_eq!(joined.until("acquired").await, ["released", "acquired"]);
    // Who gave it back for that has it anew, whoever else waits.
    assert_eq!(world.heard(), ["close 1", "count", "open 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_taken_and_given_back_as_the_hint_says() {
    let world = World::new();
    let mut joined = Joined::new(&world);
    joined.hint.send_replace(Some(Vec::new()));
    joined.until(&format!("source {}", reason::MORE_MEMBERS_THAN_QUEUES)).await;
    joined.hint.send_replace(Some(vec!["q".to_owned()]));
    joined.until("acquired").await;
    assert!(world.heard().contains(&"open 1".to_owned()));
    joined.hint.send_replace(Some(vec!["another".to_owned()]));
    assert_eq!(joined.until("revoking").await, ["revoking"]);
    joined.hint.send_replace(Some(vec!["q".to_owned()]));
    assert_eq!(joined.until("kept").await, ["kept"]);
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_is_dropped_ends_its_consumers_and_its_connection() {
    let world = World::new();
    let mut joined = Joined::new(&world);
    joined.until("acquired").await;
    let consumer = joined.consumer();
    drop(joined.keeper);
    let mut gone = 0;
    while world.state().lost == 0 {
        tokio::task::yield_now().await;
        gone += 1;
        assert!(gone < 1000, "the connection stays");
    }
    assert_eq!(consumer.told().last(), Some(&"over"));
    assert_eq!(world.heard().last().map(String::as_str), Some("disconnect Some(1) false"));
}
