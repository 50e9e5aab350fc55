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
use lockstep_model::{Moment, QueueId};
use tokio::sync::mpsc;

use self::driver::Driver;
use crate::shared::Shared;

/// What the other halves and the channels' own tasks tell the keeper.
#[derive(Debug)]
pub(crate) enum Report {
    /// A channel that consumes ended.
    Ended { queue: QueueId, channel: u64, end: crate::consumer::End },
    /// A settlement was answered.
    Alive { queue: QueueId, channel: u64, sent: Moment },
    /// What is out has to come anew: it is old, or a body of that size had no room.
    Rewind { queue: QueueId, channel: u64, size: Option<u64> },
}

/// Keeps session and leases. Dropped, it ends its task and with it the connection.
pub type RabbitKeeper = TaskKeeper;

/// Starts the task on the current runtime.
pub(crate) fn start(shared: Arc<Shared>, reports: mpsc::UnboundedReceiver<Report>) -> RabbitKeeper {
    TaskKeeper::start(|wishes, outbox| Driver::new(shared, outbox).run(wishes, reports))
}
