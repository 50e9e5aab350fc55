use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::join_all;
use lockstep_broker::{
    Broker, BrokerError, Certainty, Class, Clock, Commit, EpochClock, FetchRequest, Fetched, LeaseEvent,
    LeaseKeeper, Problem, Reader, Settle, Settlement, Settler, SourceState,
};
use lockstep_model::{
    Capabilities, DeadLetterBy, Epoch, Moment, Ownership, Position, QueueId, Settlement as SettlementKind,
};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use crate::{StoreError, embedded::Inner, writer::Command};

/// Who of this process owns the queues: the file's lock keeps other processes away.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    last: u64,
    owner: Option<u64>,
    epochs: EpochClock,
}

impl Sessions {
    pub(crate) const fn consumed(&self) -> bool {
        self.owner.is_some()
    }
}

/// A consumer of the embedded broker.
#[derive(Debug)]
pub struct EmbeddedBroker {
    member: Member,
}

/// What the three halves share.
#[derive(Debug, Clone)]
struct Member {
    inner: Arc<Inner>,
    clock: Clock,
    held: Arc<Mutex<BTreeMap<QueueId, Epoch>>>,
}

impl EmbeddedBroker {
    pub(crate) fn new(inner: Arc<Inner>, clock: Clock) -> Self {
        Self { member: Member { inner, clock, held: Arc::default() } }
    }
}

impl Broker for EmbeddedBroker {
    type Reader = EmbeddedReader;
    type Settler = EmbeddedSettler;
    type Keeper = EmbeddedKeeper;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ownership: Ownership::Sole,
            settlement: SettlementKind::Cumulative,
            dead_letter: DeadLetterBy::Broker,
            reread: true,
            lookahead: None,
            release_keeps_order: true,
        }
    }

    fn split(self) -> (EmbeddedReader, EmbeddedSettler, EmbeddedKeeper) {
        let Self { member } = self;
        let instance = {
            let mut sessions = member.inner.sessions();
            sessions.last += 1;
            sessions.last
        };
        let changes = member.inner.signals.session.subscribe();
        let keeper = EmbeddedKeeper {
            member: member.clone(),
            instance,
            changes,
            joined: false,
            leaving: false,
            told: None,
            events: VecDeque::new(),
        };
        (EmbeddedReader { member: member.clone() }, EmbeddedSettler { member }, keeper)
    }
}

impl Member {
    fn held(&self) -> MutexGuard<'_, BTreeMap<QueueId, Epoch>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(
        &self,
        operation: &'static str,
        queue: QueueId,
        epoch: Epoch,
        not_after: Option<Moment>,
    ) -> Result<(), BrokerError> {
        if self.held().get(&queue) != Some(&epoch) {
            return Err(refused(operation, "NotOwner", "the queue is not owned under that epoch"));
        }
        if not_after.is_some_and(|limit| self.clock.now() > limit) {
            return Err(refused(operation, "TooLate", "the time to write it is over"));
        }
        Ok(())
    }
}

/// The reading half.
#[derive(Debug, Clone)]
pub struct EmbeddedReader {
    member: Member,
}

impl Reader for EmbeddedReader {
    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, BrokerError> {
        let inner = &self.member.inner;
        let mut written = inner.signals.written.subscribe();
        let mut session = inner.signals.session.subscribe();
        let hold = Instant::now() + inner.options.hold;
        loop {
            written.borrow_and_update();
            session.borrow_and_update();
            self.member.check("fetch", request.queue, request.epoch, None)?;
            if let Some(fetched) = self.read(request).map_err(|error| not_fetched(&error))? {
                return Ok(fetched);
            }
            let changed = async {
                tokio::select! {
                    _ = written.changed() => {}
                    _ = session.changed() => {}
                }
            };
            if timeout_at(hold, changed).await.is_err() {
                let (next, end) = (request.from, Some(request.from));
                return Ok(Fetched::Deliveries { deliveries: Vec::new(), next, end });
            }
        }
    }
}

impl EmbeddedReader {
    fn read(&self, request: FetchRequest) -> Result<Option<Fetched>, StoreError> {
        let store = &self.member.inner.store;
        let (queue, from) = (store.queue(request.queue)?, request.from.0);
        if from < queue.start || from > queue.end {
            let to = Position(from.clamp(queue.start, queue.end));
            return Ok(Some(Fetched::Moved { to, reset: false }));
        }
        if from == queue.end {
            return Ok(None);
        }
        let read = store.read(request.queue, from, request.count, request.bytes)?;
        Ok(Some(Fetched::Deliveries { deliveries: read.deliveries, next: read.next, end: Some(read.end) }))
    }
}

/// The settling half.
#[derive(Debug, Clone)]
pub struct EmbeddedSettler {
    member: Member,
}

impl Settler for EmbeddedSettler {
    async fn commit(&self, commit: Commit) -> Result<(), BrokerError> {
        self.member.check("commit", commit.queue, commit.epoch, commit.not_after)?;
        let (queue, position) = (commit.queue, commit.position);
        let written = self.member.inner.write(|reply| Command::Commit { queue, position, reply }).await;
        written.map_err(|error| failed("commit", &error))
    }

    async fn settle(&self, batch: Vec<Settle>) -> Vec<Result<(), BrokerError>> {
        // All are handed to the writer in order before the first is awaited, so that they share a transaction.
        join_all(batch.iter().map(|settle| self.settle_one(settle))).await
    }
}

