//! What the driver does with the commands of the queues' machines.

use std::sync::Arc;

use lockstep_broker::LeaseEvent;
use lockstep_model::{Epoch, Moment, Position, QueueId};

use super::{Done, Driver, Link};
use crate::{Held as _, Order, Sessions, machine::Command};

impl<S: Sessions> Driver<S> {
    pub(super) fn perform(&mut self, id: QueueId, command: Command) {
        match command {
            Command::Open { number, contested } => self.open(id, number, contested),
            Command::Look { number } => self.look(id, number),
            Command::Close { number } => self.close(id, number),
            Command::Count => self.count(id),
            Command::Acquired { number, epoch, deadline } => self.acquired(id, number, epoch, deadline),
            Command::Renewed { epoch, deadline } => {
                if let Some(consumer) = self.sessions.owners().owner(id, epoch) {
                    consumer.renewed(deadline);
                }
                self.outbox.push(LeaseEvent::Renewed { queue: id, epoch, deadline: Some(deadline) });
            }
            Command::Doubtful { epoch } => {
                if let Some(consumer) = self.sessions.owners().owner(id, epoch) {
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
                if let Some(consumer) = self.sessions.owners().owner(id, epoch) {
                    consumer.given_back();
                }
                self.over(id, epoch);
                self.outbox.push(LeaseEvent::Released { queue: id, epoch });
            }
        }
    }

    fn open(&mut self, id: QueueId, number: u64, contested: bool) {
        let sessions = Arc::clone(&self.sessions);
        let Link::Up(connection) = &self.link else { return };
        let connection = connection.clone();
        let Some(queue) = self.queue(id) else { return };
        let order = Order { queue: id, name: Arc::clone(&queue.name), number, contested };
        let opening = sessions.open(connection, order);
        self.jobs.push(Box::pin(async move { Done::Opened { queue: id, number, result: opening.await } }));
    }

    fn look(&self, id: QueueId, number: u64) {
        let Some(consumer) = self.consumer(id, number) else { return };
        let looking = Arc::clone(&self.sessions).look(consumer);
        self.jobs.push(Box::pin(async move { Done::Looked { queue: id, number, looked: looking.await } }));
    }

    fn close(&self, id: QueueId, number: u64) {
        let Some(consumer) = self.consumer(id, number) else { return };
        consumer.over();
        let closing = Arc::clone(&self.sessions).close_consumer(consumer);
        self.jobs.push(Box::pin(async move { Done::Closed { queue: id, number, sure: closing.await } }));
    }

    fn count(&mut self, id: QueueId) {
        let sessions = Arc::clone(&self.sessions);
        let Link::Up(connection) = &self.link else { return };
        let connection = connection.clone();
        let Some(queue) = self.queue(id) else { return };
        let counting = sessions.count(connection, Arc::clone(&queue.name));
        self.jobs.push(Box::pin(async move { Done::Counted { queue: id, consumers: counting.await } }));
    }

    fn acquired(&mut self, id: QueueId, number: u64, epoch: Epoch, deadline: Moment) {
        let Some(consumer) = self.consumer(id, number) else { return };
        consumer.owns(epoch, deadline);
        self.sessions.owners().begin(id, epoch, consumer);
        let Some(name) = self.queue(id).map(|queue| Arc::clone(&queue.name)) else { return };
        self.outbox.push(LeaseEvent::Acquired {
            queue: id,
            name,
            epoch,
            deadline: Some(deadline),
            // A consumer counts its deliveries from 1.
            cursor: Position(1),
            settle_within: self.settings.settle_within,
            extra: false,
        });
    }

    fn over(&self, id: QueueId, epoch: Epoch) {
        let owners = self.sessions.owners();
        if let Some(consumer) = owners.owner(id, epoch) {
            consumer.over();
        }
        owners.end(id, epoch);
    }
}
