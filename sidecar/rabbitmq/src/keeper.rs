//! The lease-keeping half: the session, a channel a queue, who owns it, and the proofs of life. One task does it all, and
//! waits for nothing but its own short questions.

mod backoff;
mod driver;
mod jobs;
#[cfg(test)]
mod tests;
pub(crate) mod verify;

use std::sync::Arc;

use lockstep_broker::TaskKeeper;
use lockstep_model::QueueId;
use tokio::sync::mpsc;

use self::driver::Driver;
use crate::shared::Shared;

/// What the other halves and the channels' own tasks tell the keeper.
#[derive(Debug)]
pub(crate) enum Report {
    /// A channel that consumes ended.
    Ended { queue: QueueId, channel: u64, end: crate::consumer::End },
    /// What is out has to come anew: it is old, or a body had no room.
    Rewind { queue: QueueId, channel: u64, awaited: Option<Awaited> },
}

/// A body that had no room, for which the next channel has to have some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// Bytes, with its properties.
    pub(crate) size: u64,
    /// Those before it are held, and take the room within the budget's limit first.
    pub(crate) held_up: bool,
}

/// Keeps session and leases. Dropped, it ends its task and with it the connection.
pub type RabbitKeeper = TaskKeeper;

/// Starts the task on the current runtime.
pub(crate) fn start(shared: Arc<Shared>, reports: mpsc::UnboundedReceiver<Report>) -> RabbitKeeper {
    TaskKeeper::start(|wishes, outbox| Driver::new(shared, outbox).run(wishes, reports))
}
