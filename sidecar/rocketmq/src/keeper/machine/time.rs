//! What time brings: leases that end, requests that are due, and when to look again.

use std::sync::Arc;

use lockstep_model::Moment;

use super::{
    Action, Machine,
    line::{Line, State},
};
use crate::protocol::MessageQueue;

impl Machine {
    /// Ends leases whose time is over, before anything else is looked at: the process may have been frozen.
    pub(super) fn expire(&mut self, now: Moment) {
        let over: Vec<MessageQueue> = self
            .lines
            .iter()
            .filter(|(_, line)| line.held_deadline().is_some_and(|deadline| deadline <= now))
            .map(|(queue, _)| queue.clone())
            .collect();
        for queue in over {
            if let Some(Line { state: State::Owned { epoch, .. }, .. }) = self.lines.get(&queue) {
                self.actions.push_back(Action::Lost { queue: queue.clone(), epoch: *epoch });
            }
            self.want_or_drop(&queue, now);
        }
    }

    /// Does what is due.
    pub(in crate::keeper) fn tick(&mut self, now: Moment) {
        self.expire(now);
        let brokers: Vec<Arc<str>> = self.brokers.keys().cloned().collect();
        for broker in brokers {
            self.ask_due(now, &broker, true);
            self.ask_due(now, &broker, false);
        }
        let due: Vec<(MessageQueue, Moment)> = self
            .lines
            .iter()
            .filter_map(|(queue, line)| match line.state {
                State::Positioning { ticket: None, again, deadline, .. } if again <= now => {
                    Some((queue.clone(), deadline))
                }
                State::Positioning { .. }
                | State::Wanted { .. }
                | State::Asking
                | State::Owned { .. }
                | State::Releasing { .. } => None,
            })
            .collect();
        for (queue, not_after) in due {
            let next = self.ticket();
            if let Some(Line { state: State::Positioning { ticket, .. }, .. }) = self.lines.get_mut(&queue) {
                *ticket = Some(next);
            }
            self.find_position(&queue, next, not_after);
        }
    }

    /// When [`Machine::tick`] has something to do at the latest.
    pub(in crate::keeper) fn wake(&self) -> Option<Moment> {
        let mut wake: Option<Moment> = None;
        let mut at = |moment: Moment| wake = Some(wake.map_or(moment, |w| w.min(moment)));
        for (queue, line) in &self.lines {
            if let Some(deadline) = line.held_deadline() {
                at(deadline);
            }
            if let State::Positioning { ticket: None, again, .. } = line.state {
                at(again);
            }
            let Some(broker) = self.brokers.get(&queue.broker_name).filter(|broker| broker.up) else {
                continue;
            };
            if let (Some(due), false) = (line.renew_due(self.timing.renew_every), broker.renewing) {
                at(due.max(broker.renew_again));
            }
            if let (Some(due), false) = (line.ask_due(), broker.asking) {
                let fresh = if broker.held.contains_key(queue) { Moment::ZERO } else { broker.fresh_until };
                let acquiring = self.acquiring && !self.unlocking.contains_key(queue);
                let open = acquiring || matches!(line.state, State::Owned { .. });
                if open {
                    at(due.max(broker.ask_again).max(fresh));
                }
            }
        }
        wake
    }
}
