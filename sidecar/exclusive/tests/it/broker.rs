//! A broker of one queue that does what it is told, and says what it heard.

use std::sync::{Arc, Mutex, MutexGuard};

use lockstep_broker::{Clock, Problem, Problems};
use lockstep_exclusive::{
    Failure, Held, Looked, Meaning, NotConnected, Opened, Order, Owners, Pace, Pulse, Sessions, Settings,
};
use lockstep_model::{Epoch, Moment, QueueId, QueueName};
use tokio::{sync::watch, task::yield_now, time::Duration};

/// Signs of life as they are agreed on.
pub(crate) const PULSE: Pulse = Pulse { look: Duration::from_secs(5), lease: Duration::from_secs(19) };

/// Higher than any that comes by itself.
pub(crate) const FLOOR: Epoch = Epoch(1 << 62);

/// How the broker is and behaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// Who consumes the queue: connection and number.
    pub(crate) consumers: Vec<(u64, u64)>,
    /// Connections made so far; the last one's number.
    pub(crate) connections: u64,
    /// Connections up to that number are gone.
    pub(crate) lost: u64,
    /// It accepts no connection, and the secret in its hands has that number.
    pub(crate) refuses: bool,
    pub(crate) secret: u32,
    /// It lets nobody consume.
    pub(crate) forbids: bool,
    /// It answers no look, and no closing of a consumer.
    pub(crate) silent: bool,
    /// It has messages and hands them to somebody else.
    pub(crate) starves: bool,
    pub(crate) heard: Vec<String>,
}

/// The broker, for all its members.
#[derive(Debug)]
pub(crate) struct World(watch::Sender<State>);

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(State::default())))
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        self.0.send_modify(change);
    }

    pub(crate) fn state(&self) -> State {
        self.0.borrow().clone()
    }

    /// What it heard since the last call.
    pub(crate) fn heard(&self) -> Vec<String> {
        let mut heard = Vec::new();
        self.change(|state| heard = std::mem::take(&mut state.heard));
        heard
    }

    /// It ends all connections, and with them their consumers.
    pub(crate) fn end_connections(&self) {
        self.change(|state| {
            state.lost = state.connections;
            state.consumers.clear();
        });
    }

    fn hear(&self, word: String) {
        self.change(|state| state.heard.push(word));
    }

    async fn wait(&self, until: impl FnMut(&State) -> bool) {
        self.0.subscribe().wait_for(until).await.unwrap();
    }
}

/// One consumer, and what it was told.
#[derive(Debug)]
pub(crate) struct Consumer {
    connection: u64,
    number: u64,
    told: Mutex<Vec<&'static str>>,
}

impl Consumer {
    pub(crate) fn told(&self) -> MutexGuard<'_, Vec<&'static str>> {
        self.told.lock().unwrap()
    }
}

impl Held for Consumer {
    fn number(&self) -> u64 {
        self.number
    }

    fn owns(&self, _: Epoch, _: Moment) {
        self.told().push("owns");
    }

    fn renewed(&self, _: Moment) {
        self.told().push("renewed");
    }

    fn doubtful(&self) {
        self.told().push("doubtful");
    }

    fn over(&self) {
        self.told().push("over");
    }
}

/// What ended a consumer.
#[derive(Debug)]
pub(crate) enum End {
    Cancelled,
    Lost,
}

/// How grave.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Connection,
    Queue,
    Notice,
}

/// What one member makes of the broker.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) world: Arc<World>,
    pub(crate) clock: Clock,
    pub(crate) exclusive: bool,
    pub(crate) hint: watch::Receiver<Option<Vec<String>>>,
    pub(crate) problems: Problems<Rank>,
    pub(crate) owners: Owners<Consumer>,
}

pub(crate) fn problem(reason: &'static str) -> Problem {
    Problem { reason, message: String::new(), remedy: String::new() }
}

impl Sessions for Member {
    type Connection = u64;
    type Consumer = Consumer;
    type End = End;
    type Rank = Rank;

    const CONNECTION: Rank = Rank::Connection;
    const QUEUE: Rank = Rank::Queue;

