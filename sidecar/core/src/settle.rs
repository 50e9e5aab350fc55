//! Settlements of single deliveries: sent once, repeated until the broker confirms.

use std::time::Duration;

use lockstep_model::{Epoch, Identity, Position, QueueId};

use crate::{
    Engine, Event, Failure, Hold, Output, Settlement,
    backoff::doubled,
    dispatch::not_after,
    lane::LaneKey,
    limits::{REPEAT_FIRST, REPEAT_LONGEST, REPEAT_PERMANENT},
    queue::{Phase, Settling},
    sabotage::Sabotage,
    timers::TimerKey,
};

impl<P: Clone> Engine<P> {
    #[expect(clippy::too_many_arguments, reason = "one record's fields, used in three places")]
    pub(crate) fn settle(
        &mut self,
        id: QueueId,
        position: Position,
        payload: P,
        identity: Identity,
        settlement: Settlement,
        attempts: u32,
        lane: Option<LaneKey>,
        by_hand: bool,
    ) {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if lane.is_none() {
            queue.accepting = queue.accepting.saturating_add(1);
        }
        let settling = Settling {
            payload,
            identity,
            settlement,
            attempts,
            by_hand,
            lane,
            sent: false,
            failures: 0,
            not_before: now,
        };
        queue.settling.insert(position, settling);
        self.send_settlement(id, position);
    }

    /// Sends one settlement unless it is under way, not due, or the lease forbids it.
    fn send_settlement(&mut self, id: QueueId, position: Position) {
        let now = self.now;
        let Some(queue) = self.queues.get(&id) else { return };
        if queue.doubtful || queue.phase == Phase::Released || !self.before_reserve(queue.deadline) {
            return;
        }
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let (epoch, deadline) = (queue.epoch, queue.deadline);
        let Some(settling) = queue.settling.get_mut(&position) else { return };
        if settling.sent || now < settling.not_before {
            return;
        }
        settling.sent = true;
        let output = Output::Settle {
            queue: id,
            epoch,
            position,
            payload: settling.payload.clone(),
            settlement: settling.settlement,
            attempts: settling.attempts,
            not_after: not_after(deadline),
        };
        if self.sabotaged(Sabotage::I6) {
            self.emit(output.clone());
        }
        self.emit(output);
    }

    pub(crate) fn settle_again(&mut self, id: QueueId, position: Position) {
        self.send_settlement(id, position);
        self.dirty.insert(id);
    }

    /// Sends whatever a doubtful or ending lease held back.
    pub(crate) fn resume_settlements(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else { return };
        let positions: Vec<_> = queue.settling.iter().filter(|(_, s)| !s.sent).map(|(p, _)| *p).collect();
        for position in positions {
            self.send_settlement(id, position);
        }
    }

    /// Takes back a dead letter that waits to be repeated. False when it is on its way.
    pub(crate) fn withdraw(&mut self, id: QueueId, position: Position) -> bool {
        let Some(queue) = self.queues.get_mut(&id) else { return false };
        if queue.settling.get(&position).is_none_or(|settling| settling.sent) {
            return false;
        }
        queue.settling.remove(&position);
        self.timers.clear(TimerKey::Settle(id, position));
        true
    }

    pub(crate) fn settled(
        &mut self,
        id: QueueId,
        epoch: Epoch,
        position: Position,
        result: Result<(), Failure>,
    ) {
        let Some(queue) = self.current(id, epoch, "settled") else { return };
        if queue.settling.get(&position).is_none_or(|settling| !settling.sent) {
            self.stale(Some(id), "settled");
            return;
        }
        self.dirty.insert(id);
        match result {
            Ok(()) => self.confirmed(id, position),
            Err(failure) => self.unsettled(id, position, failure),
        }
    }

    fn confirmed(&mut self, id: QueueId, position: Position) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let Some(settling) = queue.settling.remove(&position) else { return };
        if let Some(key) = settling.lane {
            self.event(Event::DeadLettered { queue: id, position, by_hand: settling.by_hand });
            self.end_head(id, key, false);
            self.arm(id, key);
            return;
        }
        queue.accepting = queue.accepting.saturating_sub(1);
        self.known.remove(id, &settling.identity);
    }

    fn unsettled(&mut self, id: QueueId, position: Position, failure: Failure) {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let Some(settling) = queue.settling.get_mut(&position) else { return };
        settling.sent = false;
        settling.failures = settling.failures.saturating_add(1);
        let ceiling = repeat_ceiling(settling.failures, failure);
        let at = now + self.jitter.half(ceiling);
        settling.not_before = at;
        let lane = settling.lane;
        self.timers.set(TimerKey::Settle(id, position), at);
        if let Some(key) = lane.filter(|_| failure != Failure::Unknown) {
            self.hold(id, key, Hold::DeadLetterFailed);
        }
    }
}

/// The most to wait after so many failures in a row.
pub(crate) fn repeat_ceiling(failures: u32, failure: Failure) -> Duration {
    match failure {
        Failure::NotDone | Failure::Unknown => {
            doubled(REPEAT_FIRST, failures.saturating_sub(1), REPEAT_LONGEST)
        }
        Failure::Permanent => REPEAT_PERMANENT,
    }
}
