//! The lease-keeping half: the session, a channel a queue, who owns it, and the proofs of life. One task does it all, and
//! waits for nothing but its own short questions.

mod jobs;
mod sessions;
#[cfg(test)]
mod tests;
pub(crate) mod verify;

use std::sync::Arc;

use lockstep_exclusive::Report;
use lockstep_model::Moment;
use tokio::sync::mpsc;

use self::verify::Verified;
use crate::shared::Shared;

/// What is kept of a queue from one channel to the next.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Of its declaration, on this connection.
    verified: Option<Verified>,
    /// A body that had no room: the next channel begins when there is some.
    awaited: Option<Awaited>,
    /// When the broker last took it back for a message that was not acknowledged in time.
    timed_out: Option<Moment>,
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
pub type RabbitKeeper = lockstep_exclusive::Keeper;

/// Starts the task on the current runtime.
pub(crate) fn start(shared: Arc<Shared>, reports: mpsc::UnboundedReceiver<Report>) -> RabbitKeeper {
    lockstep_exclusive::keeper(shared, reports)
}

impl Shared {
    /// What is out of a queue has to come anew: it is old, or a body had no room.
    pub(crate) fn rewind(&self, consumer: &crate::consumer::Consumer, awaited: Option<Awaited>) {
        self.with_kept(consumer.queue, |kept| kept.awaited = awaited.or(kept.awaited));
        let (queue, number) = (consumer.queue, consumer.number);
        // When the keeper is gone there is nobody to be told.
        let _: Result<(), _> = self.reports.send(Report::Rewind { queue, number });
    }
}
