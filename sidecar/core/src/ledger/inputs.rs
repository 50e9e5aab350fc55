//! What goes in.

use std::collections::BTreeMap;

use lockstep_model::{Epoch, Identity, Moment, Position, QueueId};

use super::{Charge, Ledger, Owned, Record};
use crate::{
    AttemptId, AttemptResult, DataLossPolicy, FetchId, Incoming, Input, Settlement, TransportFailure,
    lane::LaneKey,
    verdict::{Verdict, judge},
};

impl Ledger {
    pub(crate) fn input<P>(&mut self, input: &Input<P>) {
        match input {
            Input::QueueAcquired { queue, epoch, .. } => {
                if self.owned.get(queue).is_none_or(|owned| owned.epoch < *epoch) {
                    self.over(*queue, None);
                }
            }
            Input::LeaseRenewed { queue, epoch, deadline } => {
                if let Some(owned) = self.current(*queue, *epoch) {
                    owned.deadline = *deadline;
                    owned.doubtful = false;
                }
            }
            Input::LeaseDoubtful { queue, epoch } => {
                if let Some(owned) = self.current(*queue, *epoch) {
                    owned.doubtful = true;
                }
            }
            Input::QueueRevoking { queue, epoch, .. } => {
                if let Some(owned) = self.current(*queue, *epoch) {
                    owned.leaving = true;
                }
            }
            Input::RevocationCancelled { queue, epoch } => {
                if let Some(owned) = self.current(*queue, *epoch) {
                    owned.leaving = false;
                }
            }
            Input::QueueLost { queue, epoch } | Input::Released { queue, epoch } => {
                self.over(*queue, Some(*epoch));
            }
            Input::Fetched { queue, epoch, fetch, deliveries, next } => {
                self.fetched(*queue, *epoch, *fetch, deliveries, *next);
            }
            Input::FetchFailed { queue, epoch, fetch } => {
                if let Some(owned) = self.current(*queue, *epoch) {
                    owned.asked = owned.asked.filter(|asked| asked.0 != *fetch);
                }
            }
            Input::PositionMoved { queue, epoch, reset, .. } => self.position_moved(*queue, *epoch, *reset),
            Input::AttemptEnded { attempt, results } => self.attempt_ended(*attempt, results),
            Input::Settled { queue, epoch, position, result } => {
                self.settled(*queue, *epoch, *position, result.is_ok());
            }
            Input::Committed { queue, epoch, position, result } => {
                if let Some(owned) = self.current(*queue, *epoch)
                    && owned.committing.take_if(|sent| sent == position).is_some()
                    && result.is_ok()
                {
                    // Records of deliveries that are still held stay.
                    owned.records.retain(|at, record| at >= position || record.held);
                }
            }
            Input::Reconfigured(config) => {
                self.config = (**config).clone();
                for owned in self.owned.values_mut() {
                    owned.records.values_mut().for_each(|record| record.blocked = true);
                }
            }
            Input::DrainRequested { deadline } => {
                self.drain = Some(self.drain.map_or(*deadline, |earlier| earlier.min(*deadline)));
            }
            Input::Left
            | Input::HealthChanged { .. }
            | Input::DispatchHeld(_)
            | Input::ByHand { .. }
            | Input::AttemptsRestored { .. }
            | Input::StormRestored { .. }
            | Input::Tick => {}
        }
    }

    /// The engine took an acquired queue, after it let go of an older ownership.
    pub(crate) fn acquired(
        &mut self,
        queue: QueueId,
        epoch: Epoch,
        deadline: Option<Moment>,
        cursor: Position,
    ) {
        let owned = Owned {
            epoch,
            deadline,
            doubtful: false,
            leaving: false,
            given_up: false,
            released: false,
            stopped: false,
            next: cursor,
            asked: None,
            committing: None,
            records: BTreeMap::new(),
        };
        self.owned.insert(queue, owned);
    }

    /// The engine gives a queue back of its own accord.
    pub(crate) fn leaving(&mut self, queue: QueueId) {
        if let Some(owned) = self.owned.get_mut(&queue) {
            owned.given_up = true;
        }
    }

    fn current(&mut self, queue: QueueId, epoch: Epoch) -> Option<&mut Owned> {
        self.owned.get_mut(&queue).filter(|owned| owned.epoch == epoch)
    }

