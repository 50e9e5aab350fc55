//! What comes out, judged.

use std::collections::BTreeSet;

use lockstep_model::{Epoch, Moment, Position, QueueId, Settlement as Settling};

use super::{Ledger, Owned};
use crate::{
    FetchId, OrderingMode, Settlement,
    invariants::Invariant,
    limits::{LEASE_RESERVE, UNCONFIRMED_MOST},
};

/// Beyond so many records of a queue the check of I10 is left out: it looks at each of them.
const LOOK_AT_MOST: usize = 512;

/// What the check at the end of a step has to know of the engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gates {
    /// Nothing that concerns all lanes forbids an attempt, and the limit is not reached.
    pub(crate) open: bool,
    /// The group is joined, so that owned queues are fetched.
    pub(crate) member: bool,
    /// Dispatch is held.
    pub(crate) dispatch_held: bool,
}

impl Ledger {
    pub(crate) fn time(&mut self, now: Moment) {
        self.now = now;
    }

    pub(super) fn check_reserve(&mut self, queue: QueueId) {
        let deadline = self.owned.get(&queue).and_then(|owned| owned.deadline);
        if deadline.is_some_and(|deadline| self.now + LEASE_RESERVE > deadline) {
            self.broken(Invariant::I9, format!("{queue:?} is attempted in the reserve"));
        }
    }

    pub(super) fn fetch(&mut self, queue: QueueId, fetch: FetchId, from: Position, count: u32) {
        if self.drain.is_some() {
            self.broken(Invariant::I8, format!("{queue:?} is fetched while draining"));
        }
        let queues = self.owned.values().filter(|owned| !owned.released).count().max(1);
        let share = (self.config.buffer_count as usize / queues).max(1);
        let share_bytes = (self.config.buffer_bytes / queues).max(1);
        let span = self.config.span.max(1) as usize;
        if self.live(queue, "fetched").is_none() {
            return;
        }
        let Some(owned) = self.owned.get_mut(&queue) else { return };
        owned.asked = Some((fetch, from));
        let again = from < owned.next;
        let held = owned.records.values().filter(|record| record.held);
        let (buffered, bytes) = held.fold((0, 0), |(count, bytes), record| {
            (count + usize::from(!record.started), bytes + record.bytes)
        });
        let full = buffered + count as usize > share || (bytes >= share_bytes && bytes > 0);
        let fetched = owned.records.values().filter(|record| record.held || record.ended);
        let spread = fetched.count() >= span && !again;
        if full || spread {
            self.broken(Invariant::I5, format!("{queue:?} asks for {count} beyond {buffered} of {share}"));
        }
    }

    pub(super) fn settle(
        &mut self,
        queue: QueueId,
        epoch: Epoch,
        position: Position,
        settlement: Settlement,
    ) {
        if self.live(queue, "settled").is_some_and(|live| live != epoch) {
            self.broken(Invariant::I4, format!("{queue:?} is settled under an old epoch"));
            return;
        }
        let Some(record) = self.owned.get_mut(&queue).and_then(|owned| owned.records.get_mut(&position))
        else {
            return;
        };
        let twice = record.sent.replace(settlement).is_some() || record.dead;
        record.settled = true;
        let unsafe_accept = settlement == Settlement::Accept && !record.is_final();
        if twice {
            self.broken(Invariant::I6, format!("{position:?} is settled twice"));
        }
        if unsafe_accept {
            self.broken(Invariant::I2, format!("{position:?} is accepted without a 2xx"));
        }
    }

