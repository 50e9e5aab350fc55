//! What the driver does with the commands of the queues' machines.

use std::sync::Arc;

use lockstep_broker::LeaseEvent;
use lockstep_model::{Epoch, Moment, Position, QueueId};

use super::{Driver, Link};
use crate::{
    consumer::Consumer,
    keeper::{
        Report,
        jobs::{self, Order},
    },
    machine::Command,
};

impl Driver {
    pub(super) fn perform(&mut self, id: QueueId, command: Command) {
        match command {
            Command::Open { channel, contested } => self.open(id, channel, contested),
            Command::Look { channel } => self.look(id, channel),
            Command::Close { channel } => self.close(id, channel),
            Command::Count => {
                if let (Link::Up(view), Some(queue)) =
                    (&self.link, self.queues.iter().find(|queue| queue.id == id))
                {
                    let job = jobs::count(view.clone(), id, Arc::clone(&queue.name));
                    self.jobs.push(Box::pin(job));
                }
            }
            Command::Acquired { channel, epoch, deadline } => self.acquired(id, channel, epoch, deadline),
            Command::Renewed { epoch, deadline } => {
                if let Some(consumer) = self.shared.owner(id, epoch) {
                    consumer.renewed(deadline);
                }
                self.outbox.push(LeaseEvent::Renewed { queue: id, epoch, deadline: Some(deadline) });
            }
            Command::Doubtful { epoch } => {
                if let Some(consumer) = self.shared.owner(id, epoch) {
                    consumer.doubtful();
                }
                self.outbox.push(LeaseEvent::Doubtful { queue: id, epoch });
            }
            Command::Revoking { epoch } => {
                if let Some(consumer) = self.shared.owner(id, epoch) {
                    consumer.leaves(true);
                }
                self.outbox.push(LeaseEvent::Revoking { queue: id, epoch, deadline: None });
            }
            Command::RevocationCancelled { epoch } => {
                if let Some(consumer) = self.shared.owner(id, epoch) {
                    consumer.leaves(false);
                }
                self.outbox.push(LeaseEvent::RevocationCancelled { queue: id, epoch });
            }
            Command::Lost { epoch } => {
                self.over(id, epoch);
                self.outbox.push(LeaseEvent::Lost { queue: id, epoch });
            }
            Command::Released { epoch } => {
                self.over(id, epoch);
                self.outbox.push(LeaseEvent::Released { queue: id, epoch });
            }
        }
    }

    fn open(&mut self, id: QueueId, channel: u64, contested: bool) {
        let shared = Arc::clone(&self.shared);
        let Link::Up(view) = &self.link else { return };
        let view = view.clone();
        let Some(queue) = self.queue(id) else { return };
        let order = Order { queue: (id, Arc::clone(&queue.name)), channel, contested };
        self.jobs.push(Box::pin(jobs::open(shared, view, order)));
    }

    fn look(&mut self, id: QueueId, channel: u64) {
        let shared = Arc::clone(&self.shared);
        let Some(consumer) = self.consumer(id, channel) else { return };
        let Link::Up(view) = &self.link else { return };
        let view = view.clone();
        // What was given back while the queue was to be released stays with us otherwise, unseen.
        if consumer.has_given_back() {
            shared.report(Report::Rewind { queue: id, channel });
        }
        self.jobs.push(Box::pin(jobs::look(shared, view, consumer)));
    }

    fn close(&mut self, id: QueueId, channel: u64) {
        let Some(consumer) = self.consumer(id, channel) else { return };
        consumer.over();
        self.jobs.push(Box::pin(jobs::close(consumer)));
    }

    fn acquired(&mut self, id: QueueId, channel: u64, epoch: Epoch, deadline: Moment) {
        let Some(consumer) = self.consumer(id, channel) else { return };
        consumer.owns(epoch, deadline);
        let name = Arc::clone(&consumer.name);
        self.shared.begin(id, epoch, consumer);
        self.outbox.push(LeaseEvent::Acquired {
            queue: id,
            name,
            epoch,
            deadline: Some(deadline),
            // A consumer's deliveries count from 1.
            cursor: Position(1),
            settle_within: None,
            extra: false,
        });
    }

    fn over(&self, id: QueueId, epoch: Epoch) {
        if let Some(consumer) = self.shared.owner(id, epoch) {
            consumer.over();
        }
        self.shared.end(id, epoch);
    }

    fn consumer(&self, id: QueueId, channel: u64) -> Option<Arc<Consumer>> {
        let queue = self.queues.get(usize::try_from(id.0).ok()?)?;
        queue.consumer.as_ref().filter(|consumer| consumer.number == channel).map(Arc::clone)
    }
}
