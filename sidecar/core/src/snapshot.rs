//! A read-only view for `/status` and metrics.

use std::time::Duration;

use lockstep_model::{Epoch, Identity, Moment, Position, QueueId};

use crate::{
    Engine, Hold,
    lane::Lane,
    queue::{Phase, Queue},
};

/// The whole engine at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineSnapshot {
    /// Concurrent attempts allowed now.
    pub limit: u32,
    /// Attempts that run, orphans included.
    pub in_flight: usize,
    /// Deliveries received and not attempted.
    pub buffered: u64,
    /// Bytes of all held deliveries.
    pub buffered_bytes: usize,
    /// The misconfiguration breaker is open.
    pub breaker_open: bool,
    /// A dead-letter storm is assumed.
    pub storm_open: bool,
    /// The endpoint asked for a pause until then.
    pub paused_until: Option<Moment>,
    /// The application is healthy.
    pub healthy: bool,
    /// The group is joined.
    pub member: bool,
    /// A drain has begun; its deadline.
    pub draining: Option<Moment>,
    /// Dispatch is held by the application's shutdown hook.
    pub dispatch_held: bool,
    /// At least one message was done since the start.
    pub any_done: bool,
}

/// One queue at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// The queue.
    pub queue: QueueId,
    /// Its ownership.
    pub epoch: Epoch,
    /// The lease's end, unless renewed.
    pub deadline: Option<Moment>,
    /// The connection behind the lease is lost.
    pub doubtful: bool,
    /// It is being given back.
    pub releasing: bool,
    /// Retention overtook unread messages and the policy is `Stop`.
    pub stopped: bool,
    /// Everything before it is finished.
    pub cursor: Position,
    /// What the broker confirmed of it.
    pub committed: Position,
    /// The next position to be fetched.
    pub next: Position,
    /// Deliveries received and not attempted.
    pub buffered: u32,
    /// Bytes of all held deliveries.
    pub bytes: usize,
    /// Attempts of this ownership that run.
    pub in_flight: u32,
    /// Finished deliveries that the cursor could not pass yet.
    pub ahead: usize,
    /// Positions dropped behind blocked heads, to be read again.
    pub unread: usize,
    /// Settlements not confirmed.
    pub settling: usize,
    /// The oldest held head, if it is reported as blocked; otherwise the oldest blocked one.
    pub blocked: Option<BlockedHead>,
    /// How many heads are reported as blocked.
    pub blocked_count: usize,
    /// When the oldest held delivery was received.
    pub oldest: Option<Moment>,
}

/// A head that is reported as blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedHead {
    /// Where it stands.
    pub position: Position,
    /// What it is the same as when it comes again.
    pub identity: Identity,
    /// Why it waits.
    pub hold: Hold,
    /// Attempts spent.
    pub attempts: u32,
    /// How long ago it was received.
    pub age: Duration,
}

impl<P: Clone> Engine<P> {
    /// The whole, without the queues.
    pub fn snapshot(&self) -> EngineSnapshot {
        EngineSnapshot {
            limit: self.limit.get(),
            in_flight: self.running.len(),
            buffered: self.queues.values().map(|queue| u64::from(queue.buffered)).sum(),
            buffered_bytes: self.queues.values().map(|queue| queue.bytes).sum(),
            breaker_open: self.breaker.is_open(),
            storm_open: self.storm.is_open(),
            paused_until: self.pause,
            healthy: self.group.is_healthy(),
            member: self.group.is_member(),
            draining: self.drain,
            dispatch_held: self.dispatch_held,
            any_done: self.done > 0,
        }
    }

    /// Each owned queue, in order. Costs a look at each lane: for a status page, not for the hot path.
    pub fn queues(&self) -> impl Iterator<Item = QueueSnapshot> {
        self.queues.iter().map(|(id, queue)| self.queue_snapshot(*id, queue))
    }

    /// The payload of the delivery that a blocked head or an attempt is about, to name its message.
    pub fn payload(&self, queue: QueueId, position: Position) -> Option<&P> {
        let queue = self.queues.get(&queue)?;
        let lane = queue.lanes.get(queue.pending.get(&position)?)?;
        let index = lane.waiting.binary_search_by_key(&position, |held| held.position).ok()?;
        lane.waiting.get(index).map(|held| &held.payload)
    }

    fn queue_snapshot(&self, id: QueueId, queue: &Queue<P>) -> QueueSnapshot {
        let blocked: Vec<_> = queue.lanes.values().filter_map(|lane| self.blocked(lane)).collect();
        let oldest = queue
            .pending
            .first_key_value()
            .and_then(|(_, key)| queue.lanes.get(key)?.waiting.front())
            .map(|held| held.received);
        QueueSnapshot {
            queue: id,
            epoch: queue.epoch,
            deadline: queue.deadline,
            doubtful: queue.doubtful,
            releasing: queue.phase != Phase::Owned,
            stopped: queue.stopped.is_some(),
            cursor: queue.cursor.at(),
            committed: queue.commit.confirmed,
            next: queue.fetch.next,
            buffered: queue.buffered,
            bytes: queue.bytes,
            in_flight: queue.running,
            ahead: queue.cursor.ahead(),
            unread: queue.fetch.unread.len(),
            settling: queue.settling.len(),
            blocked_count: blocked.len(),
            blocked: blocked.into_iter().min_by_key(|head| head.position),
            oldest,
        }
    }

    fn blocked(&self, lane: &Lane<P>) -> Option<BlockedHead> {
        let hold = lane.head.hold?;
        let held = lane.waiting.front()?;
        Some(BlockedHead {
            position: held.position,
            identity: held.identity.clone(),
            hold,
            attempts: lane.head.attempts,
            age: self.now.since(held.received),
        })
    }
}
