use std::time::Duration;

use lockstep_model::{Epoch, Identity, KeyHash, Moment, Position, QueueId};

use crate::{AttemptId, AttemptResult, Config};

/// Numbers a fetch, so that a late answer is known as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(pub u64);

/// One delivery as the engine sees it; `payload` is carried through untouched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming<P> {
    /// Where it stands in its queue.
    pub position: Position,
    /// What it counts against the buffer.
    pub bytes: usize,
    /// The hash of its key.
    pub key: Option<KeyHash>,
    /// What it is the same as when it comes again.
    pub identity: Identity,
    /// The broker's own count of earlier deliveries.
    pub redeliveries: u32,
    /// It could not be decoded: handled by [`Config::undecodable`], never attempted.
    pub undecodable: bool,
    /// What the shell needs to deliver and settle it.
    pub payload: P,
}

/// How an operation on the broker failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It surely did not happen.
    NotDone,
    /// It may have happened.
    Unknown,
    /// It surely did not happen and trying again will not help until something is changed.
    Permanent,
}

/// A person's way past one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByHand {
    /// Drop it.
    Skip,
    /// Move it to the dead-letter queue.
    DeadLetter,
}

/// Everything that can happen to the engine. Each queue's input carries the epoch it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<P> {
    /// A queue is ours.
    QueueAcquired {
        /// The queue.
        queue: QueueId,
        /// The new ownership.
        epoch: Epoch,
        /// When it ends unless renewed.
        deadline: Option<Moment>,
        /// The committed position.
        cursor: Position,
        /// The broker's acknowledgement timeout.
        settle_within: Option<Duration>,
    },
    /// A lease lives on; also ends doubt.
    LeaseRenewed {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
        /// Its new end.
        deadline: Option<Moment>,
    },
    /// The connection behind a lease is lost: nothing new starts, what runs may end.
    LeaseDoubtful {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
    },
    /// The queue goes to another member: finish and release it.
    QueueRevoking {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
        /// When at the latest.
        deadline: Option<Moment>,
    },
    /// It stays with us after all.
    RevocationCancelled {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
    },
    /// The ownership is over.
    QueueLost {
        /// The queue.
        queue: QueueId,
        /// The ownership that ended.
        epoch: Epoch,
    },
    /// A fetch brought deliveries in rising positions.
    Fetched {
        /// The queue.
        queue: QueueId,
        /// The ownership it was asked under.
        epoch: Epoch,
        /// The fetch.
        fetch: FetchId,
        /// The deliveries.
        deliveries: Vec<Incoming<P>>,
        /// Where to go on.
        next: Position,
    },
    /// A fetch failed; it is asked again after a backoff.
    FetchFailed {
        /// The queue.
        queue: QueueId,
        /// The ownership it was asked under.
        epoch: Epoch,
        /// The fetch.
        fetch: FetchId,
    },
    /// The queue's position was moved from outside.
    PositionMoved {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
        /// Where to go on, forwards or backwards.
        to: Position,
        /// By an operator's reset; otherwise retention overtook us.
        reset: bool,
    },
    /// An attempt is over: one result per delivery of the attempt, in its order.
    AttemptEnded {
        /// The attempt.
        attempt: AttemptId,
        /// The results.
        results: Vec<AttemptResult>,
    },
    /// The broker answered a settlement.
    Settled {
        /// The queue.
        queue: QueueId,
        /// The ownership it was sent under.
        epoch: Epoch,
        /// The delivery.
        position: Position,
        /// What came of it.
        result: Result<(), Failure>,
    },
    /// The broker answered a commit.
    Committed {
        /// The queue.
        queue: QueueId,
        /// The ownership it was sent under.
        epoch: Epoch,
        /// The cursor it carried.
        position: Position,
        /// What came of it.
        result: Result<(), Failure>,
    },
    /// A queue was given back, as asked.
    Released {
        /// The queue.
        queue: QueueId,
        /// The ownership that ended.
        epoch: Epoch,
    },
    /// The group was left, as asked.
    Left,
    /// The application's health changed.
    HealthChanged {
        /// Whether it is healthy.
        healthy: bool,
    },
    /// Hot settings changed.
    Reconfigured(Box<Config>),
    /// Dispatch is held (true) or set free (false) by the application's own shutdown hook; running attempts go on.
    DispatchHeld(bool),
    /// A person's way past one message: the head of its lane at that position.
    ByHand {
        /// The queue.
        queue: QueueId,
        /// The delivery.
        position: Position,
        /// What to do.
        action: ByHand,
    },
    /// Attempts spent in an earlier life of the process, to go on from. Sent before the queue's first fetch.
    AttemptsRestored {
        /// The queue.
        queue: QueueId,
        /// The delivery.
        identity: Identity,
        /// Attempts spent.
        attempts: u32,
    },
    /// Messages dead-lettered or skipped in a row in an earlier life of the process. Sent before the group is joined.
    StormRestored {
        /// How many.
        in_row: u32,
    },
    /// Finish what runs, give everything back and end by `deadline`.
    DrainRequested {
        /// The latest end.
        deadline: Moment,
    },
    /// Time passed.
    Tick,
}