    fn settled(&mut self, queue: QueueId, epoch: Epoch, position: Position, ok: bool) {
        let Some(owned) = self.current(queue, epoch) else { return };
        let Some(record) = owned.records.get_mut(&position) else { return };
        let sent = record.sent.take();
        record.dead |= sent == Some(Settlement::DeadLetter) && ok;
        if sent.is_some() && !record.dead && ok {
            owned.records.remove(&position);
        }
    }

    /// An ownership is over; nothing of it counts any more.
    fn over(&mut self, queue: QueueId, epoch: Option<Epoch>) {
        for attempt in self.attempts.values_mut() {
            if attempt.queue == queue && epoch.is_none_or(|epoch| epoch == attempt.epoch) {
                attempt.valid = false;
            }
        }
        if let Some(owned) = self.owned.get_mut(&queue).filter(|o| epoch.is_none_or(|e| e == o.epoch)) {
            owned.released = true;
        }
    }

    fn fetched<P>(
        &mut self,
        queue: QueueId,
        epoch: Epoch,
        fetch: FetchId,
        deliveries: &[Incoming<P>],
        next: Position,
    ) {
        let mode = self.config.mode;
        let Some(owned) = self.current(queue, epoch) else { return };
        let Some((_, from)) = owned.asked.take_if(|asked| asked.0 == fetch) else { return };
        let mut at = from;
        for incoming in deliveries {
            if incoming.position < at {
                continue;
            }
            owned
                .records
                .retain(|p, record| !(at..incoming.position).contains(p) || record.held || record.ended);
            at = incoming.position.next();
            let Incoming { position, bytes, key, identity, redeliveries, .. } = incoming;
            if *position < owned.next && !owned.records.contains_key(position) {
                continue;
            }
            owned.records.entry(*position).or_insert_with(|| Record {
                lane: LaneKey::of(mode, *key, *position),
                bytes: *bytes,
                identity: identity.clone(),
                redelivered: *redeliveries > 0,
                held: false,
                started: false,
                number: None,
                charge: Charge::Either,
                done: false,
                dead: false,
                skipped: false,
                blocked: false,
                ended: false,
                sent: None,
                settled: false,
            });
        }
        let end = at.max(next);
        owned.records.retain(|p, record| !(at..end).contains(p) || record.held || record.ended);
        owned.next = owned.next.max(end);
    }

    fn position_moved(&mut self, queue: QueueId, epoch: Epoch, reset: bool) {
        let stop = !reset && self.config.on_data_loss == DataLossPolicy::Stop;
        let Some(owned) = self.current(queue, epoch) else { return };
        owned.stopped = stop;
        for attempt in self.attempts.values_mut() {
            if attempt.queue == queue {
                attempt.valid = false;
            }
        }
    }

    fn attempt_ended(&mut self, id: AttemptId, results: &[AttemptResult]) {
        let Some(attempt) = self.attempts.remove(&id) else { return };
        if self.busy.get(&(attempt.queue, attempt.lane)) == Some(&id) {
            self.busy.remove(&(attempt.queue, attempt.lane));
        }
        let Some(result) = results.first().filter(|_| attempt.valid) else { return };
        let verdict = judge(result, &self.config.status_codes);
        let Some(owned) = self.owned.get_mut(&attempt.queue).filter(|owned| owned.epoch == attempt.epoch)
        else {
            return;
        };
        let Some(record) = owned.records.get_mut(&attempt.position) else { return };
        record.charge = match (verdict, result) {
            (_, AttemptResult::Failed(TransportFailure::Unreachable | TransportFailure::Cancelled)) => {
                Charge::Free
            }
            (_, AttemptResult::Failed(TransportFailure::TimedOut | TransportFailure::Broken)) => {
                Charge::Spent
            }
            (Verdict::Pause(_) | Verdict::Snooze(_) | Verdict::Misconfigured, _) => Charge::Either,
            (_, AttemptResult::Answered(_)) => Charge::Spent,
        };
        if verdict == Verdict::Done {
            record.done = true;
            if matches!(record.identity, Identity::Unique(_)) {
                self.done.insert((attempt.queue, record.identity.clone()), ());
            }
        }
    }
}
