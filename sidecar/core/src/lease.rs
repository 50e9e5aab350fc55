//! Ownership of queues: how it begins, is doubted, and ends.

use lockstep_model::{Epoch, Identity, Moment, Position, QueueId, Settlement as Settling};

use crate::{
    Engine, Event, Hold, OrderingMode, Output, Settlement,
    cursor::Cursor,
    lane::{LaneKey, LaneState},
    limits::{AGE_STEP, CANCEL_LEAD},
    queue::{CommitState, Leave, Phase, Queue},
    sabotage::Sabotage,
    timers::TimerKey,
};

impl<P: Clone> Engine<P> {
    pub(crate) fn acquired(&mut self, id: QueueId, epoch: Epoch, queue: Queue<P>) {
        if self.epochs.get(&id).is_some_and(|known| *known >= epoch) {
            self.stale(Some(id), "acquired");
            return;
        }
        self.epochs.insert(id, epoch);
        if self.queues.contains_key(&id) {
            self.stale(Some(id), "acquired twice");
            self.drop_queue(id);
        }
        if self.finished {
            self.emit(Output::ReleaseQueue { queue: id, epoch });
            return;
        }
        let (deadline, cursor) = (queue.deadline, queue.cursor.at());
        self.record(|ledger, _| ledger.acquired(id, epoch, deadline, cursor));
        self.queues.insert(id, queue);
        self.forget_spent_below(id, cursor);
        self.watch_lease(id);
        self.dirty.insert(id);
        if !self.group.is_member() || self.drain.is_some() {
            self.begin_release(id, Leave::Group, self.drain);
        }
    }

    /// Attempts of messages that somebody finished meanwhile are of no use any more.
    fn forget_spent_below(&mut self, id: QueueId, cursor: Position) {
        if self.config.capabilities.settlement != Settling::Cumulative || self.spent.is_empty() {
            return;
        }
        let done: Vec<_> = self
            .spent
            .keys()
            .filter(|(queue, identity)| {
                *queue == id && matches!(identity, Identity::Position { offset, .. } if *offset < cursor.0)
            })
            .cloned()
            .collect();
        for (queue, identity) in done {
            self.save_attempts(queue, identity, 0);
        }
    }

    fn watch_lease(&mut self, id: QueueId) {
        let key = TimerKey::Lease(id);
        match self.queues.get(&id).and_then(|queue| queue.deadline) {
            None => self.timers.clear(key),
            Some(deadline) => {
                let cancel = deadline.before(CANCEL_LEAD);
                self.timers.set(key, if self.now < cancel { cancel } else { deadline });
            }
        }
    }

    pub(crate) fn lease_timer(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else { return };
        let Some(deadline) = queue.deadline else { return };
        let epoch = queue.epoch;
        if self.now < deadline {
            self.cancel_running(id);
            self.watch_lease(id);
            return;
        }
        // The adapter may believe in a renewal that came too late for us: it has to let go and acquire anew.
        if queue.phase != Phase::Released {
            self.emit(Output::ReleaseQueue { queue: id, epoch });
        }
        self.drop_queue(id);
    }

    pub(crate) fn renewed(&mut self, id: QueueId, epoch: Epoch, deadline: Option<Moment>) {
        let Some(queue) = self.current(id, epoch, "renewed") else { return };
        queue.deadline = deadline;
        if std::mem::take(&mut queue.doubtful) {
            // A broker that was away may have lost what it confirmed.
            queue.commit.again = true;
            queue.commit.not_before = Moment::ZERO;
        }
        self.watch_lease(id);
        if deadline.is_some_and(|deadline| deadline <= self.now) {
            self.lease_timer(id);
            return;
        }
        self.resume_settlements(id);
        self.dirty.insert(id);
    }

    pub(crate) fn doubtful(&mut self, id: QueueId, epoch: Epoch) {
        let Some(queue) = self.current(id, epoch, "doubtful") else { return };
        queue.doubtful = true;
        self.dirty.insert(id);
    }

    pub(crate) fn revoking(&mut self, id: QueueId, epoch: Epoch, deadline: Option<Moment>) {
        if self.current(id, epoch, "revoking").is_some() {
            self.begin_release(id, Leave::Revoked, deadline);
        }
    }

    pub(crate) fn revocation_cancelled(&mut self, id: QueueId, epoch: Epoch) {
        let Some(queue) = self.current(id, epoch, "revocation cancelled") else { return };
        let Phase::Releasing { why: Leave::Revoked, .. } = queue.phase else {
            return;
        };
        queue.phase = Phase::Owned;
        self.timers.clear(TimerKey::Release(id));
        self.dirty.insert(id);
    }

