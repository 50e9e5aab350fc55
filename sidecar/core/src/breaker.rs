//! The misconfiguration breaker: when the endpoint itself is wrong, only one probe at a time is sent.

use std::collections::BTreeSet;

use lockstep_model::{Moment, Position, QueueId};

use crate::{
    AttemptId,
    backoff::doubled,
    limits::{BREAKER_MESSAGES, PROBE_FIRST, PROBE_LONGEST},
};

/// The breaker.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    suspects: BTreeSet<(QueueId, Position)>,
    open: bool,
    probes: u32,
    running: Option<AttemptId>,
    not_before: Moment,
}

impl Breaker {
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether an attempt may start, as a probe if need be.
    pub(crate) fn admits(&self, now: Moment) -> bool {
        !self.open || (self.running.is_none() && now >= self.not_before)
    }

    /// An attempt starts.
    pub(crate) fn started(&mut self, attempt: AttemptId) {
        if self.open {
            self.running = Some(attempt);
        }
    }

    /// An attempt ended, whatever came of it. Returns when the next probe may start.
    pub(crate) fn ended(&mut self, attempt: AttemptId, now: Moment) -> Option<Moment> {
        if self.running != Some(attempt) {
            return None;
        }
        self.running = None;
        self.probes = self.probes.saturating_add(1);
        self.not_before = now + doubled(PROBE_FIRST, self.probes, PROBE_LONGEST);
        Some(self.not_before)
    }

    /// A message was answered `Misconfigured`. Returns the moment of the first probe when it opens.
    pub(crate) fn misconfigured(
        &mut self,
        queue: QueueId,
        position: Position,
        now: Moment,
    ) -> Option<Moment> {
        if self.open {
            return None;
        }
        self.suspects.insert((queue, position));
        if self.suspects.len() < BREAKER_MESSAGES {
            return None;
        }
        self.suspects.clear();
        self.open = true;
        self.probes = 0;
        self.running = None;
        self.not_before = now + PROBE_FIRST;
        Some(self.not_before)
    }

    /// A message got a verdict that only a working endpoint gives. Returns whether it was open.
    pub(crate) fn answered(&mut self, done: bool) -> bool {
        if done {
            self.suspects.clear();
        }
        std::mem::take(&mut self.open)
    }
}
