use std::{
    collections::VecDeque,
    sync::{Mutex, atomic::AtomicUsize},
    time::Duration,
};

use lockstep_broker::{Clock, LeaseKeeper as _, Problem, Problems, reason};
use lockstep_model::Epoch;
use tokio::{
    sync::{Notify, watch},
    time::{advance, timeout},
};

use super::*;
use crate::{Failure, Keeper, Looked, Meaning, NotConnected, Opened, Order, Owners, Pace, Pulse, keeper};

/// A broker that does what a test says, with the first queue's consumer.
#[derive(Debug)]
struct Script {
    owners: Owners<Scripted>,
    problems: Problems<Rank>,
    hint: watch::Receiver<Option<Vec<String>>>,
    clock: Clock,
    /// Answers of the next tries to connect; then all succeed.
    refusals: Mutex<VecDeque<Pace>>,
    /// What refusals were for changes.
    changes: Arc<Notify>,
    /// Others that consume.
    others: Mutex<u32>,
    /// Why a consumer can't be opened.
    refused: Mutex<Option<Failure>>,
    breaks: Arc<Notify>,
    opened: AtomicUsize,
    closed: AtomicUsize,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Connection,
    Queue,
}

#[derive(Debug)]
struct Scripted {
    number: u64,
    /// The broker ends it.
    ends: Arc<Notify>,
    words: Mutex<Vec<&'static str>>,
}

impl Scripted {
    fn say(&self, word: &'static str) {
        self.words.lock().unwrap().push(word);
    }
}

impl Held for Scripted {
    fn number(&self) -> u64 {
        self.number
    }
    fn owns(&self, _: Epoch, _: Moment) {
        self.say("owns");
    }
    fn renewed(&self, _: Moment) {
        self.say("renewed");
    }
    fn doubtful(&self) {
        self.say("doubtful");
    }
    fn over(&self) {
        self.say("over");
    }
}

fn scripted(number: u64) -> Scripted {
    Scripted { number, ends: Arc::default(), words: Mutex::default() }
}

fn problem(reason: &'static str) -> Problem {
    Problem { reason, message: String::new(), remedy: String::new() }
}

impl Sessions for Script {
    type Connection = usize;
    type Consumer = Scripted;
    type End = &'static str;
    type Rank = Rank;

    const CONNECTION: Rank = Rank::Connection;
    const QUEUE: Rank = Rank::Queue;

    fn settings(&self) -> Settings {
        Settings {
            clock: self.clock,
            queues: vec!["q".to_owned()],
            exclusive: true,
            hint: self.hint.clone(),
            epoch_floor: Epoch(0),
            pulse: Pulse { look: Duration::from_secs(5), lease: Duration::from_secs(19) },
            settle_within: None,
        }
    }
    fn problems(&self) -> &Problems<Rank> {
        &self.problems
    }
    fn owners(&self) -> &Owners<Scripted> {
        &self.owners
    }
    async fn connect(self: Arc<Self>, from: usize) -> Result<usize, NotConnected> {
        let Some(pace) = self.refusals.lock().unwrap().pop_front() else { return Ok(from) };
        let changes = Arc::clone(&self.changes);
        let changed: Later<()> = Box::pin(async move { changes.notified().await });
        Err(NotConnected { problem: problem("Refused"), pace, changed: Some(changed) })
    }
    fn connected(&self, _: &usize) -> Pulse {
        self.settings().pulse
    }
    async fn ended(self: Arc<Self>, _: usize) -> Problem {
        self.breaks.notified().await;
        problem("Broken")
    }
    async fn close(self: Arc<Self>, _: Option<usize>, _: bool) {}
    async fn open(self: Arc<Self>, _: usize, order: Order) -> Result<Option<Opened<Self>>, Failure> {
        if let Some(failure) = self.refused.lock().unwrap().clone() {
            return Err(failure);
        }
        self.opened.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let consumer = Arc::new(scripted(order.number));
        let (ends, sent) = (Arc::clone(&consumer.ends), self.clock.now());
        let receiving = Box::pin(async move {
            ends.notified().await;
            "ended"
        });
        Ok(Some(Opened { consumer, sent, receiving }))
    }
    async fn look(self: Arc<Self>, _: Arc<Scripted>) -> Looked {
        Looked { sent: self.clock.now(), consumers: Some(1), starved: false }
    }
    fn meaning(&self, _: QueueId, _: &str, _: &&'static str) -> Meaning {
        let failure = Failure { pace: Pace::Quick, problem: Some(problem("Ended")) };
        Meaning::Over { open: true, failure }
    }
    async fn close_consumer(self: Arc<Self>, _: Arc<Scripted>) -> bool {
        self.closed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        true
    }
    async fn count(self: Arc<Self>, _: usize, _: QueueName) -> Result<u32, Failure> {
        Ok(*self.others.lock().unwrap())
    }
}