    fn settings(&self) -> Settings {
        Settings {
            clock: self.clock,
            queues: vec!["q".to_owned()],
            exclusive: self.exclusive,
            hint: self.hint.clone(),
            epoch_floor: FLOOR,
            // Until others are agreed on: these would be seen.
            pulse: Pulse { look: Duration::from_secs(1), lease: Duration::from_secs(2) },
            settle_within: Some(Duration::from_secs(60)),
        }
    }

    fn problems(&self) -> &Problems<Rank> {
        &self.problems
    }

    fn owners(&self) -> &Owners<Consumer> {
        &self.owners
    }

    async fn connect(self: Arc<Self>, from: usize) -> Result<u64, NotConnected> {
        self.world.hear(format!("connect {from}"));
        let State { refuses, secret, .. } = self.world.state();
        if refuses {
            let world = Arc::clone(&self.world);
            let changed = Box::pin(async move { world.wait(|state| state.secret != secret).await });
            return Err(NotConnected {
                problem: problem("Refused"),
                pace: Pace::Slow,
                changed: Some(changed),
            });
        }
        self.world.change(|state| state.connections += 1);
        Ok(self.world.state().connections)
    }

    fn connected(&self, _: &u64) -> Pulse {
        PULSE
    }

    async fn ended(self: Arc<Self>, connection: u64) -> Problem {
        self.world.wait(|state| state.lost >= connection).await;
        problem("ConnectionLost")
    }

    async fn close(self: Arc<Self>, connection: Option<u64>, leaving: bool) {
        self.world.hear(format!("disconnect {connection:?} {leaving}"));
        self.world.change(|state| {
            state.lost = state.lost.max(connection.unwrap_or_default());
            state.consumers.retain(|(of, _)| Some(*of) != connection);
        });
    }

    async fn open(self: Arc<Self>, connection: u64, order: Order) -> Result<Option<Opened<Self>>, Failure> {
        let contested = if order.contested { " contested" } else { "" };
        self.world.hear(format!("open {}{contested}", order.number));
        yield_now().await;
        let state = self.world.state();
        if state.forbids {
            return Err(Failure { pace: Pace::Slow, problem: Some(problem("Forbidden")) });
        }
        if self.exclusive && !state.consumers.is_empty() {
            return Ok(None);
        }
        let sent = self.clock.now();
        let which = (connection, order.number);
        self.world.change(|state| state.consumers.push(which));
        let consumer = Arc::new(Consumer { connection, number: order.number, told: Mutex::default() });
        let world = Arc::clone(&self.world);
        let receiving = Box::pin(async move {
            world.wait(|state| !state.consumers.contains(&which)).await;
            if world.state().lost >= connection { End::Lost } else { End::Cancelled }
        });
        Ok(Some(Opened { consumer, sent, receiving }))
    }

    fn opened(&self, _: &Consumer) {
        self.problems.set(Rank::Notice, "q", problem("Notice"));
    }

    async fn look(self: Arc<Self>, consumer: Arc<Consumer>) -> Looked {
        self.world.hear(format!("look {}", consumer.number));
        let State { silent, starves, .. } = self.world.state();
        Looked { sent: self.clock.now(), consumers: (!silent).then_some(1), starved: starves }
    }

    fn meaning(&self, _: QueueId, _: &str, end: &End) -> Meaning {
        match end {
            End::Lost => Meaning::Nothing,
            End::Cancelled => {
                let failure = Failure { pace: Pace::Quick, problem: Some(problem("Cancelled")) };
                Meaning::Over { open: true, failure }
            }
        }
    }

    async fn close_consumer(self: Arc<Self>, consumer: Arc<Consumer>) -> bool {
        self.world.hear(format!("close {}", consumer.number));
        let sure = !self.world.state().silent;
        if sure {
            let which = (consumer.connection, consumer.number);
            self.world.change(|state| state.consumers.retain(|other| *other != which));
        }
        sure
    }

    async fn count(self: Arc<Self>, _: u64, _: QueueName) -> Result<u32, Failure> {
        self.world.hear("count".to_owned());
        Ok(self.world.state().consumers.len().try_into().unwrap())
    }

    fn left(&self) {
        self.world.hear("left".to_owned());
    }
}
