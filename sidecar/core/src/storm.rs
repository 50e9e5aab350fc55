//! The dead-letter storm guard: a bad deploy must not flush a queue.

use std::collections::BTreeSet;

use lockstep_model::{Identity, QueueId};

/// Counts messages that reached `DeadLetter` or `Skip` in a row.
#[derive(Debug, Default)]
pub(crate) struct Storm {
    in_row: u32,
    /// Which, at most the threshold: one whose dead letter failed and that comes again is not another one.
    counted: BTreeSet<(QueueId, Identity)>,
    open: bool,
}

/// What the guard says to one more message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Let it go.
    Admitted,
    /// Hold it; `opened` when the storm is assumed from now on.
    Refused {
        /// It was not open before.
        opened: bool,
    },
}

impl Storm {
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) fn in_row(&self) -> u32 {
        self.in_row
    }

    /// Goes on from an earlier life of the process.
    pub(crate) fn restore(&mut self, in_row: u32) {
        self.in_row = self.in_row.max(in_row);
    }

    /// A message wants to leave. The `threshold`-th distinct one is held; 0 switches the guard off.
    pub(crate) fn admit(&mut self, threshold: u32, queue: QueueId, identity: Identity) -> Admission {
        let message = (queue, identity);
        if self.counted.contains(&message) {
            return Admission::Admitted;
        }
        if threshold > 0 && self.in_row.saturating_add(1) >= threshold {
            let opened = !std::mem::replace(&mut self.open, true);
            return Admission::Refused { opened };
        }
        self.in_row = self.in_row.saturating_add(1);
        if threshold > 0 && message.1 != Identity::None {
            self.counted.insert(message);
        }
        Admission::Admitted
    }

    /// A message was done. Returns whether a count was forgotten and whether it was open.
    pub(crate) fn done(&mut self) -> (bool, bool) {
        self.counted.clear();
        (std::mem::take(&mut self.in_row) > 0, std::mem::take(&mut self.open))
    }
}
