use std::{future::Future, sync::Arc, time::Duration};

use lockstep_model::{Capabilities, Delivery, Epoch, Identity, Moment, Position, QueueId, QueueName};

use crate::{BrokerError, Problem};

/// A connection to one source, not yet joined to its group.
pub trait Broker: Sized + Send + 'static {
    /// The reading half.
    type Reader: Reader;
    /// The settling half.
    type Settler: Settler;
    /// The lease-keeping half.
    type Keeper: LeaseKeeper;

    /// What this source can do. Constant for the life of the value.
    fn capabilities(&self) -> Capabilities;

    /// Parts the three halves. Nothing is sent to the broker's group before [`LeaseKeeper::join`].
    fn split(self) -> (Self::Reader, Self::Settler, Self::Keeper);
}

/// One request for deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchRequest {
    /// The queue, which must be owned.
    pub queue: QueueId,
    /// The ownership it is fetched under.
    pub epoch: Epoch,
    /// The first position wanted. Ignored by sources that cannot reread: they go on behind the last delivery.
    pub from: Position,
    /// How many at most, at least 1.
    pub count: u32,
    /// How many body bytes about; the first delivery may be larger, more than one never are.
    pub bytes: usize,
}

/// What a fetch brought.
#[derive(Debug, Clone)]
pub enum Fetched {
    /// Deliveries in rising positions; may be empty when the hold of a long poll ended.
    Deliveries {
        /// The deliveries, undecodable ones among them in their place.
        deliveries: Vec<Delivery>,
        /// Where to go on. Everything before it that is not among the deliveries is of no concern to this group
        /// (filtered out, compacted, removed).
        next: Position,
        /// The position behind the queue's last message, where the source tells it.
        end: Option<Position>,
    },
    /// The position asked for does not exist any more, or the broker's tools moved the group. Buffered deliveries
    /// below or beyond `to` are stale.
    Moved {
        /// Where to go on; may lie before or behind the position asked for.
        to: Position,
        /// Whether an operator's reset moved it; otherwise retention overtook unread messages.
        reset: bool,
    },
}

/// The reading half.
pub trait Reader: Clone + Send + Sync + 'static {
    /// Waits for deliveries of one queue, at most as long as the source's own long poll (15 to 30 s).
    ///
    /// Cancel safe: a dropped call loses nothing; what arrives for it is dropped (a log) or kept for the next call.
    /// One call per queue at a time. An epoch that is no longer current fails with `NotDone`.
    fn fetch(&self, request: FetchRequest) -> impl Future<Output = Result<Fetched, BrokerError>> + Send;
}

/// A new cursor for a queue (`Settlement::Cumulative` sources).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The queue.
    pub queue: QueueId,
    /// The ownership that it belongs to.
    pub epoch: Epoch,
    /// Everything before it is finished.
    pub position: Position,
    /// The identity of the delivery before it, to recognise the place after a broker's restart.
    pub last: Identity,
    /// Do not write it after this moment: the lease may be over.
    pub not_after: Option<Moment>,
}

/// What to tell the broker of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// It is done (`PerDelivery` sources only).
    Accept,
    /// Give it back unstarted (unordered `PerDelivery` sources only).
    Release,
    /// Move it to the dead-letter queue. Confirmed before it succeeds.
    DeadLetter,
}

/// One delivery to settle.
#[derive(Debug, Clone)]
pub struct Settle {
    /// The ownership that it belongs to.
    pub epoch: Epoch,
    /// The delivery; an undecodable one is dead-lettered as its raw bytes.
    pub delivery: Arc<Delivery>,
    /// What to do with it.
    pub settlement: Settlement,
    /// How many attempts were spent, for the dead letter's properties where the source takes them.
    pub attempts: u32,
    /// Do not write it after this moment: the lease may be over.
    pub not_after: Option<Moment>,
}

