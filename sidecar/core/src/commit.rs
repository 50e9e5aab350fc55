//! When the cursor is told to the broker, and what its answer means.

use lockstep_model::{Epoch, Moment, Position, QueueId, Settlement};

use crate::{
    Engine, Failure, Output,
    dispatch::not_after,
    limits::{COMMIT_AGE, COMMIT_COUNT, COMMIT_GAP},
    queue::{Phase, Queue},
    sabotage::Sabotage,
    settle::repeat_ceiling,
    timers::TimerKey,
};

/// Whether a commit is due.
enum Due {
    Never,
    At(Moment),
    Now,
}

impl<P: Clone> Engine<P> {
    /// Commits the contiguous prefix when it is worth it.
    pub(crate) fn maybe_commit(&mut self, id: QueueId) {
        if self.config.capabilities.settlement != Settlement::Cumulative {
            return;
        }
        let Some(queue) = self.queues.get(&id) else { return };
        match self.commit_due(queue) {
            Due::Never => self.timers.clear(TimerKey::Commit(id)),
            Due::At(at) => self.timers.set(TimerKey::Commit(id), at),
            Due::Now => self.commit(id),
        }
    }

    fn commit_due(&self, queue: &Queue<P>) -> Due {
        let commit = &queue.commit;
        let behind = queue.cursor.at() != commit.confirmed;
        if !(behind || commit.again)
            || queue.phase == Phase::Released
            || queue.doubtful
            || queue.stopped.is_some()
            || commit.in_flight.is_some()
            || !self.before_reserve(queue.deadline)
        {
            return Due::Never;
        }
        let at = if self.commit_at_once(queue) {
            commit.not_before
        } else if queue.unconfirmed() > 0 {
            commit.not_before.max(commit.since.unwrap_or(self.now) + COMMIT_AGE)
        } else if queue.pending.is_empty() {
            commit.gap_at.map_or(commit.not_before, |last| commit.not_before.max(last + COMMIT_GAP))
        } else {
            // Held deliveries follow the gap: it is committed with them.
            return Due::Never;
        };
        if self.now >= at { Due::Now } else { Due::At(at) }
    }

    fn commit_at_once(&self, queue: &Queue<P>) -> bool {
        let idle = queue.running == 0 && queue.ready.is_empty();
        queue.commit.again
            || queue.phase != Phase::Owned
            || self.drain.is_some()
            || queue.unconfirmed() >= COMMIT_COUNT
            || (queue.unconfirmed() > 0 && idle)
    }

    fn commit(&mut self, id: QueueId) {
        let now = self.now;
        let hole = self.sabotaged(Sabotage::I3);
        self.timers.clear(TimerKey::Commit(id));
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if queue.unconfirmed() == 0 {
            queue.commit.gap_at = Some(now);
        }
        let skip = u64::from(hole);
        let position = Position(queue.cursor.at().0.saturating_add(skip));
        queue.commit.in_flight = Some((position, queue.cursor.passed()));
        queue.commit.overtaken = false;
        queue.commit.again = false;
        // The age of what is finished from now on.
        queue.commit.since = None;
        let output = Output::Commit {
            queue: id,
            epoch: queue.epoch,
            position,
            last: queue.cursor.last().clone(),
            not_after: not_after(queue.deadline),
        };
        self.emit(output);
    }

    pub(crate) fn committed(
        &mut self,
        id: QueueId,
        epoch: Epoch,
        position: Position,
        result: Result<(), Failure>,
    ) {
        let now = self.now;
        let Some(queue) = self.current(id, epoch, "committed") else { return };
        let Some((_, passed)) = queue.commit.in_flight.filter(|(sent, _)| *sent == position) else {
            self.stale(Some(id), "committed");
            return;
        };
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let commit = &mut queue.commit;
        commit.in_flight = None;
        let overtaken = std::mem::take(&mut commit.overtaken);
        match result {
            Ok(()) => {
                commit.failures = 0;
                commit.not_before = now;
                if !overtaken {
                    commit.confirmed = position;
                    commit.confirmed_passed = passed;
                }
            }
            Err(failure) => {
                commit.failures = commit.failures.saturating_add(1);
                // Also a commit that was only repeated must come through.
                commit.again = true;
                let ceiling = repeat_ceiling(commit.failures, failure);
                commit.not_before = now + self.jitter.half(ceiling);
            }
        }
        if result.is_err() {
            queue.commit.since.get_or_insert(now);
        }
        self.dirty.insert(id);
    }
}
