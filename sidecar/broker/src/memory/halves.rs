use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lockstep_model::{
    Capabilities, DeadLetterBy, Epoch, Moment, Ownership, Position, QueueId, Settlement as SettlementKind,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    Happening, MemoryOptions,
    state::{Member, State, refused},
};
use crate::{
    Broker, BrokerError, Clock, Commit, FetchRequest, Fetched, LeaseEvent, LeaseKeeper, Reader, Settle,
    Settler, reason,
};

/// The state and the bell that is rung after each change of it.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

impl Shared {
    pub(super) fn new(state: State) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), changed: watch::Sender::new(()) })
    }

    /// Looks at the state, or changes it in a way that nobody waits for.
    pub(super) fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes everybody who waits for a change.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.look());
        self.changed.send_replace(());
        result
    }
}

/// A member of the memory source's group.
#[derive(Debug)]
pub struct MemoryBroker {
    shared: Arc<Shared>,
    instance: u64,
}

impl MemoryBroker {
    pub(super) fn new(shared: Arc<Shared>, name: &str) -> Self {
        let instance = {
            let mut state = shared.look();
            state.last_instance += 1;
            let instance = state.last_instance;
            let last_seen = state.clock.now();
            state.members.insert(
                instance,
                Member {
                    name: name.into(),
                    joined: false,
                    leaving: false,
                    cut: false,
                    reconnects: 0,
                    last_seen,
                    held: Default::default(),
                    released: Vec::new(),
                    told: None,
                },
            );
            instance
        };
        Self { shared, instance }
    }
}

impl Broker for MemoryBroker {
    type Reader = MemoryReader;
    type Settler = MemorySettler;
    type Keeper = MemoryKeeper;

    fn capabilities(&self) -> Capabilities {
        capabilities(self.shared.look().options)
    }

    fn split(self) -> (MemoryReader, MemorySettler, MemoryKeeper) {
        let Self { shared, instance } = self;
        (
            MemoryReader { shared: Arc::clone(&shared), instance },
            MemorySettler { shared: Arc::clone(&shared), instance },
            MemoryKeeper { changes: shared.changed.subscribe(), shared, instance, events: VecDeque::new() },
        )
    }
}

fn capabilities(options: MemoryOptions) -> Capabilities {
    let locks = options.settlement == SettlementKind::Cumulative;
    Capabilities {
        ownership: if locks { Ownership::Lock } else { Ownership::ExclusiveConsumer },
        settlement: options.settlement,
        dead_letter: DeadLetterBy::Broker,
        reread: locks,
        lookahead: options.lookahead.filter(|_| !locks),
        release_keeps_order: true,
    }
}

/// The reading half in memory.
#[derive(Debug, Clone)]
pub struct MemoryReader {
    shared: Arc<Shared>,
    instance: u64,
}

impl Reader for MemoryReader {
    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, BrokerError> {
        let mut changes = self.shared.changed.subscribe();
        let (hold, restarts) = {
            let state = self.shared.look();
            (Instant::now() + state.options.hold, state.restarts)
        };
        loop {
            changes.borrow_and_update();
            {
                let mut state = self.shared.look();
                if state.restarts != restarts {
                    return Err(refused("fetch", reason::CONNECTION_LOST, "the broker was restarted"));
                }
                if let Some(fetched) = state.fetch(self.instance, request)? {
                    return Ok(fetched);
                }
            }
            if timeout_at(hold, changes.changed()).await.is_err() {
                return self.nothing(request);
            }
        }
    }
}

impl MemoryReader {
    fn nothing(&self, request: FetchRequest) -> Result<Fetched, BrokerError> {
        let mut state = self.shared.look();
        let next_tag = state.current("fetch", self.instance, request.queue, request.epoch)?.next_tag;
        let locks = state.locks();
        let end = state.queue(request.queue).filter(|_| locks).map(|queue| Position(queue.end()));
        let next = if locks { request.from } else { Position(next_tag) };
        Ok(Fetched::Deliveries { deliveries: Vec::new(), next, end })
    }
}

/// The settling half in memory.
#[derive(Debug, Clone)]
pub struct MemorySettler {
    shared: Arc<Shared>,
    instance: u64,
}

impl Settler for MemorySettler {
    async fn commit(&self, commit: Commit) -> Result<(), BrokerError> {
        self.shared.change(|state| state.commit(self.instance, &commit))
    }

    async fn settle(&self, batch: Vec<Settle>) -> Vec<Result<(), BrokerError>> {
        let takes = self.shared.look().options.dead_letter_takes;
        if !takes.is_zero() && batch.iter().any(|settle| settle.settlement == crate::Settlement::DeadLetter) {
            tokio::time::sleep(takes).await;
        }
        self.shared.change(|state| batch.iter().map(|settle| state.settle(self.instance, settle)).collect())
    }
}

/// The lease-keeping half in memory. Renewals happen while [`LeaseKeeper::next`] is awaited. Dropping it ends the
/// member as a crash does.
pub struct MemoryKeeper {
    shared: Arc<Shared>,
    instance: u64,
    changes: watch::Receiver<()>,
    events: VecDeque<LeaseEvent>,
}

impl fmt::Debug for MemoryKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryKeeper").field("instance", &self.instance).finish_non_exhaustive()
    }
}

impl MemoryKeeper {
    fn change(&self, change: impl FnOnce(&mut Member, Moment)) {
        self.shared.change(|state| {
            let now = state.clock.now();
            if let Some(member) = state.members.get_mut(&self.instance) {
                change(member, now);
            }
        });
    }

    fn clock(&self) -> Clock {
        self.shared.look().clock
    }
}

impl LeaseKeeper for MemoryKeeper {
    fn join(&mut self) {
        self.change(|member, now| {
            member.joined = true;
            member.leaving = false;
            member.last_seen = now;
        });
    }

    fn leave(&mut self) {
        self.change(|member, _| member.leaving = member.joined);
    }

    fn release(&mut self, queue: QueueId, epoch: Epoch) {
        let instance = self.instance;
        self.shared.change(|state| {
            let owner = state.queue(queue).and_then(|queue| queue.owner.as_ref());
            let owned = owner.is_some_and(|owner| owner.epoch == epoch);
            let Some(member) = state.members.get_mut(&instance) else { return };
            if member.held.get(&queue).is_none_or(|held| held.epoch != epoch) {
                return;
            }
            member.held.remove(&queue);
            member.released.push((queue, epoch));
            let member = member.name.clone();
            if owned {
                state.free(queue);
            }
            state.record(queue, Happening::Released { member, epoch });
        });
    }

    async fn next(&mut self) -> LeaseEvent {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            self.changes.borrow_and_update();
            let look = self.shared.look().turn(self.instance, &mut self.events);
            if !self.events.is_empty() {
                // Others wait for what this turn gave up.
                self.shared.changed.send_replace(());
                continue;
            }
            let clock = self.clock();
            tokio::select! {
                biased;
                _ = self.changes.changed() => {}
                () = sleep(clock, look) => {}
            }
        }
    }
}

async fn sleep(clock: Clock, until: Option<Moment>) {
    match until {
        Some(until) => sleep_until(clock.instant(until)).await,
        None => std::future::pending().await,
    }
}

impl Drop for MemoryKeeper {
    fn drop(&mut self) {
        self.shared.change(|state| state.forget(self.instance));
    }
}
