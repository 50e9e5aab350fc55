//! The state of the whole source, told when it changes.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use lockstep_broker::{LeaseEvent, SourceState};
use lockstep_model::Moment;
use tracing::debug;

use super::Driver;
use crate::problem::{Rank, reason};

impl Driver {
    /// Tells the session's state when it changed.
    pub(super) fn publish(&mut self, now: Moment) {
        if self.joined {
            self.note(now);
        }
        // What the broker adds for each group is no part of what members share.
        let retry = self.shared.config.retry_topic();
        let state = SourceState {
            connected: self.joined && self.is_connected(),
            problem: self.shared.problems.first(),
            queues_total: u32::try_from(self.topology.total(&retry)).unwrap_or(u32::MAX),
            reconnects: self.shared.stats.reconnects.load(Ordering::Relaxed),
        };
        let same_problem = |known: &SourceState| {
            known.problem.as_ref().map(|problem| problem.reason)
                == state.problem.as_ref().map(|problem| problem.reason)
        };
        let unchanged = self.state.as_ref().is_some_and(|known| {
            same_problem(known)
                && (known.connected, known.queues_total, known.reconnects)
                    == (state.connected, state.queues_total, state.reconnects)
        });
        if unchanged || (self.state.is_none() && !self.joined) {
            return;
        }
        match &state.problem {
            Some(problem) => {
                debug!(connected = state.connected, reason = problem.reason, %problem, "source state")
            }
            None => debug!(connected = state.connected, "source state"),
        }
        self.state = Some(state.clone());
        self.outbox.push(LeaseEvent::Source(state));
    }

    /// Notes troubles that no request brings to light.
    fn note(&mut self, now: Moment) {
        let fresh = self.machine.waits_for_fresh(now);
        let problems = &self.shared.problems;
        match fresh {
            Some(broker) => {
                problems.set(Rank::Note, "fresh", lockstep_broker::Problem {
                    reason: reason::BROKER_RESTARTED,
                    message: format!(
                        "broker {broker} was started less than one lease ago; queues are taken when no lock that it \
                         has forgotten can be in use any more"
                    ),
                    remedy: String::new(),
                });
            }
            None => {
                problems.clear(Rank::Note, "fresh");
            }
        }
    }

    fn is_connected(&self) -> bool {
        let needed: BTreeSet<&Arc<str>> =
            self.membership.allocated().map(|queue| &queue.broker_name).collect();
        let up = |broker: &&Arc<str>| self.shared.masters.get(broker).is_some();
        self.membership.is_member()
            && self.topology.total(&self.shared.config.retry_topic()) > 0
            && needed.iter().all(up)
    }
}
