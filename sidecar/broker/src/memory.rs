//! A broker in memory, for tests: the real traits without a network, on tokio's clock, so that paused time works.
//!
//! It behaves as a log whose queues are guarded by advisory locks with a lifetime (`Cumulative`), or as a broker that
//! hands each queue to one consumer and takes settlements one by one (`PerDelivery`). Members of one group divide the
//! queues among themselves by allocation. [`MemorySource`] is the test's handle: it publishes, looks, and breaks
//! things.

mod halves;
mod lease;
mod settle;
mod source;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use lockstep_model::{Epoch, Message, Moment, Position, QueueId, Settlement, Text};

pub use halves::{MemoryBroker, MemoryKeeper, MemoryReader, MemorySettler};
pub use source::MemorySource;

/// How a memory source behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryOptions {
    /// `Cumulative`: a log under locks. `PerDelivery`: exclusive consumers.
    pub settlement: Settlement,
    /// How long the broker keeps a lock that nobody renews. A member's lease is half of it; it renews every sixth.
    pub lock_lifetime: Duration,
    /// How long a fetch waits for a message.
    pub hold: Duration,
    /// How long after a refused lock it is asked for again.
    pub lock_retry: Duration,
    /// How many deliveries of a queue may be unsettled (`PerDelivery` only).
    pub lookahead: Option<u32>,
    /// How long a delivery may stay unsettled, as told to the consumer. It is not enforced.
    pub settle_within: Option<Duration>,
    /// How long the broker takes for a dead letter, as one does that is short of memory.
    pub dead_letter_takes: Duration,
}

impl MemoryOptions {
    /// A log under locks that live 60 s, as RocketMQ has by default.
    pub const fn cumulative() -> Self {
        Self {
            settlement: Settlement::Cumulative,
            lock_lifetime: Duration::from_secs(60),
            hold: Duration::from_secs(15),
            lock_retry: Duration::from_millis(300),
            lookahead: None,
            settle_within: None,
            dead_letter_takes: Duration::ZERO,
        }
    }

    /// Exclusive consumers that settle one by one.
    pub const fn per_delivery() -> Self {
        Self { settlement: Settlement::PerDelivery, ..Self::cumulative() }
    }
}

/// A dead letter in memory.
#[derive(Debug, Clone)]
pub struct DeadLetter {
    /// The queue that it came from.
    pub queue: QueueId,
    /// Its offset there.
    pub offset: u64,
    /// The message, intact.
    pub message: Message,
    /// The stored bytes of an undecodable one.
    pub raw: Option<Bytes>,
    /// The attempts that were spent.
    pub attempts: u32,
}

/// What the broker saw, in order: the broker's side of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub at: Moment,
    /// The queue that it concerns.
    pub queue: QueueId,
    /// What.
    pub what: Happening,
}

/// One thing that happened at the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// A message was stored.
    Published {
        /// Its place in the queue.
        offset: u64,
        /// Its id.
        id: Text,
        /// Its key.
        key: Option<Text>,
    },
    /// A member took the queue.
    Acquired {
        /// The member's client id.
        member: String,
        /// The ownership.
        epoch: Epoch,
    },
    /// A member gave the queue back.
    Released {
        /// The member's client id.
        member: String,
        /// The ownership that ended.
        epoch: Epoch,
    },
    /// A member learned that its ownership ended.
    Lost {
        /// The member's client id.
        member: String,
        /// The ownership that ended.
        epoch: Epoch,
    },
    /// A cursor was stored.
    Committed {
        /// The member's client id.
        member: String,
        /// The ownership it was sent under.
        epoch: Epoch,
        /// The new cursor.
        position: Position,
    },
    /// A delivery was settled as done.
    Accepted {
        /// The member's client id.
        member: String,
        /// The ownership it was sent under.
        epoch: Epoch,
        /// The message's place in the queue.
        offset: u64,
    },
    /// A message went to the dead letters.
    DeadLettered {
        /// The member's client id.
        member: String,
        /// The ownership it was sent under.
        epoch: Epoch,
        /// The message's place in the queue.
        offset: u64,
    },
    /// The position was set from outside.
    Reset {
        /// The new committed position.
        to: Position,
    },
    /// Messages before this position were removed by retention.
    Trimmed {
        /// The first position that is left.
        to: Position,
    },
}
