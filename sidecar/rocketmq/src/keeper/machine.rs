//! The states of this member's queues, without I/O and without a clock: what happened goes in, what to do comes out.
//! Here is what the driver sees; each room owns the inputs of one topic.

mod allocation;
mod connections;
mod line;
mod locks;
mod positions;
mod time;
mod twins;
mod unlocks;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use lockstep_broker::EpochClock;
use lockstep_model::{Epoch, Moment, Position};

use self::{
    connections::BrokerState,
    line::{Line, State},
    locks::Ask,
};
use crate::protocol::MessageQueue;

/// How soon a failed request is repeated.
const FAILED_AGAIN: Duration = Duration::from_secs(1);

/// Matches an answer with what was asked.
pub(super) type Ticket = u64;

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Ask a broker for the locks of its queues; held ones are renewed by it. Answer with [`Machine::locked`].
    Lock { broker: Arc<str>, ticket: Ticket, queues: Vec<MessageQueue> },
    /// Give a lock back. Answer with [`Machine::unlocked`].
    Unlock { queue: MessageQueue, ticket: Ticket },
    /// Find where to begin and commit it. Answer with [`Machine::positioned`].
    FindPosition { queue: MessageQueue, ticket: Ticket, not_after: Moment },
    /// Compare the broker's committed position with ours. Answer with [`Machine::verified`].
    Verify { queue: MessageQueue, ticket: Ticket, epoch: Epoch, not_after: Moment },
    /// The queue is ours.
    Acquired { queue: MessageQueue, epoch: Epoch, deadline: Moment, cursor: Position },
    /// The lease lives on.
    Renewed { queue: MessageQueue, epoch: Epoch, deadline: Moment },
    /// The connection to the queue's broker is lost.
    Doubtful { queue: MessageQueue, epoch: Epoch },
    /// The group gave the queue to another member.
    Revoking { queue: MessageQueue, epoch: Epoch },
    /// It stays with us after all.
    RevocationCancelled { queue: MessageQueue, epoch: Epoch },
    /// The ownership is over.
    Lost { queue: MessageQueue, epoch: Epoch },
    /// The queue was given back.
    Released { queue: MessageQueue, epoch: Epoch },
    /// The broker's committed position holds, not ours.
    Moved { queue: MessageQueue, epoch: Epoch, to: Position },
    /// A lock was refused (for the counters).
    Refused,
}

/// What a comparison with the broker's committed position found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is ours, or older and was committed again.
    Ours,
    /// It is older and our own place can't be proven any more: the broker's holds.
    Moved(Position),
    /// It is above what we ever sent: somebody else owned the queue in between.
    Ahead,
}

/// Durations that follow from the lock's lifetime.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// How long a lock counts as ours after it was asked for.
    pub(super) lease: Duration,
    /// How often it is renewed.
    pub(super) renew_every: Duration,
}

/// All queues that this member wants or holds. At most as many as the group has.
#[derive(Debug)]
pub(super) struct Machine {
    timing: Timing,
    epochs: EpochClock,
    joined: bool,
    /// Off while another process with our client id is alive: the broker can't keep the two apart.
    acquiring: bool,
    lines: BTreeMap<MessageQueue, Line>,
    brokers: BTreeMap<Arc<str>, BrokerState>,
    asks: BTreeMap<Ticket, Ask>,
    /// Unlocks on their way. Until they are answered no lock is asked for: a broker works on several requests at a
    /// time, and an unlock that it does after the lock would leave us believing in a lock that anybody can take.
    unlocking: BTreeMap<MessageQueue, u32>,
    last_ticket: Ticket,
    actions: VecDeque<Action>,
}

impl Machine {
    pub(super) fn new(timing: Timing, epochs: EpochClock) -> Self {
        Self {
            timing,
            epochs,
            joined: false,
            acquiring: true,
            lines: BTreeMap::new(),
            brokers: BTreeMap::new(),
            asks: BTreeMap::new(),
            unlocking: BTreeMap::new(),
            last_ticket: 0,
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do, until there is none.
    pub(super) fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether nothing is wanted or held, and neither a lock nor an unlock is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.asks.is_empty() && self.unlocking.is_empty()
    }

    /// Whether a queue that was owned is being given back.
    pub(super) fn is_releasing(&self) -> bool {
        self.lines.values().any(|line| matches!(line.state, State::Releasing { .. }))
    }

    /// Whether every allocated queue is ours and nothing else is.
    pub(super) fn is_achieved(&self) -> bool {
        self.lines.values().all(|line| line.assigned && matches!(line.state, State::Owned { .. }))
    }

    /// Whether a queue's lock is ours: it is owned, or where to begin is being found.
    pub(super) fn holds(&self, queue: &MessageQueue) -> bool {
        self.lines.get(queue).is_some_and(|line| line.held_deadline().is_some())
    }

    /// The owned queues.
    pub(super) fn owned(&self) -> impl Iterator<Item = (&MessageQueue, Epoch)> {
        self.lines.iter().filter_map(|(queue, line)| match line.state {
            State::Owned { epoch, .. } => Some((queue, epoch)),
            State::Wanted { .. } | State::Asking | State::Positioning { .. } | State::Releasing { .. } => {
                None
            }
        })
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        self.last_ticket
    }
}

#[cfg(test)]
mod tests;
