//! What the loop remembers of each queue: its name, its place and its metrics.

use std::collections::{BTreeMap, VecDeque};

use lockstep_broker::Settle;
use lockstep_model::{Epoch, Moment, Position, QueueId, QueueName};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use lockstep_core::AttemptResult;

use crate::{
    deliver::{Attempted, Detail},
    metrics::{Metrics, QueueLabel, Seconds},
};

/// Last errors kept per queue: one for each lane that failed lately.
const ERRORS_PER_QUEUE: usize = 256;

/// All queues ever seen, by number. A group has few.
#[derive(Debug, Default)]
pub(super) struct Queues {
    list: BTreeMap<QueueId, Queue>,
}

/// One queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: QueueName,
    /// Our ownership, while we have it.
    pub(super) epoch: Option<Epoch>,
    /// When the lease ends unless renewed.
    pub(super) deadline: Option<Moment>,
    /// Whether the connection behind the lease is lost.
    pub(super) doubtful: bool,
    /// Whether the broker has added it to what is subscribed to.
    pub(super) extra: bool,
    /// The position confirmed by the broker.
    pub(super) cursor: Position,
    /// Behind the queue's last message, as far as known.
    pub(super) end: Option<Position>,
    /// Settlements that wait for the next batch.
    pub(super) waiting: VecDeque<Settle>,
    /// Deliveries that have come under our ownership and are not settled, where they are settled one by one.
    pub(super) open: usize,
    /// From when on a batch of any size is sent.
    pub(super) settle_from: Moment,
    /// Whether a batch is with the broker.
    pub(super) settling: bool,
    /// What the last attempt of a failing delivery met.
    errors: BTreeMap<Position, Detail>,
    pub(super) metrics: QueueMetrics,
}

/// One queue's metrics, looked up once.
#[derive(Debug)]
pub(super) struct QueueMetrics {
    pub(super) received: Counter,
    pub(super) suppressed: Counter,
    pub(super) span: Gauge,
    pub(super) lag: Gauge,
    pub(super) oldest_age: Seconds,
    pub(super) lease_held: Seconds,
    pub(super) blocked: Gauge,
}

impl Queues {
    /// The queue, new when it was never seen.
    pub(super) fn acquired(&mut self, id: QueueId, name: QueueName, metrics: &Metrics) -> &mut Queue {
        self.list.entry(id).or_insert_with(|| Queue::new(name, metrics))
    }

    pub(super) fn get(&self, id: QueueId) -> Option<&Queue> {
        self.list.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.list.get_mut(&id)
    }

    /// The queue under this ownership.
    pub(super) fn owned_mut(&mut self, id: QueueId, epoch: Epoch) -> Option<&mut Queue> {
        self.list.get_mut(&id).filter(|queue| queue.epoch == Some(epoch))
    }

    /// The name, for logs.
    pub(super) fn name(&self, id: QueueId) -> &str {
        self.list.get(&id).map_or("unknown", |queue| &queue.name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.list.iter().map(|(id, queue)| (*id, queue))
    }

    pub(super) fn owned(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.iter().filter(|(_, queue)| queue.epoch.is_some())
    }
}

impl Queue {
    fn new(name: QueueName, metrics: &Metrics) -> Self {
        let label = QueueLabel { queue: name.to_string() };
        let metrics = QueueMetrics {
            received: metrics.received.get_or_create_owned(&label),
            suppressed: metrics.suppressed.get_or_create_owned(&label),
            span: metrics.span.get_or_create_owned(&label),
            lag: metrics.lag.get_or_create_owned(&label),
            oldest_age: metrics.oldest_age.get_or_create_owned(&label),
            lease_held: metrics.lease_held.get_or_create_owned(&label),
            blocked: metrics.blocked.get_or_create_owned(&label),
        };
        Self {
            name,
            epoch: None,
            deadline: None,
            doubtful: false,
            extra: false,
            cursor: Position::default(),
            end: None,
            waiting: VecDeque::new(),
            open: 0,
            settle_from: Moment::ZERO,
            settling: false,
            errors: BTreeMap::new(),
            metrics,
        }
    }

    /// Forgets what belongs to an ownership that is over.
    pub(super) fn given_up(&mut self) {
        self.epoch = None;
        self.deadline = None;
        self.open = 0;
        self.doubtful = false;
        self.errors.clear();
        self.metrics.lease_held.set(0.0);
        self.metrics.span.set(0);
        self.metrics.lag.set(0);
        self.metrics.oldest_age.set(0.0);
        self.metrics.blocked.set(0);
    }

    /// Messages that are not committed, as far as the source tells.
    pub(super) fn lag(&self) -> Option<u64> {
        self.end.map(|end| end.0.saturating_sub(self.cursor.0))
    }

    /// Keeps what an attempt met and answers its result; nothing is kept for one that succeeded.
    pub(super) fn note(&mut self, position: Position, attempted: Attempted) -> AttemptResult {
        let Attempted { result, detail } = attempted;
        match detail {
            Some(detail) => {
                if self.errors.len() >= ERRORS_PER_QUEUE && !self.errors.contains_key(&position) {
                    self.errors.pop_first();
                }
                self.errors.insert(position, detail);
            }
            None if self.errors.is_empty() => {}
            None => drop(self.errors.remove(&position)),
        }
        result
    }

    pub(super) fn error(&self, position: Position) -> Option<&Detail> {
        self.errors.get(&position)
    }
}
