use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bytes::Bytes;
use lockstep_broker::{
    Broker, Certainty, Clock, Commit, FetchRequest, Fetched, LeaseEvent, LeaseKeeper, Reader, Settle,
    Settlement, Settler,
    conformance::{self, Harness, Source},
    memory::{Happening, MemoryBroker, MemoryOptions, MemorySource},
    unreliable::{Faults, PerMille, Unreliability, Unreliable, UnreliableKeeper},
};
use lockstep_model::{Epoch, Identity, Message, Position, QueueId};
use tokio::time::timeout;

use crate::memory::MemoryCase;

struct Flaky {
    options: MemoryOptions,
    faults: Faults,
    seed: u64,
}

struct FlakyCase {
    inner: MemoryCase,
    faults: Faults,
    seed: u64,
    looked: AtomicBool,
}

impl Harness for Flaky {
    type Source = FlakyCase;

    async fn source(&self, queues: usize) -> FlakyCase {
        let inner = MemoryCase::new(self.options, queues);
        FlakyCase { inner, faults: self.faults, seed: self.seed, looked: AtomicBool::new(false) }
    }
}

impl Source for FlakyCase {
    type Broker = Unreliable<MemoryBroker>;

    fn clock(&self) -> Clock {
        self.inner.clock
    }

    async fn member(&self, client_id: &str) -> Self::Broker {
        Unreliable::new(self.inner.member(client_id).await, self.faults, self.seed, self.inner.clock)
    }

    fn queue_name(&self, queue: usize) -> String {
        self.inner.queue_name(queue)
    }

    async fn publish(&self, queue: usize, message: Message) {
        self.inner.publish(queue, message).await;
    }

    async fn unsettled(&self, queue: usize) -> u64 {
        self.inner.unsettled(queue).await
    }

    /// Only the second look sees them: brokers may show what they have stored a moment later.
    async fn dead_letters(&self) -> Vec<Bytes> {
        if !self.looked.swap(true, Ordering::Relaxed) {
            return Vec::new();
        }
        self.inner.dead_letters().await
    }

    async fn kill(&self, client_id: &str) {
        self.inner.kill(client_id).await;
    }

    async fn publish_undecodable(&self, queue: usize, raw: Bytes) -> bool {
        self.inner.publish_undecodable(queue, raw).await
    }

    async fn cut(&self, client_id: &str) -> bool {
        self.inner.cut(client_id).await
    }

    async fn restore(&self, client_id: &str) {
        self.inner.restore(client_id).await;
    }

    fn lease_life(&self) -> Option<Duration> {
        self.inner.lease_life()
    }
}

#[tokio::test(start_paused = true)]
async fn failures_and_doubts_break_no_promise() {
    let doubting = Faults { doubt_every: Some(Duration::from_secs(5)), ..Faults::many() };
    for options in [MemoryOptions::cumulative(), MemoryOptions::per_delivery()] {
        for (seed, faults) in [(1, Faults::many()), (2, Faults::many()), (3, doubting), (4, doubting)] {
            let report = conformance::run_all(&Flaky { options, faults, seed }).await;
            assert!(report.passed(), "seed {seed}, {:?}\n{report}", options.settlement);
        }
    }
}

const Q0: QueueId = QueueId(0);
const PATIENCE: Duration = Duration::from_secs(600);

fn log(messages: u32) -> (MemorySource, Clock) {
    let clock = Clock::new();
    let source = MemorySource::new(MemoryOptions::cumulative(), clock, &["q"]);
    for number in 0..messages {
        source.publish(Q0, None, number.to_string());
    }
    (source, clock)
}

