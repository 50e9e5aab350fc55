//! Brokers that come and go: which can be asked, which queues their going puts in doubt, and what may be locked early on
//! one that has forgotten its locks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lockstep_model::Moment;

use super::{
    Action, Machine,
    line::{Doubt, Line, State},
};
use crate::protocol::MessageQueue;

#[derive(Debug, Default)]
pub(super) struct BrokerState {
    pub(super) up: bool,
    /// Until then it may have forgotten locks that are still in use.
    pub(super) fresh_until: Moment,
    /// Queues held when the connection broke, until others can have taken their locks regularly.
    pub(super) held: BTreeMap<MessageQueue, Moment>,
    pub(super) renewing: bool,
    pub(super) asking: bool,
    /// Not before this moment after a failure.
    pub(super) renew_again: Moment,
    pub(super) ask_again: Moment,
}

impl BrokerState {
    pub(super) fn may_lock(&self, queue: &MessageQueue, now: Moment) -> bool {
        now >= self.fresh_until || self.held.contains_key(queue)
    }
}

impl Machine {
    /// A broker for which a wanted queue waits, because it may have forgotten locks that are still in use.
    pub(in crate::keeper) fn waits_for_fresh(&self, now: Moment) -> Option<Arc<str>> {
        let waits = |queue: &MessageQueue, line: &Line| {
            let broker = self.brokers.get(&queue.broker_name);
            matches!(line.state, State::Wanted { .. })
                && broker.is_some_and(|b| b.up && !b.may_lock(queue, now))
        };
        self.lines
            .iter()
            .find(|(queue, line)| waits(queue, line))
            .map(|(queue, _)| Arc::clone(&queue.broker_name))
    }

    /// A broker can be asked again; `fresh_for` is how long it may still have forgotten locks that are in use.
    pub(in crate::keeper) fn link_up(&mut self, now: Moment, broker: &Arc<str>, fresh_for: Duration) {
        self.expire(now);
        let state = self.brokers.entry(Arc::clone(broker)).or_default();
        state.up = true;
        state.fresh_until = now + fresh_for;
        (state.renewing, state.asking) = (false, false);
        (state.renew_again, state.ask_again) = (now, now);
        self.tick(now);
    }

    /// The connection to a broker is lost.
    pub(in crate::keeper) fn link_down(&mut self, now: Moment, broker: &Arc<str>) {
        self.expire(now);
        let state = self.brokers.entry(Arc::clone(broker)).or_default();
        state.up = false;
        state.held.retain(|_, until| *until > now);
        self.asks.retain(|_, ask| ask.broker != *broker);
        for (queue, line) in self.lines.iter_mut().filter(|(queue, _)| queue.broker_name == *broker) {
            if let Some(deadline) = line.held_deadline() {
                state.held.insert(queue.clone(), deadline + self.timing.lease);
            }
            match &mut line.state {
                State::Wanted { .. } | State::Releasing { .. } => {}
                State::Asking | State::Positioning { .. } => line.want(now),
                State::Owned { epoch, doubt, .. } => {
                    if *doubt == Doubt::None {
                        self.actions.push_back(Action::Doubtful { queue: queue.clone(), epoch: *epoch });
                    }
                    *doubt = Doubt::Lost { at: now };
                }
            }
        }
    }
}
