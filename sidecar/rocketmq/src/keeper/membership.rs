//! Routes, members and this member's share of the queues.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use lockstep_broker::Problem;
use lockstep_model::Moment;
use tracing::{info, warn};

use super::{
    driver::Driver,
    jobs::{self, MembersError},
    topology::Looked,
};
use crate::{
    allocate::average,
    problem::{Peer, Rank, create_group, create_topic, reason},
    protocol::MessageQueue,
    shared::{AskError, Stats},
};

/// As for the Java client.
const ROUTES: Duration = Duration::from_secs(30);
/// While a topic is missing, a broker is away or a route proved stale.
const ROUTES_UNSETTLED: Duration = Duration::from_secs(1);
/// As for the Java client.
const REBALANCE: Duration = Duration::from_secs(20);
/// While not every allocated queue is ours, and the least distance of two, as for the Java client.
const REBALANCE_UNSETTLED: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Membership {
    routes_due: Moment,
    routes_pending: usize,
    /// Which name server to ask first.
    server: usize,
    rebalanced: Option<Moment>,
    wanted: bool,
    /// Topics whose members are being asked for.
    pending: BTreeSet<Arc<str>>,
    /// Which broker of a topic to ask.
    rotation: usize,
    /// This member's share of each topic.
    shares: BTreeMap<Arc<str>, BTreeSet<MessageQueue>>,
    /// Topics whose kind was looked at.
    vetted: BTreeSet<Arc<str>>,
    /// Brokers that list us.
    listed: BTreeSet<Arc<str>>,
    /// Brokers that list us twice.
    twice: BTreeSet<Arc<str>>,
    members: usize,
}

impl Membership {
    pub(super) fn begin(&mut self, now: Moment) {
        self.routes_due = now;
        self.wanted = true;
    }

    pub(super) fn end(&mut self) {
        self.shares.clear();
        self.listed.clear();
        self.twice.clear();
    }

    pub(super) fn routes_are_stale(&mut self, now: Moment) {
        self.routes_due = self.routes_due.min(now + ROUTES_UNSETTLED);
    }

    pub(super) fn rebalance_soon(&mut self) {
        self.wanted = true;
    }

    pub(super) fn allocated(&self) -> impl Iterator<Item = &MessageQueue> {
        self.shares.values().flatten()
    }

    /// Whether some broker lists us.
    pub(super) fn is_member(&self) -> bool {
        !self.listed.is_empty()
    }
}

impl Driver {
    fn routes_unsettled(&self) -> bool {
        let retry = self.shared.config.retry_topic();
        self.topology.missing().any(|topic| **topic != *retry)
            || self.topology.vanished().next().is_some()
            || !self.topology.without_master().is_empty()
            || !self.links.are_up()
    }

    pub(super) fn look_up_routes(&mut self, now: Moment) {
        if self.membership.routes_due > now || self.membership.routes_pending > 0 {
            return;
        }
        self.membership.routes_due = now + ROUTES;
        let topics: Vec<Arc<str>> = self.topology.topics().cloned().collect();
        for topic in topics {
            self.membership.routes_pending += 1;
            self.start(jobs::route(Arc::clone(&self.shared), topic, self.membership.server));
        }
    }

    pub(super) fn routes_wake(&self, _now: Moment) -> Option<Moment> {
        (self.membership.routes_pending == 0).then_some(self.membership.routes_due)
    }

    pub(super) fn looked_up(&mut self, now: Moment, topic: &Arc<str>, looked: Result<Looked, Problem>) {
        self.membership.routes_pending = self.membership.routes_pending.saturating_sub(1);
        match looked {
            Ok(looked) => {
                self.shared.problems.clear(Rank::NameServers, "");
                self.shared.problems.clear(Rank::NameServers, topic);
                let before = self.topology.queues(topic);
                let gone = self.topology.take(now, topic, looked);
                if !gone.is_empty() {
                    warn!(%topic, queues = gone.len(), "queues are gone from the route");
                    self.machine.removed(now, &gone);
                }
                if before != self.topology.queues(topic) {
                    info!(%topic, before = before.len(), now = self.topology.queues(topic).len(), "queues of the topic");
                    self.membership.wanted = true;
                }
                self.note_topic(topic);
            }
            Err(problem) => {
                self.membership.server = self.membership.server.wrapping_add(1);
                let rank = if problem.reason == reason::NAME_SERVER_UNREACHABLE { "" } else { topic };
                self.shared.problems.set(Rank::NameServers, rank, problem);
                self.membership.routes_due = self.membership.routes_due.min(now + ROUTES_UNSETTLED);
            }
        }
        // The retry topic appears with the first member, so that a missing one is looked up again only when the rest is.
        if self.membership.routes_pending == 0 && self.routes_unsettled() {
            self.membership.routes_due = self.membership.routes_due.min(now + ROUTES_UNSETTLED);
        }
    }