async fn epoch(keeper: &mut impl LeaseKeeper) -> Epoch {
    loop {
        if let LeaseEvent::Acquired { epoch, .. } = timeout(PATIENCE, keeper.next()).await.unwrap() {
            return epoch;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_four_outcomes_of_a_commit_are_told_as_they_are() {
    let (source, clock) = log(400);
    let half = Unreliability { not_done: PerMille(500), answer_lost: PerMille(500), delay: Duration::ZERO };
    let faults = Faults { commit: half, ..Faults::default() };
    let (_reader, settler, mut keeper) = Unreliable::new(source.member("a"), faults, 7, clock).split();
    keeper.join();
    let epoch = epoch(&mut keeper).await;
    let mut seen = [0; 4];
    for at in 1..=400 {
        let before = source.committed(Q0).unwrap();
        let position = Position(at);
        let commit = Commit { queue: Q0, epoch, position, last: Identity::None, not_after: None };
        let result = settler.commit(commit).await;
        let happened = source.committed(Q0).unwrap() != before;
        match result {
            Ok(()) => {
                assert!(happened);
                seen[0] += 1;
            }
            Err(error) if error.certainty == Certainty::NotDone => {
                assert!(!happened);
                seen[1] += 1;
            }
            Err(_) => seen[if happened { 2 } else { 3 }] += 1,
        }
    }
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_mixes_outcomes_and_loses_none() {
    let (source, clock) = log(100);
    let half = Unreliability { not_done: PerMille(500), answer_lost: PerMille(0), delay: Duration::ZERO };
    let faults = Faults { settle: half, ..Faults::default() };
    let (reader, settler, mut keeper) = Unreliable::new(source.member("a"), faults, 7, clock).split();
    keeper.join();
    let epoch = epoch(&mut keeper).await;
    let request = FetchRequest { queue: Q0, epoch, from: Position(0), count: 100, bytes: 100_000 };
    let Fetched::Deliveries { deliveries, .. } = reader.fetch(request).await.unwrap() else {
        panic!("moved")
    };
    let settle = |delivery| Settle {
        epoch,
        delivery: std::sync::Arc::new(delivery),
        settlement: Settlement::DeadLetter,
        attempts: 1,
        not_after: None,
    };
    let results = settler.settle(deliveries.into_iter().map(settle).collect()).await;
    let dead: Vec<u64> = source.dead_letters().iter().map(|dead| dead.offset).collect();
    let told: Vec<u64> = (0..).zip(&results).filter(|(_, result)| result.is_ok()).map(|(at, _)| at).collect();
    assert_eq!(results.len(), 100);
    assert_eq!(dead, told);
    assert!((20..80).contains(&dead.len()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_really_given_up() {
    let (source, clock) = log(0);
    let faults = Faults { loss_every: Some(Duration::from_secs(10)), ..Faults::default() };
    let (_reader, _settler, mut keeper) = Unreliable::new(source.member("a"), faults, 7, clock).split();
    keeper.join();
    let first = epoch(&mut keeper).await;
    lost(&mut keeper, first).await;
    let given_up = source.records().iter().any(|record| matches!(record.what, Happening::Released { .. }));
    assert!(given_up);
    assert!(epoch(&mut keeper).await > first);
}

async fn lost<K: LeaseKeeper>(keeper: &mut UnreliableKeeper<K>, of: Epoch) {
    loop {
        match timeout(PATIENCE, keeper.next()).await.unwrap() {
            LeaseEvent::Lost { epoch, .. } if epoch == of => return,
            LeaseEvent::Released { .. } => panic!("nobody asked for a release"),
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_doubt_ends_before_the_lease_does() {
    let (source, clock) = log(0);
    let faults = Faults {
        doubt_every: Some(Duration::from_secs(3)),
        doubt_for: Duration::from_secs(3_600),
        ..Faults::default()
    };
    let (_reader, _settler, mut keeper) = Unreliable::new(source.member("a"), faults, 7, clock).split();
    keeper.join();
    let (mut doubts, mut told) = (0, None);
    while doubts < 20 {
        match timeout(PATIENCE, keeper.next()).await.unwrap() {
            LeaseEvent::Acquired { deadline, .. } | LeaseEvent::Renewed { deadline, .. } => told = deadline,
            LeaseEvent::Doubtful { .. } => doubts += 1,
            LeaseEvent::Source(_) => continue,
            other => panic!("unexpected {other:?}"),
        }
        assert!(told.is_some_and(|deadline| clock.now() < deadline));
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_brings_the_same_failures() {
    let mut runs = Vec::new();
    for seed in [5, 5, 6] {
        let (source, clock) = log(50);
        let faults = Faults { duplicate: PerMille(300), ..Faults::many() };
        let (reader, _settler, mut keeper) = Unreliable::new(source.member("a"), faults, seed, clock).split();
        keeper.join();
        let epoch = epoch(&mut keeper).await;
        let mut seen = Vec::new();
        let mut from = Position(0);
        while from < Position(50) {
            let request = FetchRequest { queue: Q0, epoch, from, count: 5, bytes: 1_000 };
            match reader.fetch(request).await {
                Ok(Fetched::Deliveries { deliveries, next, .. }) => {
                    seen.push(deliveries.iter().map(|delivery| delivery.position.0).collect());
                    from = next;
                }
                Ok(Fetched::Moved { .. }) => panic!("nothing was moved"),
                Err(_) => seen.push(Vec::new()),
            }
        }
        assert!(seen.iter().any(|fetch: &Vec<u64>| fetch.windows(2).any(|pair| pair[0] == pair[1])));
        runs.push((seen, clock.now()));
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}
