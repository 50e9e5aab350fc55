use std::collections::{BTreeMap, BTreeSet};

use tokio::{sync::oneshot, time::Instant};

use super::CallError;
use crate::codec::Command;

/// Open requests on one connection: each queue has one pull open, and a few others go along.
pub(super) const MAX_PENDING: usize = 4096;

/// The requests of one connection that wait for their replies.
#[derive(Debug, Default)]
pub(super) struct Pending {
    waiting: BTreeMap<i32, Waiting>,
    deadlines: BTreeSet<(Instant, i32)>,
    last_opaque: i32,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) reply: oneshot::Sender<Result<Option<Command>, CallError>>,
    pub(super) deadline: Instant,
    pub(super) sent: Instant,
    /// Where its frame begins in all that goes out on the connection.
    pub(super) start: u64,
}

impl Pending {
    /// Whether no more may be added. Those whose callers gave up make room first.
    pub(super) fn is_full(&mut self) -> bool {
        if self.waiting.len() >= MAX_PENDING {
            self.waiting.retain(|_, waiting| !waiting.reply.is_closed());
            let waiting = &self.waiting;
            self.deadlines.retain(|(_, opaque)| waiting.contains_key(opaque));
        }
        self.waiting.len() >= MAX_PENDING
    }

    /// A number that no open request has.
    pub(super) fn next_opaque(&mut self) -> i32 {
        loop {
            self.last_opaque = self.last_opaque.wrapping_add(1);
            if !self.waiting.contains_key(&self.last_opaque) {
                return self.last_opaque;
            }
        }
    }

    pub(super) fn insert(&mut self, opaque: i32, waiting: Waiting) {
        self.deadlines.insert((waiting.deadline, opaque));
        self.waiting.insert(opaque, waiting);
    }

    /// The request that a reply with this number belongs to.
    pub(super) fn remove(&mut self, opaque: i32) -> Option<Waiting> {
        let waiting = self.waiting.remove(&opaque)?;
        self.deadlines.remove(&(waiting.deadline, opaque));
        Some(waiting)
    }

    /// When the first reply is overdue.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Takes out a request whose reply is overdue; its caller knows by its own clock.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<Waiting> {
        let (deadline, opaque) = self.deadlines.first().copied()?;
        if deadline > now { None } else { self.remove(opaque) }
    }

    /// Takes out all.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Waiting> {
        self.deadlines.clear();
        std::mem::take(&mut self.waiting).into_values()
    }
}
