//! The lease-keeping half: membership, allocation, locks and their renewal. One task does it all, and waits for
//! nothing but its own short requests.

mod driver;
mod jobs;
mod links;
mod machine;
mod membership;
mod questions;
mod topology;

use std::sync::Arc;

use lockstep_broker::{LeaseEvent, LeaseKeeper, Outbox};
use lockstep_model::{Epoch, QueueId};
use tokio::sync::mpsc;

use self::driver::Driver;
use crate::{remoting::Event, shared::Shared};

/// What the shell asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Join,
    Leave,
    Release(QueueId, Epoch),
}

/// Keeps the membership and the leases. Dropped, it ends its task; locks then run out at the brokers.
#[derive(Debug)]
pub struct RocketKeeper {
    wishes: mpsc::UnboundedSender<Wish>,
    outbox: Arc<Outbox>,
}

impl RocketKeeper {
    /// Starts the task on the current runtime.
    pub(crate) fn start(shared: Arc<Shared>, events: mpsc::Receiver<Event>) -> Self {
        // As many wishes as the shell has queues and changes of mind; the task reads them at once.
        let (wishes, wished) = mpsc::unbounded_channel();
        let outbox = Arc::new(Outbox::default());
        tokio::spawn(Driver::new(shared, Arc::clone(&outbox)).run(wished, events));
        Self { wishes, outbox }
    }

    fn wish(&self, wish: Wish) {
        if self.wishes.send(wish).is_err() {
            tracing::error!(?wish, "the lease keeper's task has ended");
        }
    }
}

impl LeaseKeeper for RocketKeeper {
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
