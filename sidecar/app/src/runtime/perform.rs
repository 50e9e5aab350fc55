//! What the loop does with each thing that the engine says.

use std::time::Duration;

use lockstep_broker::{Broker, Commit, FetchRequest, LeaseKeeper, Settle};
use lockstep_core::{AttemptId, Output};
use lockstep_model::{Epoch, Moment, QueueId, QueueName};
use tracing::info;

use super::{
    shell::Shell,
    translate::{self, Payload},
    work,
};
use crate::deliver::{AttemptRequest, Deliver};

/// What an attempt is told beside its delivery.
type AttemptFacts = (QueueId, Epoch, u32, Option<Moment>, Option<Moment>, Duration);

impl<B: Broker, D: Deliver> Shell<B, D> {
    /// Does what the engine says until it has nothing more to say.
    pub(super) fn perform(&mut self, keeper: &mut B::Keeper) {
        while self.act(keeper) {}
    }

    /// Does one thing; answers whether there may be more.
    fn act(&mut self, keeper: &mut B::Keeper) -> bool {
        match self.engine.poll() {
            Output::Wait(wake) => {
                self.engine_wake = wake;
                return false;
            }
            Output::Finished => {
                self.finished = true;
                return false;
            }
            Output::JoinGroup => {
                info!("joining the broker's group");
                keeper.join();
            }
            Output::LeaveGroup => {
                info!("leaving the broker's group");
                keeper.leave();
            }
            Output::ReleaseQueue { queue, epoch } => keeper.release(queue, epoch),
            Output::Fetch { queue, epoch, fetch, from, count, bytes } => {
                let request = FetchRequest { queue, epoch, from, count, bytes };
                let (handle, call) = work::fetch(&self.reader, fetch, request);
                self.fetch_handles.insert(fetch, handle);
                self.fetches.push(call);
            }
            Output::CancelFetch { queue: _, fetch } => {
                if let Some(handle) = self.fetch_handles.remove(&fetch) {
                    handle.abort();
                }
            }
            Output::Attempt {
                attempt,
                queue,
                epoch,
                deliveries,
                number,
                not_after,
                lease_deadline,
                timeout,
            } => {
                let request = (queue, epoch, number, not_after, lease_deadline, timeout);
                self.start_attempt(attempt, deliveries, request);
            }
            Output::CancelAttempt { attempt } => {
                if let Some(handle) = self.attempt_handles.get(&attempt) {
                    handle.abort();
                    self.cut_until = self.clock.now() + self.config.timeout;
                }
            }
            Output::Settle { queue, epoch, position: _, payload, settlement, attempts, not_after } => {
                let settlement = translate::settlement(settlement);
                self.put_to_batch(
                    queue,
                    Settle { epoch, delivery: payload, settlement, attempts, not_after },
                );
            }
            Output::Commit { queue, epoch, position, last, not_after } => {
                let commit = Commit { queue, epoch, position, last, not_after };
                self.settling.push(work::commit(&self.settler, self.clock, commit));
            }
            Output::SaveAttempts { queue, identity, attempts } => {
                if let Some(entry) = self.queues.get(queue) {
                    self.state.save_attempts(&entry.name, &identity, attempts);
                }
            }
            Output::SaveStorm { in_row } => self.state.save_storm(in_row),
            Output::Event(event) => self.report(event),
        }
        true
    }

    /// One delivery per attempt today; the engine never sends more.
    fn start_attempt(
        &mut self,
        id: AttemptId,
        deliveries: Vec<Payload>,
        (queue, epoch, number, not_after, lease_deadline, timeout): AttemptFacts,
    ) {
        debug_assert_eq!(deliveries.len(), 1, "an attempt must carry one delivery");
        let Some(delivery) = deliveries.into_iter().next() else { return };
        let queue_name =
            self.queues.get(queue).map(|queue| QueueName::clone(&queue.name)).unwrap_or_default();
        let max_attempts = self.config.max_attempts;
        let request = AttemptRequest {
            delivery,
            queue_name,
            epoch,
            number,
            max_attempts,
            not_after,
            lease_deadline,
            timeout,
        };
        let (handle, call) = work::attempt(&self.deliver, self.clock, id, request);
        self.attempt_handles.insert(id, handle);
        self.attempts.push(call);
    }
}