    pub(super) fn commit(&mut self, queue: QueueId, epoch: Epoch, position: Position) {
        if self.live(queue, "committed").is_some_and(|live| live != epoch) {
            self.broken(Invariant::I4, format!("{queue:?} is committed under an old epoch"));
            return;
        }
        let Some(owned) = self.owned.get_mut(&queue) else { return };
        owned.committing = Some(position);
        let passed = owned.records.range(..position).find(|(_, record)| !record.is_final()).map(|(p, _)| *p);
        // A success taken for granted is I2, a delivery left out is I3.
        let held = passed.and_then(|at| owned.records.get(&at)).is_some_and(|record| !record.ended);
        let beyond = position > owned.next;
        if let Some(at) = passed {
            let invariant = if held { Invariant::I3 } else { Invariant::I2 };
            self.broken(invariant, format!("the commit of {position:?} passes {at:?}"));
        } else if beyond {
            self.broken(Invariant::I3, format!("the commit of {position:?} passes what was never read"));
        }
    }

    /// At the end of a step.
    pub(crate) fn check(&mut self, gates: Gates, timed: impl Fn(QueueId) -> bool) {
        if self.drain.is_some_and(|deadline| self.now >= deadline) && !self.finished {
            self.broken(Invariant::I8, "the drain outlives its deadline".to_owned());
        }
        let late = self.attempts.iter().find(|(_, attempt)| {
            let owned = self.owned.get(&attempt.queue).filter(|owned| owned.epoch == attempt.epoch);
            let over = owned.and_then(|owned| owned.deadline).is_some_and(|deadline| self.now >= deadline);
            over && !attempt.cancelled && attempt.valid
        });
        if let Some(attempt) = late.map(|(id, _)| *id) {
            self.broken(Invariant::I9, format!("{attempt:?} outlives its lease"));
        }
        if !gates.member || self.drain.is_some() || self.finished {
            return;
        }
        self.check_share(timed);
        if gates.open && !gates.dispatch_held {
            self.check_independence();
        }
    }

    /// A fresh head of a free lane is started as soon as nothing general forbids it.
    fn check_independence(&mut self) {
        let mut idle = None;
        for (queue, owned) in &self.owned {
            let reserve = owned.deadline.is_some_and(|deadline| self.now + LEASE_RESERVE >= deadline);
            if owned.doubtful || owned.leaving || owned.given_up || owned.released || owned.stopped || reserve
            {
                continue;
            }
            if owned.records.len() > LOOK_AT_MOST || self.is_full(owned) {
                continue;
            }
            let mut lanes = BTreeSet::new();
            for (position, record) in owned.records.iter().filter(|(_, record)| record.held) {
                let head = lanes.insert(record.lane);
                let fresh = record.number.is_none() && !record.blocked && !record.settled;
                if head && fresh && !self.busy.contains_key(&(*queue, record.lane)) {
                    idle = Some((*queue, *position));
                }
            }
        }
        if let Some((queue, position)) = idle {
            self.broken(Invariant::I10, format!("{position:?} of {queue:?} waits for another lane"));
        }
    }

    /// Whether unconfirmed deliveries hold a `PerQueue` lane.
    fn is_full(&self, owned: &Owned) -> bool {
        let unconfirmed = owned.records.values().filter(|record| record.ended).count();
        self.config.mode == OrderingMode::PerQueue && unconfirmed as u64 >= UNCONFIRMED_MOST
    }

    /// Each owned queue has at least one delivery, a fetch, or a moment for one.
    fn check_share(&mut self, timed: impl Fn(QueueId) -> bool) {
        let starved = self.owned.iter().find(|(queue, owned)| {
            let takes =
                !(owned.doubtful || owned.leaving || owned.given_up || owned.released || owned.stopped);
            let empty = match self.config.capabilities.settlement {
                Settling::Cumulative => {
                    let spread = owned.records.len() >= self.config.span.max(1) as usize;
                    !spread && !owned.records.values().any(|record| record.held)
                }
                Settling::PerDelivery => owned.records.is_empty(),
            };
            takes && empty && owned.asked.is_none() && !timed(**queue)
        });
        if let Some(queue) = starved.map(|(queue, _)| *queue) {
            self.broken(Invariant::I5, format!("{queue:?} has no share of the buffer"));
        }
    }
}
