//! When what has to happen: one moment per key, found in O(log n).

use std::collections::{BTreeMap, BTreeSet};

use lockstep_model::{Moment, Position, QueueId};

use crate::lane::LaneKey;

/// What a timer is for. Setting a key again moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKey {
    /// The reserve, the cancellation and the end of a lease.
    Lease(QueueId),
    /// The latest moment for a release that was asked of us.
    Release(QueueId),
    /// A commit is due or is repeated.
    Commit(QueueId),
    /// A fetch may be asked again.
    Fetch(QueueId),
    /// Deliveries must be given back before the broker's acknowledgement timeout.
    Rewind(QueueId),
    /// Heads are looked at for their age.
    Age(QueueId),
    /// A lane's head may be tried again.
    Lane(QueueId, LaneKey),
    /// A settlement is repeated.
    Settle(QueueId, Position),
    /// The endpoint's pause ends.
    Pause,
    /// The breaker lets a probe through.
    Probe,
    /// The quiet time after an unclean exit ends.
    Quiet,
    /// An unhealthy application loses its queues.
    HandOver,
    /// Health has been stable for long enough to join again.
    Rejoin,
    /// Health has been stable for so long that earlier hand-overs are forgotten.
    Calm,
    /// The drain's end.
    Drain,
}

/// All timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(Moment, TimerKey)>,
    set: BTreeMap<TimerKey, Moment>,
}

impl Timers {
    pub(crate) fn set(&mut self, key: TimerKey, at: Moment) {
        if let Some(old) = self.set.insert(key, at) {
            if old == at {
                return;
            }
            self.due.remove(&(old, key));
        }
        self.due.insert((at, key));
    }

    pub(crate) fn clear(&mut self, key: TimerKey) {
        if let Some(old) = self.set.remove(&key) {
            self.due.remove(&(old, key));
        }
    }

    pub(crate) fn is_set(&self, key: TimerKey) -> bool {
        self.set.contains_key(&key)
    }

    /// Takes the earliest timer that is due.
    pub(crate) fn pop(&mut self, now: Moment) -> Option<TimerKey> {
        let (at, key) = self.due.first().copied()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        self.set.remove(&key);
        Some(key)
    }

    pub(crate) fn next(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(crate) fn clear_all(&mut self) {
        self.due.clear();
        self.set.clear();
    }
}
