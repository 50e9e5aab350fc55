//! Requests for locks, at most one for new ones and one for renewals on its way to each broker, and their answers.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use lockstep_model::Moment;

use super::{
    Action, FAILED_AGAIN, Machine, Ticket,
    line::{Doubt, Line, State},
};
use crate::protocol::MessageQueue;

/// How soon a refused lock of an allocated queue is asked for again: a member that gives a queue up unlocks it at once.
const REFUSED_AGAIN: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(super) struct Ask {
    pub(super) broker: Arc<str>,
    sent: Moment,
    renewal: bool,
    queues: Vec<(MessageQueue, u64)>,
}

impl Machine {
    pub(super) fn ask_due(&mut self, now: Moment, name: &Arc<str>, renewal: bool) {
        let Some(broker) = self.brokers.get_mut(name).filter(|broker| broker.up) else { return };
        let (busy, again) = if renewal {
            (broker.renewing, broker.renew_again)
        } else {
            broker.held.retain(|_, until| *until > now);
            (broker.asking, broker.ask_again)
        };
        if busy || again > now {
            return;
        }
        let every = self.timing.renew_every;
        let ours = || self.lines.iter().filter(|(queue, _)| queue.broker_name == *name);
        let queues: Vec<(MessageQueue, u64)> = if renewal {
            if !ours().any(|(_, line)| line.renew_due(every).is_some_and(|due| due <= now)) {
                return;
            }
            // All at once: one request, one rhythm.
            ours()
                .filter(|(_, line)| line.renew_due(every).is_some())
                .map(|(q, line)| (q.clone(), line.turn))
                .collect()
        } else {
            let acquiring = self.acquiring && self.joined;
            ours()
                .filter(|(_, line)| line.ask_due().is_some_and(|due| due <= now))
                .filter(|(queue, line)| match line.state {
                    State::Owned { .. } => true,
                    State::Wanted { .. }
                    | State::Asking
                    | State::Positioning { .. }
                    | State::Releasing { .. } => {
                        acquiring && broker.may_lock(queue, now) && !self.unlocking.contains_key(queue)
                    }
                })
                .map(|(queue, line)| (queue.clone(), line.turn))
                .collect()
        };
        if queues.is_empty() {
            return;
        }
        if renewal {
            broker.renewing = true
        } else {
            broker.asking = true
        }
        for (queue, _) in &queues {
            match self.lines.get_mut(queue).map(|line| &mut line.state) {
                Some(state @ State::Wanted { .. }) => *state = State::Asking,
                Some(State::Owned { doubt: doubt @ Doubt::Lost { .. }, .. }) => *doubt = Doubt::Asking,
                Some(_) | None => {}
            }
        }
        let ticket = self.ticket();
        let keys = queues.iter().map(|(queue, _)| queue.clone()).collect();
        self.asks.insert(ticket, Ask { broker: Arc::clone(name), sent: now, renewal, queues });
        self.actions.push_back(Action::Lock { broker: Arc::clone(name), ticket, queues: keys });
    }

    /// A request for locks was answered with those granted, or failed.
    pub(in crate::keeper) fn locked(
        &mut self,
        now: Moment,
        ticket: Ticket,
        granted: Option<&BTreeSet<MessageQueue>>,
    ) {
        self.expire(now);
        let Some(ask) = self.asks.remove(&ticket) else { return };
        let state = self.brokers.entry(Arc::clone(&ask.broker)).or_default();
        let again = if granted.is_some() { now } else { now.max(ask.sent + FAILED_AGAIN) };
        if ask.renewal {
            (state.renewing, state.renew_again) = (false, again);
        } else {
            (state.asking, state.ask_again) = (false, again);
        }
        for (queue, turn) in ask.queues {
            let answer = granted.map(|granted| granted.contains(&queue));
            match self.lines.get(&queue) {
                Some(line) if line.turn == turn => self.answer(now, ask.sent, &queue, answer),
                // Granted and not wanted any more. A broker works on several requests at a time, so that a renewal may
                // have come after the unlock that was sent behind it.
                Some(Line { state: State::Releasing { .. }, .. }) | None if answer == Some(true) => {
                    self.unlock_quietly(&queue);
                }
                Some(_) | None => {}
            }
        }
        self.tick(now);
    }

    fn answer(&mut self, now: Moment, asked: Moment, queue: &MessageQueue, answer: Option<bool>) {
        let granted_until = asked + self.timing.lease;
        let ticket = self.ticket();
        let Some(line) = self.lines.get_mut(queue) else { return };
        match (&mut line.state, answer) {
            (State::Asking, None) => line.want(now),
            (State::Asking | State::Positioning { .. }, Some(false)) => {
                line.want(now + REFUSED_AGAIN);
                self.refused(queue);
            }
            (State::Asking, Some(true)) if granted_until <= now => line.want(now),
            (State::Asking, Some(true)) => {
                line.state =
                    State::Positioning { deadline: granted_until, asked, ticket: Some(ticket), again: now };
                self.find_position(queue, ticket, granted_until);
            }
            (State::Positioning { deadline, asked: last, .. }, Some(true)) => {
                (*deadline, *last) = (granted_until.max(*deadline), asked.max(*last));
            }
            (State::Owned { epoch, .. }, Some(false)) => {
                let epoch = *epoch;
                self.actions.push_back(Action::Lost { queue: queue.clone(), epoch });
                self.refused(queue);
                self.want_or_drop(queue, now + REFUSED_AGAIN);
            }
            (State::Owned { epoch, deadline, asked: last, doubt: Doubt::None, .. }, Some(true)) => {
                if granted_until > *deadline {
                    (*deadline, *last) = (granted_until, asked);
                    let renewed =
                        Action::Renewed { queue: queue.clone(), epoch: *epoch, deadline: granted_until };
                    self.actions.push_back(renewed);
                }
            }
            (State::Owned { epoch, deadline, doubt: doubt @ Doubt::Asking, .. }, Some(true)) => {
                *doubt = Doubt::Checking { ticket, deadline: granted_until, asked };
                let verify =
                    Action::Verify { queue: queue.clone(), ticket, epoch: *epoch, not_after: *deadline };
                self.actions.push_back(verify);
            }
            (State::Owned { doubt: doubt @ Doubt::Asking, .. }, None) => *doubt = Doubt::Lost { at: now },
            (
                State::Owned { .. }
                | State::Positioning { .. }
                | State::Wanted { .. }
                | State::Releasing { .. },
                _,
            ) => {}
        }
    }

    fn refused(&mut self, queue: &MessageQueue) {
        self.actions.push_back(Action::Refused);
        // Another owner is certain: the queue is not ours to lock early any more.
        if let Some(broker) = self.brokers.get_mut(&queue.broker_name) {
            broker.held.remove(queue);
        }
    }
}
