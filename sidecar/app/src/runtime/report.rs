//! What the engine says of itself, as log lines and metrics: one line per change of state, none per message.

use std::time::Duration;

use lockstep_broker::Broker;
use lockstep_contract::{Gap, Guard, STATUS_GAPS_MAX};
use lockstep_core::{AttemptNotice, Event};
use lockstep_model::{Position, QueueId};
use tracing::{debug, error, info, warn};

use super::shell::{Refusal, Shell};
use crate::{
    deliver::{Deliver, Detail},
    metrics::{QueueLabel, Verdict, VerdictLabel, WhatLabel},
    state::unix_ms,
};

/// That attempts fail is told no more often: one line, not one for each message.
const FAILING_EVERY: Duration = Duration::from_secs(10);

impl<B: Broker, D: Deliver> Shell<B, D> {
    pub(super) fn report(&mut self, event: Event) {
        match event {
            Event::AttemptEnded { queue, position, notice, attempts, status, failure } => {
                self.count_attempt(notice);
                self.judge_refusal(queue, notice, status);
                if notice != AttemptNotice::Done {
                    self.failed(notice, queue, position);
                    let queue = self.queues.name(queue);
                    debug!(queue, %position, ?notice, attempts, ?status, ?failure, "attempt ended");
                }
            }
            Event::Suppressed { queue, position } => {
                if let Some(entry) = self.queues.get(queue) {
                    entry.metrics.suppressed.inc();
                    debug!(queue = %entry.name, %position, "duplicate suppressed");
                }
            }
            Event::Blocked { queue, position, hold, attempts } => {
                let (error, answer) = self.last_error(queue, position);
                let (name, id) = (self.queues.name(queue), self.message_id(queue, position));
                warn!(
                    queue = name, %position, message = id, hold = ?hold, attempts, error, answer,
                    "blocked: what is behind this message waits; it is tried on, or use skip or dead-letter"
                );
            }
            Event::Unblocked { queue, position } => {
                info!(queue = self.queues.name(queue), %position, "unblocked");
            }
            Event::DeadLettered { queue, position, by_hand } => {
                let (error, answer) = self.last_error(queue, position);
                let (name, id) = (self.queues.name(queue), self.message_id(queue, position));
                warn!(queue = name, %position, message = id, by_hand, error, answer, "dead-lettered");
                self.metrics.dead_letters.get_or_create(&label(name)).inc();
                self.facts.counters.dead_lettered += 1;
                self.forget_refusal_of(queue);
            }
            Event::Skipped { queue, position, by_hand } => {
                let (error, answer) = self.last_error(queue, position);
                let (name, id) = (self.queues.name(queue), self.message_id(queue, position));
                warn!(queue = name, %position, message = id, by_hand, error, answer, "skipped");
                self.metrics.skipped.get_or_create(&label(name)).inc();
                self.facts.counters.skipped += 1;
                self.forget_refusal_of(queue);
            }
            Event::Moved { queue, from, to, reset } => self.moved(queue, from, to, reset),
            Event::Breaker { open } => self.breaker(open),
            Event::Storm { open } => self.storm(open),
            Event::EndpointPaused { until } => match until {
                Some(until) => {
                    let seconds = until.since(self.clock.now()).as_secs();
                    info!(seconds, "the application asked for a pause (Retry-After)");
                }
                None => info!("the pause is over"),
            },
            Event::Abandoned { queue, deliveries } => {
                self.metrics.abandoned.inc_by(u64::from(deliveries));
                info!(queue = self.queues.name(queue), deliveries, "lease ended with messages unfinished");
            }
            Event::Stale { queue, what } => {
                self.metrics.late.get_or_create(&WhatLabel { what }).inc();
                debug!(queue = queue.map(|queue| self.queues.name(queue)), what, "late input dropped");
            }
            Event::ByHandRefused { queue, position } => {
                self.by_hand_refused = true;
                info!(queue = self.queues.name(queue), %position, "command refused: no lane waits at that message");
            }
        }
    }

    /// Says that attempts fail: the first after a success, and not each of an application that changes its mind often.
    fn failed(&mut self, notice: AttemptNotice, queue: QueueId, position: Position) {
        let told = match notice {
            AttemptNotice::Again | AttemptNotice::Never | AttemptNotice::Misconfigured => true,
            AttemptNotice::Done
            | AttemptNotice::Snoozed
            | AttemptNotice::Unreachable
            | AttemptNotice::Cancelled
            | AttemptNotice::Late => false,
        };
        let now = self.clock.now();
        let lately = self.facts.failing_told.is_some_and(|told| now.since(told) < FAILING_EVERY);
        if !told || lately || std::mem::replace(&mut self.facts.failing, true) {
            return;
        }
        self.facts.failing_told = Some(now);
        let (error, answer) = self.last_error(queue, position);
        let (name, id) = (self.queues.name(queue), self.message_id(queue, position));
        info!(queue = name, %position, message = id, error, answer, "attempts fail");
    }

