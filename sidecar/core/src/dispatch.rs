//! What may be attempted, and in which turn.

use lockstep_model::{Moment, Position, QueueId, Settlement as Settling};

use crate::{
    AttemptId, Engine, OrderingMode, Output,
    engine::Running,
    lane::{Lane, LaneKey, LaneState},
    limits::{LEASE_RESERVE, UNCONFIRMED_MOST},
    queue::{Phase, Queue},
    sabotage::Sabotage,
};

/// Beyond every position.
const LAST: Position = Position(u64::MAX);

impl<P: Clone> Engine<P> {
    /// Whether nothing that concerns all lanes forbids an attempt.
    pub(crate) fn gates_open(&self) -> bool {
        self.group.is_healthy()
            && self.pause.is_none()
            && self.config.quiet_until.is_none_or(|until| self.now >= until)
            && self.breaker.admits(self.now)
    }

    /// Starts attempts until a gate, the limit or the lack of ready heads ends it.
    pub(crate) fn dispatch(&mut self) {
        while self.gates_open() && self.running.len() < self.limit.get() as usize {
            let Some((_, queue)) = self.line.first().copied() else { break };
            let Some((position, lane)) = self.startable(queue) else {
                self.leave_line(queue);
                continue;
            };
            self.start(queue, position, lane);
            // To the end of the line, so that queues take turns.
            self.leave_line(queue);
            self.line_up(queue);
            self.dirty.insert(queue);
        }
    }

    /// Puts a queue into the line, or takes it out, by whether it has something to start.
    pub(crate) fn line_up(&mut self, id: QueueId) {
        if self.startable(id).is_none() {
            self.leave_line(id);
            return;
        }
        let ticket = self.tickets;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if queue.ticket.is_none() {
            queue.ticket = Some(ticket);
            self.tickets = self.tickets.wrapping_add(1);
            self.line.insert((ticket, id));
        }
    }

    pub(crate) fn leave_line(&mut self, id: QueueId) {
        if let Some(ticket) = self.queues.get_mut(&id).and_then(|queue| queue.ticket.take()) {
            self.line.remove(&(ticket, id));
        }
    }

    /// The queue's next head to attempt, if its own state allows it.
    pub(crate) fn startable(&self, id: QueueId) -> Option<(Position, LaneKey)> {
        let queue = self.queues.get(&id)?;
        let restricted = match queue.phase {
            Phase::Owned => self.dispatch_held || self.drain.is_some(),
            Phase::Releasing { .. } => true,
            Phase::Released => return None,
        };
        if restricted {
            return self.hole(id);
        }
        if self.sabotaged(Sabotage::I10) && queue.lanes.values().any(Lane::is_blocked) {
            return None;
        }
        if !self.open(queue) {
            return None;
        }
        let probed = queue.probed.filter(|_| self.breaker.is_open());
        let after = probed.and_then(|last| queue.ready.range((last.next(), LaneKey::Whole)..).next());
        after.or_else(|| queue.ready.first()).copied()
    }

    /// The queue's next buffered delivery that closes the prefix below what was started already: all that is attempted
    /// of a queue that is on its way out.
    ///
    /// Whoever waits, is held or is unread is left to the next owner, and then so is what is behind it: starting that
    /// would only repeat it there.
    pub(crate) fn hole(&self, id: QueueId) -> Option<(Position, LaneKey)> {
        let queue = self.queues.get(&id)?;
        if self.config.mode == OrderingMode::PerQueue
            || self.config.capabilities.settlement != Settling::Cumulative
            || !self.open(queue)
        {
            return None;
        }
        let end = queue
            .highest_started
            .min(queue.fetch.unread.first_key_value().map(|(p, _)| *p).or(Some(LAST)))?;
        for (position, key) in queue.pending.range(..end) {
            let lane = queue.lanes.get(key)?;
            let is_head = lane.waiting.front().is_some_and(|held| held.position == *position);
            match lane.state {
                LaneState::Running(_) => {}
                LaneState::Ready if is_head && !lane.head.started => {
                    let candidate = (*position, *key);
                    // An orphan may still keep the lane.
                    return queue.ready.contains(&candidate).then_some(candidate);
                }
                LaneState::Idle
                | LaneState::Ready
                | LaneState::Waiting(_)
                | LaneState::Settling
                | LaneState::Stuck => return None,
            }
        }
        None
    }

    fn open(&self, queue: &Queue<P>) -> bool {
        queue.phase != Phase::Released
            && !queue.doubtful
            && queue.stopped.is_none()
            && self.before_reserve(queue.deadline)
            && (self.config.mode != OrderingMode::PerQueue
                || self.config.capabilities.settlement != Settling::Cumulative
                || queue.unconfirmed() < UNCONFIRMED_MOST)
    }

    /// Whether the reserve before a lease's end has not begun.
    pub(crate) fn before_reserve(&self, deadline: Option<Moment>) -> bool {
        self.sabotaged(Sabotage::I9) || not_after(deadline).is_none_or(|last| self.now < last)
    }

    /// Makes a lane's head eligible, unless an orphan still keeps the lane.
    pub(crate) fn make_ready(&mut self, id: QueueId, key: LaneKey) {
        let kept = self.orphans.contains_key(&(id, key)) && !self.sabotaged(Sabotage::I1);
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let Some(lane) = queue.lanes.get_mut(&key) else { return };
        let Some(head) = lane.waiting.front() else { return };
        lane.state = LaneState::Ready;
        if !kept {
            queue.ready.insert((head.position, key));
        }
        queue.weigh(key);
        self.dirty.insert(id);
    }

    fn start(&mut self, id: QueueId, position: Position, key: LaneKey) {
        self.attempts = self.attempts.saturating_add(1);
        let attempt = AttemptId(self.attempts);
        let timeout = self.config.timeout;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.ready.remove(&(position, key));
        let Some(lane) = queue.lanes.get_mut(&key) else { return };
        let Some(held) = lane.waiting.front() else { return };
        lane.state = LaneState::Running(attempt);
        let number = lane.head.attempts.saturating_add(1);
        let payload = held.payload.clone();
        if !std::mem::replace(&mut lane.head.started, true) {
            queue.buffered = queue.buffered.saturating_sub(1);
        }
        queue.running = queue.running.saturating_add(1);
        queue.highest_started = queue.highest_started.max(Some(position));
        queue.probed = Some(position);
        let output = Output::Attempt {
            attempt,
            queue: id,
            epoch: queue.epoch,
            deliveries: vec![payload],
            number,
            not_after: not_after(queue.deadline),
            lease_deadline: queue.deadline,
            timeout,
        };
        queue.weigh(key);
        self.running
            .insert(attempt, Running { queue: id, lane: key, position, orphan: false, cancelled: false });
        self.breaker.started(attempt);
        self.record(|ledger, _| ledger.attempt(attempt, id, position, number));
        self.emit(output);
    }
}

/// The last moment at which something of a lease with that deadline may begin.
pub(crate) fn not_after(deadline: Option<Moment>) -> Option<Moment> {
    deadline.map(|deadline| deadline.before(LEASE_RESERVE))
}
