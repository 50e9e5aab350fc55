//! What an attempt's end does to its lane and to the whole.

use std::time::Duration;

use lockstep_model::{Position, QueueId, Settlement as Settling};

use crate::{
    AttemptId, AttemptNotice, AttemptResult, Engine, Event, Hold, Output, TransportFailure,
    ending::Exit,
    lane::{Head, LaneKey, LaneState, Why},
    limits::{SNOOZE_CAPS, SNOOZE_LEAST},
    sabotage::Sabotage,
    timers::TimerKey,
    verdict::{Verdict, is_overload, judge},
};

/// The head that an attempt was for.
#[derive(Debug, Clone, Copy)]
struct Subject {
    queue: QueueId,
    lane: LaneKey,
    position: Position,
}

impl<P: Clone> Engine<P> {
    pub(crate) fn attempt_ended(&mut self, attempt: AttemptId, results: &[AttemptResult]) {
        let Some(running) = self.running.remove(&attempt) else {
            debug_assert!(false, "the shell must end only attempts that run");
            self.stale(None, "attempt");
            return;
        };
        debug_assert!(results.len() == 1, "an attempt must end with one result for each delivery");
        let broken = AttemptResult::Failed(TransportFailure::Broken);
        let result = results.first().unwrap_or(&broken);
        let verdict = self.sabotaged_verdict(judge(result, &self.config.status_codes));
        let subject = Subject { queue: running.queue, lane: running.lane, position: running.position };
        self.dirty.insert(subject.queue);
        let next_probe = self.breaker.ended(attempt, self.now);
        if running.orphan {
            self.free_orphan(subject, attempt);
            self.report(subject, result, AttemptNotice::Late, 0);
        } else {
            if is_overload(result) {
                self.limit.overload();
            }
            self.conclude(subject, result, verdict);
        }
        if let Some(at) = next_probe.filter(|_| self.breaker.is_open()) {
            self.timers.set(TimerKey::Probe, at);
        }
    }