impl EmbeddedSettler {
    async fn settle_one(&self, settle: &Settle) -> Result<(), BrokerError> {
        let delivery = &settle.delivery;
        self.member.check("settle", delivery.queue, settle.epoch, settle.not_after)?;
        match settle.settlement {
            Settlement::DeadLetter => {}
            Settlement::Accept | Settlement::Release => {
                return Err(refused("settle", "NotSupported", "a log is settled by its cursor"));
            }
        }
        let (queue, position, attempts) = (delivery.queue, delivery.position, settle.attempts);
        let command = |reply| Command::DeadLetter { queue, position, attempts, reply };
        self.member.inner.write(command).await.map_err(|error| failed("dead-letter", &error))
    }
}

/// The lease-keeping half. Dropping it ends the session, and the next consumer takes over.
pub struct EmbeddedKeeper {
    member: Member,
    instance: u64,
    changes: watch::Receiver<()>,
    joined: bool,
    leaving: bool,
    told: Option<SourceState>,
    events: VecDeque<LeaseEvent>,
}

impl fmt::Debug for EmbeddedKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedKeeper").field("instance", &self.instance).finish_non_exhaustive()
    }
}

impl LeaseKeeper for EmbeddedKeeper {
    fn join(&mut self) {
        self.joined = true;
        self.leaving = false;
        self.ring();
    }

    fn leave(&mut self) {
        self.leaving = self.joined;
        self.ring();
    }

    fn release(&mut self, queue: QueueId, epoch: Epoch) {
        let mut held = self.member.held();
        if held.get(&queue) == Some(&epoch) {
            held.remove(&queue);
            drop(held);
            self.events.push_back(LeaseEvent::Released { queue, epoch });
            self.ring();
        }
    }

    async fn next(&mut self) -> LeaseEvent {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            self.changes.borrow_and_update();
            self.turn();
            if self.events.is_empty() && self.changes.changed().await.is_err() {
                // The sender lives in what this half holds: it never ends first.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl EmbeddedKeeper {
    fn ring(&self) {
        self.member.inner.signals.session.send_replace(());
    }

    fn turn(&mut self) {
        if !self.joined {
            return;
        }
        if self.leaving {
            if self.member.held().is_empty() {
                self.end();
                self.events.push_back(LeaseEvent::Left);
            }
            return;
        }
        let inner = Arc::clone(&self.member.inner);
        let owner = {
            let mut sessions = inner.sessions();
            let owner = *sessions.owner.get_or_insert(self.instance);
            if owner == self.instance {
                self.acquire(&mut sessions.epochs);
            }
            owner
        };
        self.tell_source(owner == self.instance);
    }

    fn acquire(&mut self, epochs: &mut EpochClock) {
        let inner = Arc::clone(&self.member.inner);
        let mut held = self.member.held();
        for (number, (name, queue)) in (0u32..).zip(inner.store.names().iter().zip(inner.store.queues())) {
            let id = QueueId(number);
            if held.contains_key(&id) {
                continue;
            }
            let epoch = epochs.advance();
            held.insert(id, epoch);
            self.events.push_back(LeaseEvent::Acquired {
                queue: id,
                name: Arc::clone(name),
                epoch,
                deadline: None,
                cursor: Position(queue.committed),
                settle_within: None,
                extra: false,
            });
        }
    }

    fn tell_source(&mut self, owner: bool) {
        let inner = &self.member.inner;
        let failure = inner.signals.failure();
        let connected = failure.is_none();
        let problem = match failure {
            Some(error) => {
                Some(Problem { reason: error.reason(), message: error.to_string(), remedy: String::new() })
            }
            None if !owner => Some(Problem {
                reason: Problem::MORE_REPLICAS_THAN_QUEUES,
                message: "another consumer of this process owns the embedded broker's queues".into(),
                remedy: "end the other consumer".into(),
            }),
            None => None,
        };
        let queues_total = u32::try_from(inner.store.names().len()).unwrap_or(u32::MAX);
        let state = SourceState { connected, problem, queues_total, reconnects: 0 };
        if self.told.as_ref() != Some(&state) {
            self.told = Some(state.clone());
            self.events.push_back(LeaseEvent::Source(state));
        }
    }

    fn end(&mut self) {
        self.joined = false;
        self.leaving = false;
        self.told = None;
        self.member.held().clear();
        let mut sessions = self.member.inner.sessions();
        if sessions.owner == Some(self.instance) {
            sessions.owner = None;
        }
        drop(sessions);
        self.ring();
    }
}

impl Drop for EmbeddedKeeper {
    fn drop(&mut self) {
        self.end();
    }
}

fn refused(operation: &'static str, reason: &'static str, message: &str) -> BrokerError {
    BrokerError {
        operation,
        certainty: Certainty::NotDone,
        class: Class::Transient,
        problem: Problem { reason, message: message.into(), remedy: String::new() },
        source: None,
    }
}

fn not_fetched(error: &StoreError) -> BrokerError {
    BrokerError { certainty: Certainty::NotDone, ..failed("fetch", error) }
}

fn failed(operation: &'static str, error: &StoreError) -> BrokerError {
    let (certainty, class) = match error {
        StoreError::OutOfRange { .. } | StoreError::NoQueue(_) => (Certainty::NotDone, Class::Permanent),
        StoreError::Full | StoreError::Corrupt(_) | StoreError::Io(_) | StoreError::Closed => {
            (Certainty::Unknown, Class::Permanent)
        }
        StoreError::Slow(_) => (Certainty::Unknown, Class::Transient),
    };
    BrokerError {
        operation,
        certainty,
        class,
        problem: Problem { reason: error.reason(), message: error.to_string(), remedy: String::new() },
        source: Some(Arc::new(error.clone())),
    }
}
