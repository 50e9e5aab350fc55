use std::sync::Arc;

use lockstep_model::{Epoch, QueueId};
use tokio::sync::mpsc;

use crate::{LeaseEvent, LeaseKeeper, Outbox};

/// What the shell asks of a lease keeper's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// [`LeaseKeeper::join`].
    Join,
    /// [`LeaseKeeper::leave`].
    Leave,
    /// [`LeaseKeeper::release`].
    Release(QueueId, Epoch),
}

/// A lease keeper whose work one task does. Dropped, it ends the channel of wishes, and with it the task.
#[derive(Debug)]
pub struct TaskKeeper {
    wishes: mpsc::UnboundedSender<Wish>,
    outbox: Arc<Outbox>,
}

impl TaskKeeper {
    /// Starts the task on the current runtime. It has to read wishes at once and to end with them, and tells its events
    /// to the outbox.
    pub fn start<F>(task: impl FnOnce(mpsc::UnboundedReceiver<Wish>, Arc<Outbox>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // As many wishes as the shell has queues and changes of mind; the task reads them at once.
        let (wishes, wished) = mpsc::unbounded_channel();
        let outbox = Arc::new(Outbox::default());
        tokio::spawn(task(wished, Arc::clone(&outbox)));
        Self { wishes, outbox }
    }

    fn wish(&self, wish: Wish) {
        if self.wishes.send(wish).is_err() {
            tracing::error!(?wish, "the lease keeper's task has ended");
        }
    }
}

impl LeaseKeeper for TaskKeeper {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wishes_reach_the_task_until_the_keeper_is_dropped() {
        let (heard, mut hears) = mpsc::unbounded_channel();
        let mut keeper = TaskKeeper::start(|mut wishes, outbox| async move {
            while let Some(wish) = wishes.recv().await {
                heard.send(wish).unwrap();
                outbox.push(LeaseEvent::Left);
            }
        });
        keeper.join();
        keeper.release(QueueId(3), Epoch(7));
        keeper.leave();
        for wish in [Wish::Join, Wish::Release(QueueId(3), Epoch(7)), Wish::Leave] {
            assert_eq!(hears.recv().await, Some(wish));
            assert!(matches!(keeper.next().await, LeaseEvent::Left));
        }
        drop(keeper);
        assert_eq!(hears.recv().await, None);
    }
}