/// The settling half. Both calls have their own timeout of at most 5 s and are safe to repeat.
pub trait Settler: Clone + Send + Sync + 'static {
    /// Awaits the broker's confirmation of a cursor. Not cancel safe: a dropped call is `Unknown`.
    fn commit(&self, commit: Commit) -> impl Future<Output = Result<(), BrokerError>> + Send;

    /// Settles deliveries of one queue in the order given and answers one result for each; an empty batch answers an
    /// empty list. A dead letter is in a call of its own, beside which others of the queue may run. Not cancel safe: a
    /// dropped call is `Unknown` for all.
    fn settle(&self, batch: Vec<Settle>) -> impl Future<Output = Vec<Result<(), BrokerError>>> + Send;
}

/// What the source says of itself and of the leases.
#[derive(Debug, Clone)]
pub enum LeaseEvent {
    /// This member owns the queue from now on.
    Acquired {
        /// The queue's number, the same whenever it comes back.
        queue: QueueId,
        /// The queue's name.
        name: QueueName,
        /// The ownership.
        epoch: Epoch,
        /// When it ends unless renewed; `None` when it ends only by an event.
        deadline: Option<Moment>,
        /// The committed position (or the start position, already committed).
        cursor: Position,
        /// How long a delivery may stay unsettled (a broker's acknowledgement timeout).
        settle_within: Option<Duration>,
        /// Whether the broker has added it to what is subscribed to, like a retry topic's: it is consumed like any
        /// other, and [`SourceState::queues_total`] does not count it.
        extra: bool,
    },
    /// The lease lives on until `deadline`. Also ends doubt.
    Renewed {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
        /// When it ends unless renewed again.
        deadline: Option<Moment>,
    },
    /// The connection is lost: the lease may still be ours until its deadline.
    Doubtful {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
    },
    /// The group gave the queue to another member: finish, then release it before `deadline`.
    Revoking {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
        /// When it is given up at the latest; `None` = only the drain's own bound.
        deadline: Option<Moment>,
    },
    /// The queue is ours again before it was released.
    RevocationCancelled {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
    },
    /// Another owner is certain, or the lease's time is over.
    Lost {
        /// The queue.
        queue: QueueId,
        /// The ownership that ended.
        epoch: Epoch,
    },
    /// The queue was given back, as asked.
    Released {
        /// The queue.
        queue: QueueId,
        /// The ownership that ended.
        epoch: Epoch,
    },
    /// The broker's tools set the group's position of an owned queue.
    Moved {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
        /// Where to go on.
        to: Position,
    },
    /// The session as a whole changed: for conditions, readiness and metrics. Sent on change only.
    Source(SourceState),
    /// The group was left, as asked, and every queue released.
    Left,
}

/// The state of the session with the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceState {
    /// Whether the member is in its group and reaches the brokers of its queues.
    pub connected: bool,
    /// What is wrong, also when connected (a part of the brokers is away, more members than queues).
    pub problem: Option<Problem>,
    /// Queues of what is subscribed to, over all members, as far as known. Queues that a source adds by itself (a retry
    /// topic's) are not counted: they would hide that there are more members than queues.
    pub queues_total: u32,
    /// Reconnects since the start.
    pub reconnects: u64,
}

/// The lease-keeping half: membership, assignment, locks and their renewal, which go on whatever the other halves do.
pub trait LeaseKeeper: Send + 'static {
    /// Joins the group: registers and begins to acquire queues. Does not block; a no-op when joined.
    fn join(&mut self);

    /// Leaves the group: no new queue is acquired, the membership ends at once, and each queue still held keeps its
    /// lease and renewals until it is released. Then [`LeaseEvent::Left`] follows. Does not block.
    fn leave(&mut self);

    /// Gives one queue back, with everything settled or abandoned. Does not block; [`LeaseEvent::Released`] follows.
    fn release(&mut self, queue: QueueId, epoch: Epoch);

    /// The next event. Cancel safe. Pends for ever when nothing happens; never ends.
    fn next(&mut self) -> impl Future<Output = LeaseEvent> + Send;
}
