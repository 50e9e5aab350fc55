//! The lease-keeping half: the session, a channel a queue, who owns it, and the proofs of life. One task does it all, and
//! waits for nothing but its own short questions.

mod driver;
pub(crate) mod jobs;

use std::sync::Arc;

use lockstep_broker::{LeaseEvent, LeaseKeeper, Outbox};
use lockstep_model::{Epoch, Moment, QueueId};
use tokio::sync::mpsc;

use self::driver::Driver;
use crate::shared::Shared;

/// What the shell asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Join,
    Leave,
    Release(QueueId, Epoch),
}

/// What the other halves and the channels' own tasks tell the keeper.
#[derive(Debug)]
pub(crate) enum Report {
    /// A channel that consumes ended.
    Ended { queue: QueueId, channel: u64, end: crate::consumer::End },
    /// A settlement was answered.
    Alive { queue: QueueId, channel: u64, sent: Moment },
    /// What is out has to come anew: a body of that size had no room, or a narrow prefetch has done its service.
    Rewind { queue: QueueId, channel: u64, size: Option<u64> },
}

/// Keeps session and leases. Dropped, it ends its task and with it the connection.
#[derive(Debug)]
pub struct RabbitKeeper {
    wishes: mpsc::UnboundedSender<Wish>,
    outbox: Arc<Outbox>,
}

impl RabbitKeeper {
    /// Starts the task on the current runtime.
    pub(crate) fn start(shared: Arc<Shared>, reports: mpsc::UnboundedReceiver<Report>) -> Self {
        // As many wishes as the shell has queues and changes of mind; the task reads them at once.
        let (wishes, wished) = mpsc::unbounded_channel();
        let outbox = Arc::new(Outbox::default());
        tokio::spawn(Driver::new(shared, Arc::clone(&outbox)).run(wished, reports));
        Self { wishes, outbox }
    }

    fn wish(&self, wish: Wish) {
        if self.wishes.send(wish).is_err() {
            tracing::error!(?wish, "the lease keeper's task has ended");
        }
    }
}

impl LeaseKeeper for RabbitKeeper {
    fn join(&mut self) {
        self.wish(Wish::Join);
    }

    fn leave(&mut self) {
        self.wish(Wish::Leave);
    }

    fn release(&mut self, queue: QueueId, epoch: Epoch) {
        self.wish(Wish::Release(queue, epoch));
    }

    async fn next(&mut self) -> LeaseEvent {
        self.outbox.next().await
    }
}
