//! How a head comes to be, waits, is held, and ends.

use std::time::Duration;

use lockstep_model::{DeadLetterBy, Identity, Position, QueueId, Settlement as Settling};

use crate::{
    ByHand, Engine, Event, Hold, Output, Settlement, UndecodablePolicy, WhenExhausted,
    lane::{Head, LaneKey, LaneState, Why},
    limits::SPENT_MOST,
    storm::Admission,
    timers::TimerKey,
};

/// How a message leaves without a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    DeadLetter,
    Skip,
}

impl From<ByHand> for Exit {
    fn from(action: ByHand) -> Self {
        match action {
            ByHand::Skip => Self::Skip,
            ByHand::DeadLetter => Self::DeadLetter,
        }
    }
}

impl<P: Clone> Engine<P> {
    /// Looks at a lane's new head: undecodable, known, exhausted before, or ready.
    pub(crate) fn arm(&mut self, id: QueueId, key: LaneKey) {
        loop {
            let now = self.now;
            let Some(queue) = self.queues.get_mut(&id) else { return };
            let Some(lane) = queue.lanes.get_mut(&key) else { return };
            if lane.state != LaneState::Idle {
                return;
            }
            let Some(held) = lane.waiting.front() else {
                if lane.unread.is_empty() {
                    queue.lanes.remove(&key);
                } else {
                    queue.fetch.wanted.extend(lane.unread.iter().copied());
                }
                queue.weigh(key);
                self.dirty.insert(id);
                return;
            };
            lane.head = Head { since: now, ..Head::default() };
            let position = held.position;
            let (undecodable, redelivered) = (held.undecodable, held.redelivered);
            if !self.spent.is_empty()
                && let Some(attempts) = self.spent.get(&(id, held.identity.clone()))
            {
                lane.head.attempts = *attempts;
                lane.head.tries = *attempts;
            }
            let attempts = lane.head.attempts;
            if undecodable {
                self.undecodable(id, key);
                return;
            }
            if redelivered && self.is_known(id, key) {
                self.event(Event::Suppressed { queue: id, position });
                self.end_head(id, key, true);
                continue;
            }
            if self.config.max_attempts > 0 && attempts >= self.config.max_attempts {
                self.exhausted_before(id, key);
            } else {
                self.make_ready(id, key);
            }
            return;
        }
    }

    /// The attempts were spent in an earlier life or ownership.
    fn exhausted_before(&mut self, id: QueueId, key: LaneKey) {
        if self.config.when_exhausted == WhenExhausted::Block {
            // Whoever restarts a container hopes for a new try now.
            self.hold(id, key, Hold::Exhausted);
            self.make_ready(id, key);
        } else {
            self.exhausted(id, key, Hold::Exhausted);
        }
    }

    pub(crate) fn undecodable(&mut self, id: QueueId, key: LaneKey) {
        match self.config.undecodable {
            UndecodablePolicy::DeadLetter if self.can_dead_letter() => {
                self.exit(id, key, Exit::DeadLetter, false);
            }
            UndecodablePolicy::DeadLetter | UndecodablePolicy::Block => {
                self.set_state(id, key, LaneState::Stuck);
                self.hold(id, key, Hold::Undecodable);
            }
        }
    }

    /// The head waits so long.
    pub(crate) fn wait(&mut self, id: QueueId, key: LaneKey, why: Why, after: Duration) {
        self.set_state(id, key, LaneState::Waiting(why));
        match why {
            Why::Unreachable => self.unreachable.insert((id, key)),
            Why::Misconfigured => self.misconfigured.insert((id, key)),
            Why::Storm => self.stormy.insert((id, key)),
            Why::Later | Why::Blocked => false,
        };
        self.timers.set(TimerKey::Lane(id, key), self.now + after);
    }

    /// Attempts are spent, or the message can never succeed.
    pub(crate) fn exhausted(&mut self, id: QueueId, key: LaneKey, hold: Hold) {
        match self.config.when_exhausted {
            WhenExhausted::Block => self.block(id, key, hold),
            WhenExhausted::DeadLetter => self.leave(id, key, Exit::DeadLetter, hold),
            WhenExhausted::Skip => self.leave(id, key, Exit::Skip, hold),
        }
    }

    /// The message leaves, unless a storm is assumed or there is no dead-letter queue.
    pub(crate) fn leave(&mut self, id: QueueId, key: LaneKey, exit: Exit, hold: Hold) {
        if exit == Exit::DeadLetter && !self.can_dead_letter() {
            self.block(id, key, hold);
            return;
        }
        let Some(identity) = self.head_identity(id, key) else { return };
        match self.storm.admit(self.config.storm, id, identity) {
            Admission::Admitted => {
                self.emit(Output::SaveStorm { in_row: self.storm.in_row() });
                self.exit(id, key, exit, false);
            }
            Admission::Refused { opened } => {
                if opened {
                    self.event(Event::Storm { open: true });
                }
                self.hold(id, key, Hold::DeadLetterStorm);
                self.wait(id, key, Why::Storm, self.config.backoff.longest());
            }
        }
    }

    /// `Block`: tried on at the longest delay, so that a repaired application unblocks itself.
    fn block(&mut self, id: QueueId, key: LaneKey, hold: Hold) {
        self.hold(id, key, hold);
        self.wait(id, key, Why::Blocked, self.config.backoff.longest());
    }

    /// Reports a head as blocked, once for each reason.
    pub(crate) fn hold(&mut self, id: QueueId, key: LaneKey, hold: Hold) {
        let Some(lane) = self.queues.get_mut(&id).and_then(|queue| queue.lanes.get_mut(&key)) else { return };
        let Some(position) = lane.waiting.front().map(|held| held.position) else { return };
        if lane.head.hold.replace(hold) == Some(hold) {
            return;
        }
        let attempts = lane.head.attempts;
        self.event(Event::Blocked { queue: id, position, hold, attempts });
    }

