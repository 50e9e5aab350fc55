use std::{
    collections::VecDeque,
    sync::{Mutex, atomic::AtomicUsize},
    time::Duration,
};

use lockstep_broker::{Clock, Problem, Problems};
use lockstep_model::Epoch;
use tokio::{
    sync::{Notify, watch},
    time::advance,
};

use super::*;
use crate::{Failure, Looked, Meaning, NotConnected, Opened, Order, Owners, Pace, Pulse};

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
