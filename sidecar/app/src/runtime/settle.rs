//! Settlements and commits: on their way to the broker in batches, and back to the engine.

use std::{mem, time::Duration};

use lockstep_broker::{Broker, Settle, Settlement};
use lockstep_core::Input;
use lockstep_model::{Moment, QueueId};
use tracing::warn;

use super::{
    queues::Queue,
    shell::Shell,
    work::{self, SettlingDone},
};
use crate::{
    deliver::Deliver,
    metrics::{OperationResult, ResultLabel},
};

/// A small batch of a queue is not followed by another before this time has passed, so that the broker hears of several
/// deliveries at once where many queues are a little busy. What is not settled when the process is killed comes again:
/// a broker's window of unsettled deliveries bounds that, not this.
const GATHER: Duration = Duration::from_millis(10);
/// As many do not wait, so that a broker that bounds what is unsettled goes on sending.
const ENOUGH: usize = 8;

/// The queues with settlements that wait for a batch.
#[derive(Debug, Default)]
pub(super) struct Batches {
    queues: Vec<QueueId>,
    /// When the first of them is due.
    due: Option<Moment>,
}

impl Batches {
    /// When a batch is to be sent.
    pub(super) const fn wake(&self) -> Option<Moment> {
        self.due
    }

    fn due_at(&mut self, at: Moment) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

impl<B: Broker, D: Deliver> Shell<B, D> {
    /// Settlements of one queue wait for the end of the turn, to be sent together.
    pub(super) fn put_to_batch(&mut self, queue: QueueId, settle: Settle) {
        // A broker may take dead letters much later than acknowledgements, which must not wait for them.
        if settle.settlement == Settlement::DeadLetter {
            self.settling.push(work::settle(&self.settler, self.clock, queue, (vec![settle], true)));
            return;
        }
        let Some(entry) = self.queues.get_mut(queue) else { return };
        entry.waiting.push_back(settle);
        if entry.settling {
            return;
        }
        if entry.waiting.len() == 1 {
            self.batches.queues.push(queue);
        }
        self.batches.due_at(entry.settle_at(self.clock.now()));
    }

    /// Sends the batches that are due.
    pub(super) fn send_settlements(&mut self) {
        let now = self.clock.now();
        if self.batches.due.is_none_or(|due| due > now) {
            return;
        }
        let Batches { mut queues, .. } = mem::take(&mut self.batches);
        queues.retain(|queue| match self.send_batch(*queue, now) {
            Some(later) => {
                self.batches.due_at(later);
                true
            }
            None => false,
        });
        self.batches.queues = queues;
    }

    /// Sends what waits for one queue; where it is too early it answers when it is not.
    fn send_batch(&mut self, queue: QueueId, now: Moment) -> Option<Moment> {
        let entry =
            self.queues.get_mut(queue).filter(|entry| !entry.settling && !entry.waiting.is_empty())?;
        let at = entry.settle_at(now);
        if at > now {
            return Some(at);
        }
        (entry.settling, entry.settle_from) = (true, now + GATHER);
        let batch: Vec<_> = entry.waiting.drain(..).collect();
        self.settling.push(work::settle(&self.settler, self.clock, queue, (batch, false)));
        None
    }

    /// The broker has answered a commit or a batch.
    pub(super) fn settled(&mut self, done: SettlingDone, keeper: &mut B::Keeper) {
        match done {
            SettlingDone::Commit { queue, epoch, position, result } => {
                match &result {
                    Ok(()) => {
                        if let Some(entry) = self.queues.owned_mut(queue, epoch) {
                            entry.cursor = position;
                            entry.end = entry.end.map(|end| end.max(position));
                        }
                    }
                    Err(error) => warn!(queue = self.queues.name(queue), %position, %error, "commit failed"),
                }
                let result = result.map_err(|error| work::failure(&error));
                self.metrics.commits.get_or_create(&label(result)).inc();
                self.feed(Input::Committed { queue, epoch, position, result }, keeper);
            }
            SettlingDone::Settle { queue, settled, alone } => {
                self.batch_done(queue, settled.len(), alone);
                for work::Settled { epoch, delivery, result, error } in settled {
                    let position = delivery.position;
                    if let Some(error) = error {
                        warn!(queue = self.queues.name(queue), %position, %error, "settlement failed");
                    }
                    match result {
                        Ok(()) => self.settled_counter.inc(),
                        failed @ Err(_) => self.metrics.settlements.get_or_create(&label(failed)).inc(),
                    };
                    self.current = Some(delivery);
                    self.feed(Input::Settled { queue, epoch, position, result }, keeper);
                    self.current = None;
                }
            }
        }
    }

    fn batch_done(&mut self, queue: QueueId, settled: usize, alone: bool) {
        let Some(entry) = self.queues.get_mut(queue) else { return };
        entry.open = entry.open.saturating_sub(settled);
        if alone {
            return;
        }
        entry.settling = false;
        if !entry.waiting.is_empty() {
            self.batches.queues.push(queue);
            self.batches.due_at(entry.settle_at(self.clock.now()));
        }
    }
}

impl Queue {
    /// When what waits is to be sent: at once where there is enough, or nothing else to gather.
    fn settle_at(&self, now: Moment) -> Moment {
        if self.waiting.len() >= ENOUGH.min(self.open) { now } else { self.settle_from }
    }
}

pub(super) fn label(result: Result<(), lockstep_core::Failure>) -> ResultLabel {
    use lockstep_core::Failure;
    let result = match result {
        Ok(()) => OperationResult::Ok,
        Err(Failure::NotDone) => OperationResult::NotDone,
        Err(Failure::Unknown) => OperationResult::Unknown,
        Err(Failure::Permanent) => OperationResult::Permanent,
    };
    ResultLabel { result }
}