    fn note_topic(&mut self, topic: &Arc<str>) {
        let problems = &self.shared.problems;
        let about = self.shared.about(Peer::NameServer, Some(topic));
        let is_retry = **topic == *self.shared.config.retry_topic();
        let unsupported =
            self.topology.unsupported().find(|(name, _)| *name == topic).map(|(_, why)| why.to_owned());
        if let Some(why) = unsupported {
            problems.set(
                Rank::Topic,
                topic.as_ref(),
                Problem {
                    reason: reason::TOPIC_UNSUPPORTED,
                    message: format!("topic {topic} is not served: {why}"),
                    remedy: "subscribe to an ordinary topic".to_owned(),
                },
            );
        } else if self.topology.vanished().any(|queue| queue.topic == *topic) && !is_retry {
            problems.set(
                Rank::Topic,
                topic.as_ref(),
                Problem {
                    reason: reason::BROKER_UNREACHABLE,
                    message: format!(
                        "brokers with queues of topic {topic} are not known to the name servers any more"
                    ),
                    remedy: "start the brokers that are down".to_owned(),
                },
            );
        } else if self.topology.missing().any(|name| name == topic) && !is_retry {
            problems.set(
                Rank::Topic,
                topic.as_ref(),
                Problem {
                    reason: reason::TOPIC_NOT_FOUND,
                    message: format!("topic {topic} does not exist"),
                    remedy: create_topic(about, topic),
                },
            );
        } else {
            problems.clear(Rank::Topic, topic);
        }
        let lacking = self.topology.without_master();
        problems.retain(Rank::Broker, |subject| {
            subject.strip_prefix("master of ").is_none_or(|broker| lacking.contains(broker))
        });
        for broker in lacking {
            problems.set(
                Rank::Broker,
                &format!("master of {broker}"),
                Problem {
                    reason: reason::BROKER_WITHOUT_MASTER,
                    message: format!(
                        "broker {broker} has queues and no master with an address; its queues wait"
                    ),
                    remedy: "start the broker's master".to_owned(),
                },
            );
        }
    }

    pub(super) fn rebalance_wake(&self) -> Option<Moment> {
        if !self.membership.pending.is_empty() {
            return None;
        }
        let last = self.membership.rebalanced?;
        let settled =
            !self.membership.wanted && self.machine.is_achieved() && self.membership.twice.is_empty();
        Some(last + if settled { REBALANCE } else { REBALANCE_UNSETTLED })
    }

    pub(super) fn rebalance(&mut self, now: Moment) {
        let due = self.membership.pending.is_empty() && self.rebalance_wake().is_none_or(|due| due <= now);
        if !due || (self.membership.rebalanced.is_none() && !self.membership.wanted) {
            return;
        }
        let mut asked = false;
        let topics: Vec<Arc<str>> = self.topology.topics().cloned().collect();
        for topic in topics {
            let up: Vec<Arc<str>> = self
                .topology
                .brokers_of(&topic)
                .into_iter()
                .filter(|broker| self.shared.masters.get(broker).is_some())
                .collect();
            let Some(broker) = up.get(self.membership.rotation % up.len().max(1)) else { continue };
            let vetted = self.membership.vetted.contains(&topic);
            self.membership.pending.insert(Arc::clone(&topic));
            self.start(jobs::members(Arc::clone(&self.shared), topic, Arc::clone(broker), vetted));
            asked = true;
        }
        if asked {
            self.membership.rotation = self.membership.rotation.wrapping_add(1);
            (self.membership.rebalanced, self.membership.wanted) = (Some(now), false);
        } else if self.membership.rebalanced.is_some() {
            // Nobody to ask: a session that comes up asks for it.
            self.membership.rebalanced = Some(now);
            self.membership.wanted = false;
        }
    }