    /// Remembers the last answer that spoke of a wrong endpoint, until another one shows that messages are judged.
    fn judge_refusal(&mut self, queue: QueueId, notice: AttemptNotice, status: Option<u16>) {
        match notice {
            AttemptNotice::Misconfigured => self.facts.refused = Some(Refusal { queue, status }),
            AttemptNotice::Done | AttemptNotice::Again | AttemptNotice::Snoozed | AttemptNotice::Never => {
                self.facts.refused = None
            }
            AttemptNotice::Unreachable | AttemptNotice::Cancelled | AttemptNotice::Late => {}
        }
    }

    fn count_attempt(&mut self, notice: AttemptNotice) {
        let verdict = match notice {
            AttemptNotice::Done => Verdict::Done,
            AttemptNotice::Again => Verdict::Again,
            AttemptNotice::Snoozed => Verdict::Snoozed,
            AttemptNotice::Never => Verdict::Never,
            AttemptNotice::Misconfigured => Verdict::Misconfigured,
            AttemptNotice::Unreachable => Verdict::Unreachable,
            AttemptNotice::Cancelled => Verdict::Cancelled,
            AttemptNotice::Late => Verdict::Late,
        };
        if verdict == Verdict::Done {
            self.facts.was_done = true;
            self.facts.failing = false;
            self.done_counter.inc();
            self.facts.counters.done += 1;
        } else {
            self.facts.counters.failed_attempts += 1;
            self.metrics.attempts.get_or_create(&VerdictLabel { verdict }).inc();
        }
    }

    fn breaker(&mut self, open: bool) {
        self.facts.breaker = Guard { open, since_ms: unix_ms() };
        self.metrics.breaker_open.set(i64::from(open));
        if open {
            error!(
                "breaker open: the application refuses every message as misconfigured; \
                 only a probe is sent until that changes; check delivery.path, port and credentials"
            );
        } else {
            info!("breaker closed");
        }
    }

    fn storm(&mut self, open: bool) {
        self.facts.storm = Guard { open, since_ms: unix_ms() };
        self.metrics.storm_open.set(i64::from(open));
        if open {
            error!(
                "dead-letter storm: too many messages in a row failed for good with no success between; \
                 nothing more is dead-lettered or skipped until the application succeeds again"
            );
        } else {
            info!("dead-letter storm over");
        }
    }

    fn moved(&mut self, queue: QueueId, from: Position, to: Position, reset: bool) {
        self.forget_refusal_of(queue);
        let name = self.queues.name(queue);
        if reset {
            info!(queue = name, %from, %to, "the group's position was set from outside");
        } else {
            error!(queue = name, %from, %to, "data loss: retention removed messages that were never delivered");
            let lost = to.0.saturating_sub(from.0);
            self.metrics.lost_to_retention.get_or_create(&label(name)).inc_by(lost);
            self.facts.counters.lost = self.facts.counters.lost.saturating_add(lost);
            if self.facts.gaps.len() == STATUS_GAPS_MAX {
                self.facts.gaps.pop_front();
            }
            let gap = Gap { queue: name.to_owned(), from: from.0, to: to.0, seen_ms: unix_ms() };
            self.facts.gaps.push_back(gap);
        }
        if let Some(entry) = self.queues.get_mut(queue) {
            entry.cursor = to;
        }
    }

    /// What the last attempt met, and what the application said to it.
    fn last_error(&self, queue: QueueId, position: Position) -> (Option<&str>, Option<&str>) {
        let detail = self.queues.get(queue).and_then(|entry| entry.error(position));
        (detail.map(Detail::summary), detail.and_then(Detail::answer))
    }

    /// The id of the message that the current input was about, or that heads a lane there.
    fn message_id(&self, queue: QueueId, position: Position) -> Option<&str> {
        let current =
            self.current.as_ref().filter(|current| current.queue == queue && current.position == position);
        let delivery = current.or_else(|| self.engine.payload(queue, position));
        delivery.map(|delivery| delivery.message.id.as_str())
    }
}

fn label(queue: &str) -> QueueLabel {
    QueueLabel { queue: queue.to_owned() }
}