    /// Ends the head without a success.
    pub(crate) fn exit(&mut self, id: QueueId, key: LaneKey, exit: Exit, by_hand: bool) {
        match exit {
            Exit::DeadLetter => self.dead_letter(id, key, by_hand),
            Exit::Skip => {
                let Some(position) = self.head_position(id, key) else { return };
                self.event(Event::Skipped { queue: id, position, by_hand });
                self.end_head(id, key, true);
                self.arm(id, key);
            }
        }
    }

    fn dead_letter(&mut self, id: QueueId, key: LaneKey, by_hand: bool) {
        self.set_state(id, key, LaneState::Settling);
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let Some(lane) = queue.lanes.get(&key) else { return };
        let Some(held) = lane.waiting.front() else { return };
        let (position, payload, identity) = (held.position, held.payload.clone(), held.identity.clone());
        let attempts = lane.head.attempts;
        self.settle(id, position, payload, identity, Settlement::DeadLetter, attempts, Some(key), by_hand);
    }

    /// Takes the head out of its lane with a final verdict; `settle` where the broker wants to hear of each delivery.
    pub(crate) fn end_head(&mut self, id: QueueId, key: LaneKey, settle: bool) {
        self.set_state(id, key, LaneState::Idle);
        let cumulative = self.config.capabilities.settlement == Settling::Cumulative;
        let now = self.now;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let Some(lane) = queue.lanes.get_mut(&key) else { return };
        let Some(held) = lane.waiting.pop_front() else { return };
        let head = std::mem::take(&mut lane.head);
        queue.pending.remove(&held.position);
        queue.bytes = queue.bytes.saturating_sub(held.bytes);
        if !head.started {
            queue.buffered = queue.buffered.saturating_sub(1);
        }
        queue.weigh(key);
        if cumulative {
            queue.cursor.finish(held.position, held.identity.clone());
            queue.commit.since.get_or_insert(now);
        }
        self.dirty.insert(id);
        self.record(|ledger, _| ledger.ended(id, held.position));
        if head.attempts > 0 {
            self.save_attempts(id, held.identity.clone(), 0);
        }
        if head.hold.is_some() {
            self.event(Event::Unblocked { queue: id, position: held.position });
        }
        if !cumulative && settle {
            self.settle(
                id,
                held.position,
                held.payload,
                held.identity,
                Settlement::Accept,
                head.attempts,
                None,
                false,
            );
        }
    }

    /// Changes a lane's state and whatever stood for the old one.
    pub(crate) fn set_state(&mut self, id: QueueId, key: LaneKey, state: LaneState) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let Some(lane) = queue.lanes.get_mut(&key) else { return };
        let old = std::mem::replace(&mut lane.state, state);
        match old {
            LaneState::Ready => {
                if let Some(held) = lane.waiting.front() {
                    queue.ready.remove(&(held.position, key));
                }
            }
            LaneState::Waiting(_) => {
                self.timers.clear(TimerKey::Lane(id, key));
                self.unreachable.remove(&(id, key));
                self.misconfigured.remove(&(id, key));
                self.stormy.remove(&(id, key));
            }
            LaneState::Idle | LaneState::Running(_) | LaneState::Settling | LaneState::Stuck => {}
        }
        queue.weigh(key);
    }

    pub(crate) fn by_hand(&mut self, id: QueueId, position: Position, action: ByHand) {
        let lane = self.queues.get_mut(&id).and_then(|queue| {
            let key = *queue.pending.get(&position)?;
            let lane = queue.lanes.get_mut(&key)?;
            let is_head = lane.waiting.front().is_some_and(|held| held.position == position);
            is_head.then_some((key, lane))
        });
        let refused = Event::ByHandRefused { queue: id, position };
        let Some((key, lane)) = lane else {
            self.event(refused);
            return;
        };
        let state = lane.state;
        if action == ByHand::DeadLetter && self.config.capabilities.dead_letter == DeadLetterBy::Unsupported {
            self.event(refused);
            return;
        }
        match state {
            LaneState::Running(_) => lane.head.by_hand = Some(action),
            LaneState::Settling => {
                if !self.withdraw(id, position) {
                    self.event(refused);
                    return;
                }
                self.exit(id, key, action.into(), true);
            }
            LaneState::Idle | LaneState::Ready | LaneState::Waiting(_) | LaneState::Stuck => {
                self.exit(id, key, action.into(), true);
            }
        }
        self.dirty.insert(id);
    }

    pub(crate) fn can_dead_letter(&self) -> bool {
        self.config.capabilities.dead_letter == DeadLetterBy::Broker
    }

    pub(crate) fn head_position(&self, id: QueueId, key: LaneKey) -> Option<Position> {
        Some(self.queues.get(&id)?.lanes.get(&key)?.waiting.front()?.position)
    }

    /// Tells the shell how many attempts a delivery has spent; 0 forgets it.
    pub(crate) fn save_attempts(&mut self, queue: QueueId, identity: Identity, attempts: u32) {
        if identity == Identity::None {
            return;
        }
        if attempts == 0 {
            self.spent.remove(&(queue, identity.clone()));
        }
        self.emit(Output::SaveAttempts { queue, identity, attempts });
    }

    /// Keeps attempts of a delivery that is in no lane (any more).
    pub(crate) fn remember_spent(&mut self, queue: QueueId, identity: Identity, attempts: u32) {
        if identity == Identity::None || attempts == 0 {
            return;
        }
        if self.spent.len() >= SPENT_MOST {
            self.spent.pop_first();
        }
        self.spent.insert((queue, identity), attempts);
    }
}