    pub(crate) fn lost(&mut self, id: QueueId, epoch: Epoch) {
        if self.is_over(id, epoch) {
            return;
        }
        if self.sabotaged(Sabotage::I4) {
            return;
        }
        if self.current(id, epoch, "lost").is_some() {
            self.drop_queue(id);
        }
    }

    pub(crate) fn released(&mut self, id: QueueId, epoch: Epoch) {
        if self.is_over(id, epoch) {
            return;
        }
        if self.current(id, epoch, "released").is_some() {
            self.drop_queue(id);
        }
    }

    /// An ownership that we ended ourselves: its confirmation is no surprise.
    fn is_over(&self, id: QueueId, epoch: Epoch) -> bool {
        !self.queues.contains_key(&id) && self.epochs.get(&id) == Some(&epoch)
    }

    /// Gives a queue back as soon as it is idle.
    pub(crate) fn begin_release(&mut self, id: QueueId, why: Leave, deadline: Option<Moment>) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let (why, deadline) = match queue.phase {
            Phase::Released => return,
            Phase::Owned => (why, deadline),
            Phase::Releasing { why: old, deadline: earlier } => {
                (why.max(old), [deadline, earlier].into_iter().flatten().min())
            }
        };
        queue.phase = Phase::Releasing { why, deadline };
        if why != Leave::Revoked {
            self.record(|ledger, _| ledger.leaving(id));
        }
        self.dirty.insert(id);
        self.cancel_fetch(id);
        self.timers.clear(TimerKey::Fetch(id));
        if let Some(deadline) = deadline {
            self.timers.set(TimerKey::Release(id), deadline);
        }
        let one_by_one = self.config.capabilities.settlement == Settling::PerDelivery;
        if one_by_one && self.config.mode == OrderingMode::Unordered {
            self.release_unstarted(id);
        }
    }

    /// Gives back what does not run, one by one: nothing depends on its order.
    fn release_unstarted(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else { return };
        let keys: Vec<_> = queue
            .lanes
            .iter()
            .filter(|(_, lane)| !matches!(lane.state, LaneState::Running(_) | LaneState::Settling))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            self.release_head(id, key);
        }
    }

    fn release_head(&mut self, id: QueueId, key: LaneKey) {
        self.set_state(id, key, LaneState::Idle);
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let Some(lane) = queue.lanes.remove(&key) else { return };
        let head = lane.head;
        // A lane of its own holds exactly one delivery.
        let Some(held) = lane.waiting.into_iter().next() else { return };
        queue.pending.remove(&held.position);
        queue.bytes = queue.bytes.saturating_sub(held.bytes);
        if !head.started {
            queue.buffered = queue.buffered.saturating_sub(1);
        }
        self.record(|ledger, _| ledger.ended(id, held.position));
        self.remember_spent(id, held.identity.clone(), head.attempts);
        let (position, payload, identity) = (held.position, held.payload, held.identity);
        self.settle(id, position, payload, identity, Settlement::Release, head.attempts, None, false);
    }

    pub(crate) fn release_deadline(&mut self, id: QueueId) {
        if self.queues.get(&id).is_some_and(|queue| queue.phase != Phase::Released) {
            self.release(id);
        }
    }

    pub(crate) fn maybe_release(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else { return };
        let Phase::Releasing { .. } = queue.phase else { return };
        if self.is_idle(id, queue) {
            self.release(id);
        }
    }

    fn is_idle(&self, id: QueueId, queue: &Queue<P>) -> bool {
        let orphan = self.orphans.range((id, LaneKey::Whole)..).next().is_some_and(|(key, _)| key.0 == id);
        let commit = self.config.capabilities.settlement == Settling::Cumulative
            && (queue.commit.in_flight.is_some()
                || (queue.stopped.is_none()
                    && (queue.commit.again || queue.cursor.at() != queue.commit.confirmed)));
        // A dead letter that waits to be repeated is a blocked head, which is abandoned; and what could not be given back
        // by itself is given back with the queue.
        let settling = queue
            .settling
            .values()
            .any(|settling| settling.sent || settling.settlement == Settlement::Accept);
        let closing = self.gates_open() && self.hole(id).is_some();
        queue.running == 0 && !orphan && !commit && !settling && !closing
    }

    fn release(&mut self, id: QueueId) {
        self.abandon(id, true);
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.phase = Phase::Released;
        let epoch = queue.epoch;
        self.timers.clear(TimerKey::Release(id));
        self.emit(Output::ReleaseQueue { queue: id, epoch });
    }

    /// Forgets a queue: its ownership is over.
    pub(crate) fn drop_queue(&mut self, id: QueueId) {
        self.abandon(id, true);
        self.queues.remove(&id);
        for key in [TimerKey::Lease(id), TimerKey::Release(id)] {
            self.timers.clear(key);
        }
        self.dirty.remove(&id);
        // The others' shares grow.
        self.look_at_all();
    }

    /// Cancels the attempts of this ownership. They stay what they are until they end.
    fn cancel_running(&mut self, id: QueueId) {
        let mut cancelled = Vec::new();
        for (attempt, running) in &mut self.running {
            if running.queue == id && !running.orphan && !running.cancelled {
                running.cancelled = true;
                cancelled.push(*attempt);
            }
        }
        for attempt in cancelled {
            self.emit(Output::CancelAttempt { attempt });
        }
    }

    /// Empties a queue: attempts that run become orphans, everything held is abandoned, uncharged.
    pub(crate) fn abandon(&mut self, id: QueueId, cancel: bool) {
        self.leave_line(id);
        if cancel {
            self.cancel_running(id);
        }
        for (attempt, running) in &mut self.running {
            if running.queue == id && !running.orphan {
                running.orphan = true;
                self.orphans.insert((id, running.lane), *attempt);
            }
        }
        self.cancel_fetch(id);
        for key in [TimerKey::Commit(id), TimerKey::Fetch(id), TimerKey::Rewind(id), TimerKey::Age(id)] {
            self.timers.clear(key);
        }
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let deliveries = u32::try_from(queue.pending.len()).unwrap_or(u32::MAX);
        let lanes = std::mem::take(&mut queue.lanes);
        for position in queue.settling.keys() {
            self.timers.clear(TimerKey::Settle(id, *position));
        }
        let cursor = queue.cursor.at();
        queue.settling.clear();
        queue.accepting = 0;
        queue.pending.clear();
        queue.ready.clear();
        queue.fat.clear();
        queue.fetch.unread.clear();
        queue.fetch.wanted.clear();
        queue.buffered = 0;
        queue.bytes = 0;
        queue.running = 0;
        queue.highest_started = None;
        queue.probed = None;
        queue.stopped = None;
        queue.cursor = Cursor::new(cursor);
        queue.commit = CommitState { in_flight: queue.commit.in_flight, ..CommitState::new(cursor) };
        for (key, lane) in lanes {
            self.timers.clear(TimerKey::Lane(id, key));
            self.unreachable.remove(&(id, key));
            self.misconfigured.remove(&(id, key));
            self.stormy.remove(&(id, key));
            if let Some(held) = lane.waiting.into_iter().next() {
                self.remember_spent(id, held.identity, lane.head.attempts);
            }
        }
        self.record(|ledger, _| ledger.emptied(id, deliveries));
        if deliveries > 0 {
            self.event(Event::Abandoned { queue: id, deliveries });
        }
    }

    /// Gives deliveries back before the broker's acknowledgement timeout does it in its own way.
    pub(crate) fn rewind_timer(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else { return };
        let Some(within) = queue.settle_within else { return };
        let oldest = queue
            .pending
            .first_key_value()
            .and_then(|(_, key)| queue.lanes.get(key)?.waiting.front())
            .map(|held| held.received + within / 2);
        match oldest {
            None => {}
            Some(at) if at > self.now => self.timers.set(TimerKey::Rewind(id), at),
            Some(_) => self.begin_release(id, Leave::Rewind, None),
        }
    }

    /// Reports heads that are old, whatever the cause.
    pub(crate) fn age_timer(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else { return };
        let age = self.config.blocked_age;
        let old: Vec<_> = queue
            .lanes
            .iter()
            .filter(|(_, lane)| lane.head.hold.is_none() && !lane.waiting.is_empty())
            .filter(|(_, lane)| self.now.since(lane.head.since) >= age)
            .map(|(key, _)| *key)
            .collect();
        let next = queue
            .lanes
            .values()
            .filter(|lane| lane.head.hold.is_none() && !lane.waiting.is_empty())
            .map(|lane| lane.head.since + age)
            .filter(|at| *at > self.now)
            .min();
        if !queue.pending.is_empty() {
            // Heads that come later are old later, so looking more often would find nothing.
            let at = next.unwrap_or(self.now + age).max(self.now + AGE_STEP);
            self.timers.set(TimerKey::Age(id), at);
        }
        for key in old {
            self.hold(id, key, Hold::Age);
        }
    }
}