    fn sabotaged_verdict(&self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Again if self.sabotaged(Sabotage::I2) => Verdict::Done,
            Verdict::Unreachable if self.sabotaged(Sabotage::I7) => Verdict::Again,
            Verdict::Done
            | Verdict::Again
            | Verdict::Pause(_)
            | Verdict::Snooze(_)
            | Verdict::Never
            | Verdict::DeadLetter
            | Verdict::Skip
            | Verdict::Misconfigured
            | Verdict::Unreachable
            | Verdict::Cancelled => verdict,
        }
    }

    fn free_orphan(&mut self, subject: Subject, attempt: AttemptId) {
        let key = (subject.queue, subject.lane);
        if self.orphans.get(&key) == Some(&attempt) {
            self.orphans.remove(&key);
        }
        let ready = self
            .queues
            .get(&subject.queue)
            .and_then(|queue| queue.lanes.get(&subject.lane))
            .is_some_and(|lane| lane.state == LaneState::Ready);
        if ready {
            self.make_ready(subject.queue, subject.lane);
        }
    }

    fn conclude(&mut self, subject: Subject, result: &AttemptResult, verdict: Verdict) {
        if let Some(queue) = self.queues.get_mut(&subject.queue) {
            queue.running = queue.running.saturating_sub(1);
        }
        let was_open = self.breaker.is_open();
        match verdict {
            Verdict::Misconfigured | Verdict::Unreachable | Verdict::Cancelled => {}
            Verdict::Done => self.endpoint_answers(true),
            Verdict::Again
            | Verdict::Pause(_)
            | Verdict::Snooze(_)
            | Verdict::Never
            | Verdict::DeadLetter
            | Verdict::Skip => self.endpoint_answers(false),
        }
        match verdict {
            Verdict::Done => self.finished_well(subject, result),
            Verdict::Again => self.again(subject, result),
            Verdict::Pause(after) => self.paused(subject, result, after),
            Verdict::Snooze(after) => self.snoozed(subject, result, after),
            Verdict::Never => self.against(subject, result, |engine| {
                engine.exhausted(subject.queue, subject.lane, Hold::Rejected);
            }),
            Verdict::DeadLetter => self.against(subject, result, |engine| {
                engine.leave(subject.queue, subject.lane, Exit::DeadLetter, Hold::Rejected);
            }),
            Verdict::Skip => self.against(subject, result, |engine| {
                engine.leave(subject.queue, subject.lane, Exit::Skip, Hold::Rejected);
            }),
            Verdict::Misconfigured => self.misconfigured_answer(subject, result, was_open),
            Verdict::Unreachable => {
                self.report_head(subject, result, AttemptNotice::Unreachable);
                if !self.obey(subject) {
                    let after = self.backoff(subject);
                    self.wait(subject.queue, subject.lane, Why::Unreachable, after);
                }
            }
            Verdict::Cancelled => {
                self.report_head(subject, result, AttemptNotice::Cancelled);
                if !self.obey(subject) {
                    self.make_ready(subject.queue, subject.lane);
                }
            }
        }
    }

    fn finished_well(&mut self, subject: Subject, result: &AttemptResult) {
        self.done = self.done.saturating_add(1);
        self.limit.success();
        let (forgotten, was_open) = self.storm.done();
        if forgotten {
            self.emit(Output::SaveStorm { in_row: 0 });
        }
        if was_open {
            self.event(Event::Storm { open: false });
            for (queue, lane) in std::mem::take(&mut self.stormy) {
                self.wake(queue, lane);
            }
        }
        self.report_head(subject, result, AttemptNotice::Done);
        if self.config.capabilities.settlement == Settling::PerDelivery {
            self.know(subject.queue, subject.lane);
        }
        self.end_head(subject.queue, subject.lane, true);
        self.arm(subject.queue, subject.lane);
    }

    fn again(&mut self, subject: Subject, result: &AttemptResult) {
        self.spend(subject, 1);
        self.report_head(subject, result, AttemptNotice::Again);
        if !self.obey(subject) {
            self.try_later(subject, Why::Later);
        }
    }

    /// A verdict against the message itself.
    fn against(&mut self, subject: Subject, result: &AttemptResult, then: impl FnOnce(&mut Self)) {
        self.spend(subject, 1);
        self.report_head(subject, result, AttemptNotice::Never);
        if !self.obey(subject) {
            then(self);
        }
    }

    fn paused(&mut self, subject: Subject, result: &AttemptResult, after: Duration) {
        let Some(after) = self.snooze(subject, after) else {
            self.again(subject, result);
            return;
        };
        self.report_head(subject, result, AttemptNotice::Snoozed);
        let until = self.now + after;
        if self.pause.is_none_or(|old| old < until) {
            self.pause = Some(until);
            self.timers.set(TimerKey::Pause, until);
            self.event(Event::EndpointPaused { until: Some(until) });
        }
        if !self.obey(subject) {
            self.make_ready(subject.queue, subject.lane);
        }
    }

    fn snoozed(&mut self, subject: Subject, result: &AttemptResult, after: Option<Duration>) {
        let tries = self.head(subject).map_or(0, |head| head.tries);
        let ceiling = self.config.backoff.ceiling(tries.saturating_add(1));
        let after = after.unwrap_or_else(|| self.jitter.half(ceiling));
        let Some(after) = self.snooze(subject, after) else {
            self.again(subject, result);
            return;
        };
        self.report_head(subject, result, AttemptNotice::Snoozed);
        if !self.obey(subject) {
            self.wait(subject.queue, subject.lane, Why::Later, after);
        }
    }

    /// Charges a snooze to the head's total; `None` when that is used up.
    fn snooze(&mut self, subject: Subject, after: Duration) -> Option<Duration> {
        let cap = self.config.retry_after_max;
        let head = self.head(subject)?;
        if head.snoozed >= cap.saturating_mul(SNOOZE_CAPS) {
            return None;
        }
        let after = after.min(cap).max(SNOOZE_LEAST);
        head.snoozed = head.snoozed.saturating_add(after);
        head.tries = head.tries.saturating_add(1);
        Some(after)
    }

    fn misconfigured_answer(&mut self, subject: Subject, result: &AttemptResult, was_open: bool) {
        let done = self.done;
        let Some(head) = self.head(subject) else { return };
        // Only a success of another message after the first such answer proves that this message is at fault.
        let proven = *head.misconfigured_at.get_or_insert(done) < done && !was_open;
        if let Some(at) = self.breaker.misconfigured(subject.queue, subject.position, self.now) {
            self.timers.set(TimerKey::Probe, at);
            self.event(Event::Breaker { open: true });
        }
        if proven {
            self.spend(subject, 1);
        } else {
            self.spend(subject, 0);
        }
        self.report_head(subject, result, AttemptNotice::Misconfigured);
        if self.obey(subject) {
            return;
        }
        if proven {
            self.try_later(subject, Why::Misconfigured);
        } else {
            let ceiling = self.ceiling(subject);
            let after = self.jitter.full(ceiling);
            self.wait(subject.queue, subject.lane, Why::Misconfigured, after);
        }
    }

    fn endpoint_answers(&mut self, done: bool) {
        if !self.breaker.answered(done) {
            return;
        }
        self.timers.clear(TimerKey::Probe);
        self.event(Event::Breaker { open: false });
        for (queue, lane) in std::mem::take(&mut self.misconfigured) {
            self.wake(queue, lane);
        }
    }

    /// After a spent attempt: exhausted, or wait.
    fn try_later(&mut self, subject: Subject, why: Why) {
        let attempts = self.head(subject).map_or(0, |head| head.attempts);
        if self.config.max_attempts > 0 && attempts >= self.config.max_attempts {
            self.exhausted(subject.queue, subject.lane, Hold::Exhausted);
        } else {
            let ceiling = self.ceiling(subject);
            let after = self.jitter.full(ceiling);
            self.wait(subject.queue, subject.lane, why, after);
        }
    }

    /// Counts one more try, and the attempt if it is `spent`.
    fn spend(&mut self, subject: Subject, spent: u32) {
        let Some(lane) = self.queues.get_mut(&subject.queue).and_then(|q| q.lanes.get_mut(&subject.lane))
        else {
            return;
        };
        lane.head.tries = lane.head.tries.saturating_add(1);
        if spent == 0 {
            return;
        }
        lane.head.attempts = lane.head.attempts.saturating_add(spent);
        let attempts = lane.head.attempts;
        let Some(identity) = lane.waiting.front().map(|held| held.identity.clone()) else { return };
        self.save_attempts(subject.queue, identity, attempts);
    }

    fn backoff(&mut self, subject: Subject) -> Duration {
        self.spend(subject, 0);
        let ceiling = self.ceiling(subject);
        self.jitter.full(ceiling)
    }

    fn ceiling(&mut self, subject: Subject) -> Duration {
        let tries = self.head(subject).map_or(0, |head| head.tries);
        self.config.backoff.ceiling(tries)
    }

    fn head(&mut self, subject: Subject) -> Option<&mut Head> {
        Some(&mut self.queues.get_mut(&subject.queue)?.lanes.get_mut(&subject.lane)?.head)
    }

    /// Carries out a person's command that waited for this attempt.
    fn obey(&mut self, subject: Subject) -> bool {
        let Some(action) = self.head(subject).and_then(|head| head.by_hand.take()) else { return false };
        self.exit(subject.queue, subject.lane, action.into(), true);
        true
    }

    fn report_head(&mut self, subject: Subject, result: &AttemptResult, notice: AttemptNotice) {
        let attempts = self.head(subject).map_or(0, |head| head.attempts);
        self.report(subject, result, notice, attempts);
    }

    fn report(&mut self, subject: Subject, result: &AttemptResult, notice: AttemptNotice, attempts: u32) {
        let (status, failure) = match result {
            AttemptResult::Answered(answer) => (Some(answer.status), None),
            AttemptResult::Failed(failure) => (None, Some(*failure)),
        };
        self.event(Event::AttemptEnded {
            queue: subject.queue,
            position: subject.position,
            notice,
            attempts,
            status,
            failure,
        });
    }

    pub(crate) fn end_pause(&mut self) {
        self.timers.clear(TimerKey::Pause);
        if self.pause.take().is_some() {
            self.event(Event::EndpointPaused { until: None });
        }
    }
}