    pub(super) fn members_known(
        &mut self,
        now: Moment,
        topic: &Arc<str>,
        broker: &Arc<str>,
        result: Result<Vec<String>, MembersError>,
    ) {
        self.membership.pending.remove(topic);
        let mut members = match result {
            Ok(members) => members,
            Err(MembersError::Unsupported(why)) => {
                let gone = self.topology.take(now, topic, Looked::Unsupported(why));
                self.machine.removed(now, &gone);
                self.note_topic(topic);
                return;
            }
            Err(MembersError::Ask(error)) => {
                // What changed meanwhile must not wait for the next regular round.
                self.membership.wanted = true;
                if let AskError::Call(error) = error {
                    self.broker_failed(broker, &error);
                }
                return;
            }
        };
        if !self.joined {
            return;
        }
        self.membership.vetted.insert(Arc::clone(topic));
        members.sort();
        if !self.note_listing(now, broker, &members) {
            return;
        }
        // A broker that was away for a while lists a member once for each connection that it has not yet found dead:
        // for two minutes, in which counting those would leave most queues without an owner.
        members.dedup();
        let queues = self.topology.queues(topic);
        let share = average(&queues, &members, &self.shared.config.client_id);
        self.membership.shares.insert(Arc::clone(topic), share.iter().cloned().collect());
        self.membership.members = members.len();
        Stats::count(&self.shared.stats.rebalances);
        self.assign(now);
        self.note_idleness();
    }

    /// Looks for ourselves in a broker's list. Says whether the list is fit to be used.
    fn note_listing(&mut self, now: Moment, broker: &Arc<str>, members: &[String]) -> bool {
        let listed = members.iter().filter(|member| **member == self.shared.config.client_id).count();
        if listed == 0 {
            self.membership.listed.remove(broker);
            self.links.beat_now(now);
            self.membership.wanted = true;
            self.shared.problems.set(Rank::Membership, broker, Problem {
                reason: reason::GROUP_NOT_FOUND,
                message: format!(
                    "broker {broker} answers our heartbeats but does not list us in group {}: the group does not exist \
                     there and autoCreateSubscriptionGroup is off",
                    self.shared.group
                ),
                remedy: create_group(self.shared.about(Peer::Broker(broker), None)),
            });
            return false;
        }
        self.membership.listed.insert(Arc::clone(broker));
        if listed > 1 && !self.links.may_be_half_open(broker, now) {
            self.membership.twice.insert(Arc::clone(broker));
            self.shared.problems.set(Rank::Membership, broker, self.duplicate());
            self.step_back(now);
            return false;
        } else {
            self.membership.twice.remove(broker);
            self.shared.problems.clear(Rank::Membership, broker);
        }
        self.machine.allow_acquiring(self.membership.twice.is_empty());
        true
    }

    /// Another process has our client id, and so our locks: gives everything up without unlocking, which would take the
    /// other's locks, and comes back when it is gone. Who only lost a connection does not get here, so that of the two
    /// the newcomer yields.
    fn step_back(&mut self, now: Moment) {
        self.machine.forsake(now);
        self.membership.listed.clear();
        let addresses = self.links.registered();
        self.start(jobs::farewell(Arc::clone(&self.shared), addresses));
        self.begin_sessions_anew(now);
    }

    /// With the connection to a broker the membership there is gone, and what its list said.
    pub(super) fn forget_listing(&mut self, broker: &str) {
        self.membership.listed.remove(broker);
        self.membership.twice.remove(broker);
        self.machine.allow_acquiring(self.membership.twice.is_empty());
        self.shared.problems.clear(Rank::Membership, broker);
    }

    fn assign(&mut self, now: Moment) {
        let mut assigned = BTreeSet::new();
        for (topic, share) in &self.membership.shares {
            let current: BTreeSet<MessageQueue> = self.topology.queues(topic).into_iter().collect();
            assigned.extend(share.intersection(&current).cloned());
        }
        // Queues that vanished together with their broker are nobody else's yet.
        assigned.extend(self.topology.vanished().filter(|queue| self.machine.holds(queue)).cloned());
        self.machine.assign(now, &assigned, true);
    }

    fn note_idleness(&mut self) {
        let retry = self.shared.config.retry_topic();
        let total = self.topology.total(&retry);
        // The retry topic's few queues are not what members are there for.
        let idle = self.membership.shares.iter().all(|(topic, share)| share.is_empty() || **topic == *retry);
        if idle && total > 0 {
            self.shared.problems.set(
                Rank::Note,
                "idle",
                Problem {
                    reason: reason::MORE_MEMBERS_THAN_QUEUES,
                    message: format!(
                        "group {} has {} members and {} queues, so that this member has none",
                        self.shared.group, self.membership.members, total
                    ),
                    remedy: "lower replicas or add queues to the topic".to_owned(),
                },
            );
        } else {
            self.shared.problems.clear(Rank::Note, "idle");
        }
    }
}
