//! What the machine wants done, and what it wants told: to the shell, and to the halves that fetch and settle.

use std::sync::Arc;

use lockstep_broker::LeaseEvent;
use lockstep_model::Identity;
use tracing::debug;

use super::Driver;
use crate::{
    keeper::{jobs, machine::Action},
    leases::Confirmed,
    shared::Stats,
};

impl Driver {
    /// Does what the machine wants.
    pub(super) fn act(&mut self) {
        while let Some(action) = self.machine.poll() {
            let shared = Arc::clone(&self.shared);
            match action {
                Action::Lock { broker, ticket, queues } => {
                    self.start(jobs::lock(shared, broker, ticket, queues))
                }
                Action::Unlock { queue, ticket } => self.start(jobs::unlock(shared, queue, ticket)),
                Action::FindPosition { queue, ticket, not_after } => {
                    let new = self.topology.is_new(&queue);
                    self.start(jobs::find_position(shared, queue, ticket, new, not_after));
                }
                Action::Verify { queue, ticket, epoch, not_after } => {
                    let id = shared.leases.id(&queue);
                    self.start(jobs::verify(shared, queue, ticket, (id, epoch), not_after));
                }
                Action::Refused => Stats::count(&shared.stats.lock_refusals),
                Action::Acquired { .. }
                | Action::Renewed { .. }
                | Action::Doubtful { .. }
                | Action::Revoking { .. }
                | Action::RevocationCancelled { .. }
                | Action::Lost { .. }
                | Action::Released { .. }
                | Action::Moved { .. } => self.tell(action),
            }
        }
    }

    /// Tells the shell and the other halves what became of a queue.
    pub(super) fn tell(&mut self, action: Action) {
        let leases = &self.shared.leases;
        let event = match action {
            Action::Acquired { queue, epoch, deadline, cursor } => {
                let last = self.starts.remove(&queue).unwrap_or(Identity::None);
                let (id, name) =
                    leases.acquired(&queue, epoch, deadline, Confirmed { position: cursor, last });
                debug!(queue = %name, %epoch, %cursor, "queue acquired");
                let extra = *queue.topic == *self.shared.config.retry_topic();
                self.names.insert(id, queue);
                let deadline = Some(deadline);
                LeaseEvent::Acquired { queue: id, name, epoch, deadline, cursor, settle_within: None, extra }
            }
            Action::Renewed { queue, epoch, deadline } => {
                let queue = leases.id(&queue);
                leases.renewed(queue, epoch, deadline);
                Stats::count(&self.shared.stats.renewals);
                LeaseEvent::Renewed { queue, epoch, deadline: Some(deadline) }
            }
            Action::Doubtful { queue, epoch } => {
                debug!(%queue, %epoch, "queue in doubt: the connection to its broker was lost");
                let queue = leases.id(&queue);
                leases.doubtful(queue, epoch);
                LeaseEvent::Doubtful { queue, epoch }
            }
            Action::Revoking { queue, epoch } => {
                debug!(%queue, %epoch, "queue goes to another member");
                LeaseEvent::Revoking { queue: leases.id(&queue), epoch, deadline: None }
            }
            Action::RevocationCancelled { queue, epoch } => {
                debug!(%queue, %epoch, "queue stays after all");
                LeaseEvent::RevocationCancelled { queue: leases.id(&queue), epoch }
            }
            Action::Lost { queue, epoch } => {
                debug!(%queue, %epoch, "queue lost");
                let queue = leases.id(&queue);
                leases.ended(queue, epoch);
                LeaseEvent::Lost { queue, epoch }
            }
            Action::Released { queue, epoch } => {
                debug!(%queue, %epoch, "queue released");
                LeaseEvent::Released { queue: leases.id(&queue), epoch }
            }
            Action::Moved { queue, epoch, to } => {
                debug!(%queue, %epoch, %to, "queue moved to the broker's position");
                let queue = leases.id(&queue);
                leases.moved(queue, epoch, to, true);
                LeaseEvent::Moved { queue, epoch, to }
            }
            Action::Lock { .. }
            | Action::Unlock { .. }
            | Action::FindPosition { .. }
            | Action::Verify { .. }
            | Action::Refused => return,
        };
        self.outbox.push(event);
    }
}
