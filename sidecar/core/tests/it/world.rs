//! A small shell around the engine: virtual time, a log of outputs, and words for what brokers and applications do.

use std::{collections::VecDeque, time::Duration};

use lockstep_core::{
    AttemptId, AttemptResult, Backoff, ByHand, Config, DataLossPolicy, Engine, Event, Failure, FetchId,
    HttpAnswer, Incoming, Input, OrderingMode, Output, RunState, Sabotage, StatusCodes, TransportFailure,
    UndecodablePolicy, VerdictHeader, WhenExhausted,
};
use lockstep_model::{
    Capabilities, DeadLetterBy, Epoch, Identity, KeyHash, Moment, Ownership, Position, QueueId, Settlement,
};

pub(crate) const Q: QueueId = QueueId(1);
pub(crate) const R: QueueId = QueueId(2);

/// A log: cumulative commits, rereading, locks with a deadline.
pub(crate) fn log() -> Capabilities {
    Capabilities {
        ownership: Ownership::Lock,
        settlement: Settlement::Cumulative,
        dead_letter: DeadLetterBy::Broker,
        reread: true,
        lookahead: None,
        release_keeps_order: true,
    }
}

/// A broker that wants to hear of each delivery.
pub(crate) fn one_by_one() -> Capabilities {
    Capabilities {
        ownership: Ownership::ExclusiveConsumer,
        settlement: Settlement::PerDelivery,
        dead_letter: DeadLetterBy::Broker,
        reread: false,
        lookahead: None,
        release_keeps_order: true,
    }
}

pub(crate) fn config(mode: OrderingMode) -> Config {
    Config {
        mode,
        capabilities: log(),
        seed: 7,
        state: RunState::Running,
        max_in_flight: 32,
        timeout: Duration::from_secs(30),
        max_attempts: 3,
        backoff: Backoff::Exponential { initial: Duration::from_millis(500), max: Duration::from_secs(60) },
        retry_after_max: Duration::from_secs(300),
        when_exhausted: WhenExhausted::Block,
        undecodable: UndecodablePolicy::Block,
        on_data_loss: DataLossPolicy::Continue,
        status_codes: StatusCodes::default(),
        hand_over: Duration::from_secs(30),
        buffer_count: 64,
        buffer_bytes: 1 << 20,
        span: 4_096,
        storm: 5,
        quiet_until: None,
        blocked_age: Duration::from_secs(300),
    }
}

