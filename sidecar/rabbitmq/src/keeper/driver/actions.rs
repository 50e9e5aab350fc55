//! What the driver does with the commands of the queues' machines.

use std::sync::Arc;

use lockstep_broker::LeaseEvent;
use lockstep_model::{Epoch, Moment, Position, QueueId};
use tracing::info;

use super::{Driver, Link};
use crate::{
    config::Ordering,
    consumer::Consumer,
    keeper::{
        Awaited, Report,
        jobs::{self, Order},
    },
    machine::Command,
    problem::{Rank, hopeless},
};

impl Driver {
    /// Says once what the acknowledgement timeout does to the prefetch.
    pub(super) fn tell_prefetch(&self) {
        let prefetch = self.shared.prefetch;
        if prefetch.hopeless {
            self.shared.problems.set(Rank::Warning, "", hopeless(&self.shared.config));
        } else if let Some(wanted) = prefetch.lowered_from {
            info!(
                prefetch = prefetch.count,
                wanted, "the prefetch is lowered to what fits into the acknowledgement timeout"
            );
        }
    }

    pub(super) fn perform(&mut self, id: QueueId, command: Command) {
        match command {
            Command::Open { channel, contested } => self.open(id, channel, contested),
            Command::Look { channel } => self.look(id, channel),
            Command::Close { channel } => self.close(id, channel),
            Command::Count => {
                if let (Link::Up(connection), Some(queue)) =
                    (&self.link, self.queues.iter().find(|queue| queue.id == id))
                {
                    let job = jobs::count(
                        Arc::clone(&self.shared),
                        connection.clone(),
                        id,
                        Arc::clone(&queue.name),
                    );
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
                self.outbox.push(LeaseEvent::Revoking { queue: id, epoch, deadline: None });
            }
            Command::RevocationCancelled { epoch } => {
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
        let Link::Up(connection) = &self.link else { return };
        let connection = connection.clone();
        let Some(queue) = self.queue(id) else { return };
        let order = Order {
            queue: (id, Arc::clone(&queue.name)),
            channel,
            contested,
            awaited: queue.awaited,
            verified: queue.verified.clone(),
        };
        self.jobs.push(Box::pin(jobs::open(shared, connection, order)));
    }

    fn look(&mut self, id: QueueId, channel: u64) {
        let shared = Arc::clone(&self.shared);
        let Some(consumer) = self.consumer(id, channel) else { return };
        let (config, now) = (&shared.config, shared.now());
        // Well before the broker takes it back in its own way.
        let old =
            consumer.oldest().is_some_and(|oldest| now.since(oldest) >= config.acknowledgement_timeout / 2);
        // What waits behind one that is held is in a line of its own.
        let held_up = config.ordering != Ordering::PerQueue && consumer.is_held_up(now);
        if old || held_up {
            // What is only old asks for no room: it may be taken by another queue's body for long.
            let size = if held_up { consumer.without_room() } else { None };
            let awaited = size.map(|size| Awaited { size, held_up });
            shared.report(Report::Rewind { queue: id, channel, awaited });
        }
        self.jobs.push(Box::pin(jobs::look(shared, consumer)));
    }

    fn close(&mut self, id: QueueId, channel: u64) {
        let Some(consumer) = self.consumer(id, channel) else { return };
        consumer.over();
        self.jobs.push(Box::pin(jobs::close(Arc::clone(&self.shared), consumer)));
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
            // A channel counts its deliveries from 1.
            cursor: Position(1),
            settle_within: Some(self.shared.config.acknowledgement_timeout),
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