fn script() -> Arc<Script> {
    Arc::new(Script {
        owners: Owners::default(),
        problems: Problems::default(),
        hint: watch::channel(Some(vec!["q".to_owned()])).1,
        clock: Clock::new(),
        refusals: Mutex::default(),
        changes: Arc::default(),
        others: Mutex::default(),
        refused: Mutex::default(),
        breaks: Arc::default(),
        opened: AtomicUsize::default(),
        closed: AtomicUsize::default(),
    })
}

/// A member that has joined, and what it tells.
struct Member {
    script: Arc<Script>,
    keeper: Keeper,
    reports: mpsc::UnboundedSender<Report>,
}

impl Member {
    fn join(script: Arc<Script>) -> Self {
        let (reports, reported) = mpsc::unbounded_channel();
        let mut keeper = keeper(Arc::clone(&script), reported);
        keeper.join();
        Self { script, keeper, reports }
    }

    /// The next word about the queue.
    async fn lease(&mut self) -> LeaseEvent {
        let lease = async {
            loop {
                let event = self.keeper.next().await;
                if !matches!(event, LeaseEvent::Source(_) | LeaseEvent::Renewed { .. }) {
                    return event;
                }
            }
        };
        // Renewals come for ever.
        timeout(Duration::from_secs(300), lease).await.unwrap()
    }

    async fn acquired(&mut self) -> (Epoch, Arc<Scripted>) {
        let LeaseEvent::Acquired { queue, epoch, .. } = self.lease().await else { panic!() };
        (epoch, self.script.owners.owner(queue, epoch).unwrap())
    }

