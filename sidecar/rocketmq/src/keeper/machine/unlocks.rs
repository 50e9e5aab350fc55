//! Locks that are given back, with the shell waiting for it or without.

use lockstep_model::{Epoch, Moment};

use super::{Action, Machine, Ticket, line::State};
use crate::protocol::MessageQueue;

impl Machine {
    /// Gives one queue back.
    pub(in crate::keeper) fn release(&mut self, now: Moment, queue: &MessageQueue, epoch: Epoch) {
        self.expire(now);
        let ticket = self.ticket();
        let Some(line) = self.lines.get_mut(queue) else { return };
        match line.state {
            State::Owned { epoch: current, .. } if current == epoch => {
                line.turn = ticket;
                line.state = State::Releasing { epoch, ticket };
                self.unlock(queue, ticket);
            }
            State::Owned { .. }
            | State::Wanted { .. }
            | State::Asking
            | State::Positioning { .. }
            | State::Releasing { .. } => {}
        }
    }

    /// An unlock was answered, or will never be: then the lock runs out at the broker.
    pub(in crate::keeper) fn unlocked(&mut self, now: Moment, queue: &MessageQueue, ticket: Ticket) {
        if let Some(count) = self.unlocking.get_mut(queue) {
            *count -= 1;
            if *count == 0 {
                self.unlocking.remove(queue);
            }
        }
        self.tick(now);
        let Some(line) = self.lines.get_mut(queue) else { return };
        let State::Releasing { epoch, ticket: current } = line.state else { return };
        if current != ticket {
            return;
        }
        self.actions.push_back(Action::Released { queue: queue.clone(), epoch });
        self.want_or_drop(queue, now);
        self.tick(now);
    }

    /// Forgets a queue and gives its lock back without waiting for it.
    pub(super) fn drop_line(&mut self, queue: &MessageQueue) {
        if self.lines.remove(queue).is_some_and(|line| line.held_deadline().is_some()) {
            self.unlock_quietly(queue);
        }
    }

    pub(super) fn unlock_quietly(&mut self, queue: &MessageQueue) {
        let ticket = self.ticket();
        self.unlock(queue, ticket);
    }

    fn unlock(&mut self, queue: &MessageQueue, ticket: Ticket) {
        *self.unlocking.entry(queue.clone()).or_default() += 1;
        // From here on another member can take it regularly.
        if let Some(broker) = self.brokers.get_mut(&queue.broker_name) {
            broker.held.remove(queue);
        }
        self.actions.push_back(Action::Unlock { queue: queue.clone(), ticket });
    }
}
