//! The places at which locked queues begin, and what the broker's place says about a queue in doubt.

use lockstep_model::{Moment, Position};

use super::{
    Action, FAILED_AGAIN, Machine, Ticket, Verdict,
    line::{Doubt, State},
};
use crate::protocol::MessageQueue;

impl Machine {
    pub(super) fn find_position(&mut self, queue: &MessageQueue, ticket: Ticket, not_after: Moment) {
        self.actions.push_back(Action::FindPosition { queue: queue.clone(), ticket, not_after });
    }

    /// Where to begin was found and committed, or could not be.
    pub(in crate::keeper) fn positioned(
        &mut self,
        now: Moment,
        queue: &MessageQueue,
        ticket: Ticket,
        found: Option<Position>,
    ) {
        self.expire(now);
        let Some(line) = self.lines.get_mut(queue) else { return };
        let State::Positioning { deadline, asked, ticket: current, .. } = line.state else { return };
        if current != Some(ticket) {
            return;
        }
        match found {
            Some(cursor) => {
                let epoch = self.epochs.advance();
                line.state = State::Owned { epoch, deadline, asked, revoking: false, doubt: Doubt::None };
                self.actions.push_back(Action::Acquired { queue: queue.clone(), epoch, deadline, cursor });
            }
            None => {
                line.state = State::Positioning { deadline, asked, ticket: None, again: now + FAILED_AGAIN }
            }
        }
        self.tick(now);
    }

    /// The broker's committed position was compared with ours, or could not be.
    pub(in crate::keeper) fn verified(
        &mut self,
        now: Moment,
        queue: &MessageQueue,
        ticket: Ticket,
        verdict: Option<Verdict>,
    ) {
        self.expire(now);
        let next = self.ticket();
        let Some(line) = self.lines.get_mut(queue) else { return };
        let State::Owned { epoch, deadline, asked, doubt, .. } = &mut line.state else { return };
        let Doubt::Checking { ticket: current, deadline: granted_until, asked: asked_again } = *doubt else {
            return;
        };
        if current != ticket {
            return;
        }
        let epoch = *epoch;
        match verdict {
            None => *doubt = Doubt::Lost { at: now + FAILED_AGAIN },
            Some(Verdict::Ahead) => {
                self.actions.push_back(Action::Lost { queue: queue.clone(), epoch });
                line.turn = next;
                line.state = State::Positioning {
                    deadline: granted_until,
                    asked: asked_again,
                    ticket: Some(next),
                    again: now,
                };
                self.find_position(queue, next, granted_until);
                if !self.lines.get(queue).is_some_and(|line| line.assigned) {
                    self.drop_line(queue);
                }
            }
            Some(Verdict::Ours | Verdict::Moved(_)) => {
                (*deadline, *asked, *doubt) = (granted_until, asked_again, Doubt::None);
                self.actions.push_back(Action::Renewed {
                    queue: queue.clone(),
                    epoch,
                    deadline: granted_until,
                });
                if let Some(Verdict::Moved(to)) = verdict {
                    self.actions.push_back(Action::Moved { queue: queue.clone(), epoch, to });
                }
            }
        }
        self.tick(now);
    }
}
