//! What the session as a whole is told to be.

use lockstep_broker::{LeaseEvent, Problem, SourceState, reason};

use super::{Driver, Leaving, Link};
use crate::Sessions;

impl<S: Sessions> Driver<S> {
    /// Tells the session's state when it has changed.
    pub(super) fn tell_source(&mut self) {
        if !self.joined && self.leaving == Leaving::No {
            return;
        }
        let up = matches!(self.link, Link::Up(_));
        let mut reached = self.queues.iter().map(|queue| queue.machine.is_reached());
        let connected = up && (reached.any(|reached| reached) || self.leaving != Leaving::No);
        let problem = self.sessions.problems().first().or_else(|| self.idle());
        let state = SourceState {
            connected,
            problem,
            queues_total: u32::try_from(self.queues.len()).unwrap_or(u32::MAX),
            reconnects: self.connections.saturating_sub(1),
        };
        if self.told.as_ref() != Some(&state) {
            self.told = Some(state.clone());
            self.outbox.push(LeaseEvent::Source(state));
        }
    }

    /// A member to whom no queue is given has nothing to do.
    fn idle(&self) -> Option<Problem> {
        let given = self.queues.iter().any(|queue| queue.machine.is_wanted() || queue.machine.is_owned());
        let idle = self.leaving == Leaving::No && !self.queues.is_empty() && !given;
        idle.then(|| Problem {
            reason: reason::MORE_MEMBERS_THAN_QUEUES,
            message: format!("there are more members than the {} queues", self.queues.len()),
            remedy: "lower the replicas or add queues".to_owned(),
        })
    }
}
