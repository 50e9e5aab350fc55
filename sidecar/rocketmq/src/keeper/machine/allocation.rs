//! Which queues are to be ours: what the group allocates to this member, from joining until leaving.

use std::collections::BTreeSet;

use lockstep_model::Moment;

use super::{
    Action, Machine,
    line::{Line, State},
};
use crate::protocol::MessageQueue;

impl Machine {
    pub(in crate::keeper) fn join(&mut self) {
        self.joined = true;
    }

    /// Wants nothing new; what is owned stays until it is released.
    pub(in crate::keeper) fn leave(&mut self, now: Moment) {
        self.assign(now, &BTreeSet::new(), false);
        self.joined = false;
    }

    /// The group's allocation: everything that belongs to this member.
    pub(in crate::keeper) fn assign(&mut self, now: Moment, assigned: &BTreeSet<MessageQueue>, wanted: bool) {
        self.expire(now);
        let mut dropped = Vec::new();
        for (queue, line) in &mut self.lines {
            line.assigned = assigned.contains(queue);
            match &mut line.state {
                State::Owned { epoch, revoking, .. }
                    if *revoking == line.assigned && (wanted || line.assigned) =>
                {
                    *revoking = !line.assigned;
                    let (queue, epoch) = (queue.clone(), *epoch);
                    self.actions.push_back(if line.assigned {
                        Action::RevocationCancelled { queue, epoch }
                    } else {
                        Action::Revoking { queue, epoch }
                    });
                }
                State::Owned { .. } | State::Releasing { .. } => {}
                State::Wanted { .. } | State::Asking | State::Positioning { .. } => {
                    if !line.assigned {
                        dropped.push(queue.clone());
                    }
                }
            }
        }
        for queue in dropped {
            self.drop_line(&queue);
        }
        for queue in assigned {
            let turn = self.ticket();
            self.lines.entry(queue.clone()).or_insert_with(|| Line {
                assigned: true,
                turn,
                state: State::Wanted { at: now },
            });
        }
        self.tick(now);
    }

    /// Queues that do not exist any more.
    pub(in crate::keeper) fn removed(&mut self, now: Moment, queues: &BTreeSet<MessageQueue>) {
        self.expire(now);
        for queue in queues {
            match self.lines.get_mut(queue) {
                Some(line @ Line { state: State::Releasing { .. }, .. }) => line.assigned = false,
                Some(Line { state: State::Owned { epoch, .. }, .. }) => {
                    self.actions.push_back(Action::Lost { queue: queue.clone(), epoch: *epoch });
                    self.drop_line(queue);
                }
                Some(_) => self.drop_line(queue),
                None => {}
            }
        }
    }

    pub(super) fn want_or_drop(&mut self, queue: &MessageQueue, at: Moment) {
        let turn = self.ticket();
        match self.lines.get_mut(queue) {
            Some(line) if line.assigned && self.joined => {
                line.turn = turn;
                line.state = State::Wanted { at };
            }
            Some(_) => {
                self.lines.remove(queue);
            }
            None => {}
        }
    }
}
