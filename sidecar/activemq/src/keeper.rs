//! The lease-keeping half: the session, a consumer a queue, who owns it, and the proofs of life. One task does it all, and
//! waits for nothing but its own short questions.

mod backoff;
mod driver;
mod jobs;

use std::sync::Arc;

use lockstep_broker::TaskKeeper;
use lockstep_model::QueueId;
use tokio::sync::mpsc;

use self::driver::Driver;
use crate::shared::Shared;

/// What the other halves and the consumers' own tasks tell the keeper.
#[derive(Debug)]
pub(crate) enum Report {
    /// A consumer ended, or is of no use any more.
    Ended { queue: QueueId, channel: u64, end: crate::consumer::End },
    /// What is out has to come anew.
    Rewind { queue: QueueId, channel: u64 },
}

/// Keeps session and leases. Dropped, it ends its task and with it the connection.
pub type ActiveKeeper = TaskKeeper;

/// Starts the task on the current runtime.
pub(crate) fn start(shared: Arc<Shared>, reports: mpsc::UnboundedReceiver<Report>) -> ActiveKeeper {
    TaskKeeper::start(|wishes, outbox| Driver::new(shared, outbox).run(wishes, reports))
}
