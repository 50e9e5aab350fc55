//! What is done while another process has our client id: a broker can't tell its locks from ours.

use lockstep_model::Moment;

use super::{
    Action, Machine,
    line::{Line, State},
};
use crate::protocol::MessageQueue;

impl Machine {
    /// Stops or allows new locks.
    pub(in crate::keeper) fn allow_acquiring(&mut self, allowed: bool) {
        self.acquiring = allowed;
    }

    /// Forgets every lock without giving it back: another process has them under our name. No answer counts
    /// any more, so that all connections are to go down and up after it.
    pub(in crate::keeper) fn forsake(&mut self, now: Moment) {
        self.acquiring = false;
        self.asks.clear();
        // The other may have given any of them to a third by now.
        self.brokers.values_mut().for_each(|broker| broker.held.clear());
        let held: Vec<MessageQueue> = self.lines.keys().cloned().collect();
        for queue in held {
            if let Some(Line { state: State::Owned { epoch, .. }, .. }) = self.lines.get(&queue) {
                self.actions.push_back(Action::Lost { queue: queue.clone(), epoch: *epoch });
            }
            if !matches!(self.lines.get(&queue), Some(Line { state: State::Releasing { .. }, .. })) {
                self.want_or_drop(&queue, now);
            }
        }
    }
}