/// A message of the broker: its position is its payload.
pub(crate) fn message(position: u64, key: Option<u64>) -> Incoming<u64> {
    Incoming {
        position: Position(position),
        bytes: 10,
        key: key.map(KeyHash),
        identity: Identity::Position { offset: position, stored_ms: 1, log_offset: 1 },
        redeliveries: 0,
        undecodable: false,
        payload: position,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Try {
    pub(crate) id: AttemptId,
    pub(crate) queue: QueueId,
    pub(crate) position: u64,
    pub(crate) number: u32,
}

/// The engine with its surroundings.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) engine: Engine<u64>,
    pub(crate) config: Config,
    pub(crate) now: Moment,
    pub(crate) wake: Option<Moment>,
    /// Outputs since the last look, except those below.
    pub(crate) seen: VecDeque<Output<u64>>,
    pub(crate) running: Vec<Try>,
    pub(crate) fetches: Vec<(QueueId, FetchId, u64, u32)>,
    pub(crate) events: Vec<Event>,
    pub(crate) epoch: Epoch,
    /// Of the last attempt.
    pub(crate) timeout: Duration,
}

impl World {
    /// A world that only knows its settings.
    pub(crate) fn cold(config: Config) -> Self {
        Self::around(Engine::new(config.clone()), config)
    }

    /// As [`World::new`], with an engine that breaks one invariant on purpose.
    pub(crate) fn saboteur(config: Config, sabotage: Sabotage) -> Self {
        let mut world = Self::around(Engine::new(config.clone()).with_sabotage(sabotage), config);
        world.healthy(true);
        world.acquire(Q, 0, None);
        world
    }

    fn around(engine: Engine<u64>, config: Config) -> Self {
        let mut world = Self {
            engine,
            config,
            now: Moment::from_millis(1_000),
            wake: None,
            seen: VecDeque::new(),
            running: Vec::new(),
            fetches: Vec::new(),
            events: Vec::new(),
            epoch: Epoch(1),
            timeout: Duration::ZERO,
        };
        world.input(Input::Tick);
        world
    }

    /// A healthy member that owns queue `Q` from position 0 on.
    pub(crate) fn new(config: Config) -> Self {
        let mut world = Self::cold(config);
        world.healthy(true);
        world.acquire(Q, 0, None);
        world
    }

    pub(crate) fn input(&mut self, input: Input<u64>) {
        self.engine.handle(self.now, input);
        self.drain_outputs();
    }

    fn drain_outputs(&mut self) {
        loop {
            match self.engine.poll() {
                Output::Wait(wake) => {
                    self.wake = wake;
                    break;
                }
                Output::Event(event) => self.events.push(event),
                Output::Attempt { attempt, queue, ref deliveries, number, timeout, .. } => {
                    self.timeout = timeout;
                    assert_eq!(deliveries.len(), 1);
                    self.running.push(Try { id: attempt, queue, position: deliveries[0], number });
                }
                Output::Fetch { queue, fetch, from, count, .. } => {
                    assert!(count > 0);
                    self.fetches.push((queue, fetch, from.0, count));
                }
                Output::CancelFetch { queue: _, fetch } => self.fetches.retain(|asked| asked.1 != fetch),
                other => self.seen.push_back(other),
            }
        }
    }

    /// Lets time pass, waking at every moment the engine asked for.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(wake) = self.wake.filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            self.input(Input::Tick);
        }
        self.now = end;
        self.input(Input::Tick);
    }

    pub(crate) fn millis(&mut self, millis: u64) {
        self.pass(Duration::from_millis(millis));
    }

    pub(crate) fn secs(&mut self, secs: u64) {
        self.pass(Duration::from_secs(secs));
    }

    pub(crate) fn healthy(&mut self, healthy: bool) {
        self.input(Input::HealthChanged { healthy });
    }

    pub(crate) fn acquire(&mut self, queue: QueueId, cursor: u64, lease: Option<Duration>) {
        self.epoch = Epoch(self.epoch.0 + 1);
        let deadline = lease.map(|lease| self.now + lease);
        let epoch = self.epoch;
        self.input(Input::QueueAcquired {
            queue,
            epoch,
            deadline,
            cursor: Position(cursor),
            settle_within: None,
        });
    }

    /// Answers the queue's fetch with these deliveries; the next position follows the last.
    pub(crate) fn deliver(&mut self, queue: QueueId, deliveries: Vec<Incoming<u64>>) {
        let next = deliveries.last().map(|last| last.position.0 + 1);
        self.deliver_next(queue, deliveries, next);
    }

    pub(crate) fn deliver_next(&mut self, queue: QueueId, deliveries: Vec<Incoming<u64>>, next: Option<u64>) {
        let index = self.fetches.iter().position(|asked| asked.0 == queue).expect("a fetch must be open");
        let (_, fetch, from, _) = self.fetches.remove(index);
        let next = Position(next.unwrap_or(from));
        let epoch = self.epoch;
        self.input(Input::Fetched { queue, epoch, fetch, deliveries, next });
    }

    /// Messages without a key at these positions of `Q`.
    pub(crate) fn fetch(&mut self, positions: std::ops::Range<u64>) {
        self.deliver(Q, positions.map(|position| message(position, None)).collect());
    }

    pub(crate) fn result(&mut self, position: u64, result: AttemptResult) {
        let index = self
            .running
            .iter()
            .position(|t| t.position == position)
            .expect("that position must be attempted");
        let attempt = self.running.remove(index).id;
        self.input(Input::AttemptEnded { attempt, results: vec![result] });
    }

    /// The application answers the attempt on that position.
    pub(crate) fn answer(&mut self, position: u64, status: u16) {
        self.result(position, AttemptResult::Answered(HttpAnswer { status, ..HttpAnswer::default() }));
    }

    pub(crate) fn answer_with(
        &mut self,
        position: u64,
        status: u16,
        retry_after: Option<u64>,
        verdict: Option<VerdictHeader>,
    ) {
        let retry_after = retry_after.map(Duration::from_secs);
        self.result(position, AttemptResult::Answered(HttpAnswer { status, retry_after, verdict }));
    }

    pub(crate) fn fail(&mut self, position: u64, failure: TransportFailure) {
        self.result(position, AttemptResult::Failed(failure));
    }

    /// Positions attempted now, in the order they were started.
    pub(crate) fn attempted(&self) -> Vec<u64> {
        self.running.iter().map(|t| t.position).collect()
    }

    /// The number of the running attempt on that position.
    pub(crate) fn number(&self, position: u64) -> u32 {
        self.running.iter().find(|t| t.position == position).expect("that position must be attempted").number
    }

    /// Takes the first output that matches, with everything before it left in place.
    pub(crate) fn take<T>(&mut self, find: impl Fn(&Output<u64>) -> Option<T>) -> Option<T> {
        let index = self.seen.iter().position(|output| find(output).is_some())?;
        self.seen.remove(index).and_then(|output| find(&output))
    }

    /// The unanswered commit of a queue, without answering it.
    pub(crate) fn commit_asked(&mut self, queue: QueueId) -> Option<u64> {
        self.take(|output| match output {
            Output::Commit { queue: q, position, .. } if *q == queue => Some(position.0),
            _ => None,
        })
    }

    pub(crate) fn commit_answer(&mut self, queue: QueueId, position: u64, result: Result<(), Failure>) {
        let epoch = self.epoch;
        self.input(Input::Committed { queue, epoch, position: Position(position), result });
    }

    /// Confirms every commit and settlement that is asked for; answers the last committed position of `Q`.
    pub(crate) fn confirm_all(&mut self) -> Option<u64> {
        let mut last = None;
        loop {
            if let Some(position) = self.commit_asked(Q) {
                last = Some(position);
                self.commit_answer(Q, position, Ok(()));
            } else if let Some((position, _)) = self.settle_asked(Q) {
                self.settle_answer(Q, position, Ok(()));
            } else {
                return last;
            }
        }
    }

    pub(crate) fn settle_asked(&mut self, queue: QueueId) -> Option<(u64, lockstep_core::Settlement)> {
        self.take(|output| match output {
            Output::Settle { queue: q, position, settlement, .. } if *q == queue => {
                Some((position.0, *settlement))
            }
            _ => None,
        })
    }

    pub(crate) fn settle_answer(&mut self, queue: QueueId, position: u64, result: Result<(), Failure>) {
        let epoch = self.epoch;
        self.input(Input::Settled { queue, epoch, position: Position(position), result });
    }

    pub(crate) fn released(&mut self, queue: QueueId) -> bool {
        self.take(|output| match output {
            Output::ReleaseQueue { queue: q, .. } if *q == queue => Some(()),
            _ => None,
        })
        .is_some()
    }

    pub(crate) fn took(&mut self, wanted: &Output<u64>) -> bool {
        self.take(|output| (output == wanted).then_some(())).is_some()
    }

    pub(crate) fn cancelled(&mut self) -> Option<AttemptId> {
        self.take(|output| match output {
            Output::CancelAttempt { attempt } => Some(*attempt),
            _ => None,
        })
    }

    /// Whether such an event came since the last look; forgets the earlier ones.
    pub(crate) fn event(&mut self, matches: impl Fn(&Event) -> bool) -> bool {
        let index = self.events.iter().position(matches);
        if let Some(index) = index {
            self.events.drain(..=index);
        }
        index.is_some()
    }

    pub(crate) fn by_hand(&mut self, position: u64, action: ByHand) {
        self.input(Input::ByHand { queue: Q, position: Position(position), action });
    }

    pub(crate) fn reconfigure(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.input(Input::Reconfigured(Box::new(self.config.clone())));
    }
}
