//! What this member knows of one queue, and when something is due for it. Knows nothing of brokers and of other queues.

use std::time::Duration;

use lockstep_model::{Epoch, Moment};

use super::Ticket;

#[derive(Debug)]
pub(super) struct Line {
    /// Whether the group's allocation gives it to this member.
    pub(super) assigned: bool,
    /// Changes whenever answers to earlier requests cease to concern it.
    pub(super) turn: u64,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    /// Its lock is to be asked for.
    Wanted { at: Moment },
    /// Its lock is being asked for.
    Asking,
    /// Locked; where to begin is being found (`ticket`) or will be at `again`.
    Positioning { deadline: Moment, asked: Moment, ticket: Option<Ticket>, again: Moment },
    /// Ours.
    Owned { epoch: Epoch, deadline: Moment, asked: Moment, revoking: bool, doubt: Doubt },
    /// Being unlocked.
    Releasing { epoch: Epoch, ticket: Ticket },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    None,
    /// The connection was lost; the lock is to be asked for again.
    Lost {
        at: Moment,
    },
    /// It is being asked for.
    Asking,
    /// It was granted until `deadline`; the committed position is being compared.
    Checking {
        ticket: Ticket,
        deadline: Moment,
        asked: Moment,
    },
}

impl Line {
    pub(super) fn want(&mut self, at: Moment) {
        self.state = State::Wanted { at };
    }

    /// When the lease of a held lock ends.
    pub(super) fn held_deadline(&self) -> Option<Moment> {
        match self.state {
            State::Positioning { deadline, .. } | State::Owned { deadline, .. } => Some(deadline),
            State::Wanted { .. } | State::Asking | State::Releasing { .. } => None,
        }
    }

    /// When the lock is to be renewed.
    pub(super) fn renew_due(&self, every: Duration) -> Option<Moment> {
        match self.state {
            State::Positioning { asked, .. } | State::Owned { asked, doubt: Doubt::None, .. } => {
                Some(asked + every)
            }
            State::Owned { .. } | State::Wanted { .. } | State::Asking | State::Releasing { .. } => None,
        }
    }

    /// When the lock is to be asked for (again).
    pub(super) fn ask_due(&self) -> Option<Moment> {
        match self.state {
            State::Wanted { at } | State::Owned { doubt: Doubt::Lost { at }, .. } => Some(at),
            State::Owned { .. } | State::Asking | State::Positioning { .. } | State::Releasing { .. } => None,
        }
    }
}