    /// What is told to be wrong, once it is something else than that.
    async fn other_problem(&mut self, than: Option<&str>) -> Option<&'static str> {
        let other = async {
            loop {
                let LeaseEvent::Source(state) = self.keeper.next().await else { continue };
                let reason = state.problem.map(|problem| problem.reason);
                if reason != than {
                    return reason;
                }
            }
        };
        timeout(Duration::from_secs(300), other).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_taken_kept_and_given_back() {
    let mut member = Member::join(script());
    let (epoch, consumer) = member.acquired().await;
    // Signs of life keep it for longer than a lease.
    assert!(timeout(Duration::from_secs(100), member.lease()).await.is_err());
    member.keeper.release(QueueId(0), epoch);
    assert!(matches!(member.lease().await, LeaseEvent::Released { .. }));
    assert!(member.script.owners.owner(QueueId(0), epoch).is_none());
    let words = consumer.words.lock().unwrap().clone();
    assert_eq!((words.first(), words.get(1), words.last()), (Some(&"owns"), Some(&"renewed"), Some(&"over")));
    // It is wanted still.
    let (again, _) = member.acquired().await;
    assert!(again > epoch);
    member.keeper.leave();
    member.keeper.release(QueueId(0), again);
    assert!(matches!(member.lease().await, LeaseEvent::Released { .. }));
    assert!(matches!(member.lease().await, LeaseEvent::Left));
    assert_eq!(member.script.opened.load(std::sync::atomic::Ordering::Relaxed), 2);
    assert_eq!(member.script.closed.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn what_another_consumes_is_not_taken() {
    let script = script();
    *script.others.lock().unwrap() = 1;
    let mut member = Member::join(Arc::clone(&script));
    assert!(timeout(Duration::from_secs(100), member.lease()).await.is_err());
    *script.others.lock().unwrap() = 0;
    member.acquired().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_leaves_doubt_and_an_ended_consumer_none() {
    let mut member = Member::join(script());
    let (epoch, consumer) = member.acquired().await;
    member.script.breaks.notify_one();
    assert!(matches!(member.lease().await, LeaseEvent::Doubtful { .. }));
    assert!(consumer.words.lock().unwrap().contains(&"doubtful"));
    // Another consumer hands out anew what was out.
    assert!(matches!(member.lease().await, LeaseEvent::Lost { epoch: lost, .. } if lost == epoch));
    let (epoch, consumer) = member.acquired().await;
    consumer.ends.notify_one();
    assert!(matches!(member.lease().await, LeaseEvent::Lost { epoch: lost, .. } if lost == epoch));
    assert_eq!(consumer.words.lock().unwrap().last(), Some(&"over"));
    member.acquired().await;
}

#[tokio::test(start_paused = true)]
async fn what_has_to_come_anew_is_given_back_for_its_own_consumer_only() {
    let mut member = Member::join(script());
    let (epoch, consumer) = member.acquired().await;
    let rewind = |number| Report::Rewind { queue: QueueId(0), number };
    member.reports.send(rewind(consumer.number + 1)).unwrap();
    assert!(timeout(Duration::from_secs(10), member.lease()).await.is_err());
    member.reports.send(rewind(consumer.number)).unwrap();
    assert!(matches!(member.lease().await, LeaseEvent::Revoking { epoch: revoked, .. } if revoked == epoch));
}

#[tokio::test(start_paused = true)]
async fn what_keeps_from_consuming_is_told_until_something_is_consumed() {
    let script = script();
    let refused = Failure { pace: Pace::Slow, problem: Some(problem("AccessRefused")) };
    *script.refused.lock().unwrap() = Some(refused);
    let mut member = Member::join(Arc::clone(&script));
    assert_eq!(member.other_problem(None).await, Some("AccessRefused"));
    // A queue that can be counted may be one that can't be consumed.
    assert!(timeout(Duration::from_secs(60), member.other_problem(Some("AccessRefused"))).await.is_err());
    *script.others.lock().unwrap() = 1;
    assert_eq!(member.other_problem(Some("AccessRefused")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_member_without_a_queue_has_nothing_to_do() {
    let mut script = Arc::into_inner(script()).unwrap();
    script.hint = watch::channel(Some(Vec::new())).1;
    *script.others.get_mut().unwrap() = 1;
    let mut member = Member::join(Arc::new(script));
    assert_eq!(member.other_problem(None).await, Some(reason::MORE_MEMBERS_THAN_QUEUES));
}

fn driver(script: Arc<Script>) -> Driver<Script> {
    let mut driver = Driver::new(script, Arc::default());
    driver.joined = true;
    driver
}

/// How long it waits before the next try.
fn wait(driver: &Driver<Script>) -> Duration {
    let Link::None { retry_at } = driver.link else { panic!() };
    retry_at.since(driver.now())
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_accepts_and_drops_is_left_alone_for_longer_and_longer() {
    let mut driver = driver(script());
    let stood = async |driver: &mut Driver<Script>, time: Duration| {
        driver.link = Link::Connecting;
        driver.connected(Ok(1));
        advance(time).await;
        driver.disconnected(problem("Broken"));
        wait(driver)
    };
    assert!(stood(&mut driver, Duration::ZERO).await <= Duration::from_millis(200));
    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        longest = longest.max(stood(&mut driver, Duration::from_secs(1)).await);
    }
    // Any share of 5 s each, by chance.
    assert!(longest > Duration::from_secs(1) && longest <= Duration::from_secs(5), "{longest:?}");
    assert!(stood(&mut driver, Duration::from_secs(60)).await <= Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_tried_again_slowly_and_at_once_when_it_has_changed() {
    let script = script();
    let mut driver = driver(Arc::clone(&script));
    let refuse = async |driver: &mut Driver<Script>| {
        driver.link = Link::Connecting;
        script.refusals.lock().unwrap().push_back(Pace::Slow);
        let result = Arc::clone(&script).connect(0).await;
        driver.connected(result);
        wait(driver)
    };
    for _ in 0..3 {
        refuse(&mut driver).await;
    }
    assert!(refuse(&mut driver).await >= Duration::from_secs(15));
    script.changes.notify_waiters();
    let begun = driver.now();
    script.changes.notify_one();
    while wait(&driver) > Duration::ZERO {
        let done = driver.jobs.next().await.expect("changes must be waited for");
        driver.done(done);
    }
    assert!(driver.now().since(begun) <= Duration::from_secs(2));
}

#[tokio::test]
async fn the_end_of_an_old_consumer_takes_nothing_from_the_new_one() {
    let mut driver = driver(script());
    driver.queues[0].consumer = Some(Arc::new(scripted(2)));
    let queue = driver.queues[0].id;
    driver.done(Done::Closed { queue, number: 1, sure: true });
    assert!(driver.queues[0].consumer.is_some());
    driver.done(Done::Closed { queue, number: 2, sure: true });
    assert!(driver.queues[0].consumer.is_none());
}
