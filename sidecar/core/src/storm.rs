//! The dead-letter storm guard: a bad deploy must not flush a queue.

/// Counts messages that reached `DeadLetter` or `Skip` in a row.
#[derive(Debug, Default)]
pub(crate) struct Storm {
    in_row: u32,
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

    /// One more distinct message wants to leave. The `threshold`-th is held; 0 switches the guard off.
    pub(crate) fn admit(&mut self, threshold: u32) -> Admission {
        if threshold > 0 && self.in_row.saturating_add(1) >= threshold {
            let opened = !std::mem::replace(&mut self.open, true);
            return Admission::Refused { opened };
        }
        self.in_row = self.in_row.saturating_add(1);
        Admission::Admitted
    }

    /// A message was done. Returns whether a count was forgotten and whether it was open.
    pub(crate) fn done(&mut self) -> (bool, bool) {
        (std::mem::take(&mut self.in_row) > 0, std::mem::take(&mut self.open))
    }
}
