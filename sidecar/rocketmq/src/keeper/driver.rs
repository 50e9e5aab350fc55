//! The keeper's task: takes wishes, answers and the passing of time, and does what follows.

mod actions;
mod source;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lockstep_broker::{EpochClock, LeaseEvent, Outbox, SourceState, Wish};
use lockstep_model::{Identity, Moment, QueueId};
use tokio::{sync::mpsc, time::sleep_until};
use tracing::debug;

use super::{
    jobs::{self, Done},
    links::Links,
    machine::{Machine, Timing},
    membership::Membership,
    topology::Topology,
};
use crate::{protocol::MessageQueue, remoting::Event, shared::Shared};

/// How long leaving waits for the first queues to be released before it unregisters: members told to take over find
/// them unlocked then.
const FIRST_RELEASES: Duration = Duration::from_millis(150);

/// Inputs of one kind taken in one turn, beside the one that began it.
const INPUTS_PER_KIND: usize = 64;

type Job = Pin<Box<dyn Future<Output = Done> + Send>>;

/// See the module.
pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) machine: Machine,
    pub(super) topology: Topology,
    pub(super) links: Links,
    pub(super) membership: Membership,
    pub(super) joined: bool,
    /// The address of each broker's master when it was last up.
    pub(super) last_masters: BTreeMap<Arc<str>, Arc<str>>,
    /// Addresses that left the routes while we were a member there: a broker that was away for minutes may still know us.
    pub(super) departed: BTreeSet<Arc<str>>,
    leaving: Option<Leaving>,
    jobs: FuturesUnordered<Job>,
    names: BTreeMap<QueueId, MessageQueue>,
    /// The messages before the start positions, until the acquisitions they belong to are told.
    starts: BTreeMap<MessageQueue, Identity>,
    state: Option<SourceState>,
}

/// How far the leave has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// Membership goes on until the first queues are released, or until this moment.
    Registered { until: Moment, released: bool },
    /// The brokers are being told.
    Unregistering,
    /// Only queues that are still busy are left.
    Unregistered,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, outbox: Arc<Outbox>) -> Self {
        let timing = Timing { lease: shared.config.lease(), renew_every: shared.config.renew_every() };
        let machine = Machine::new(timing, EpochClock::above(shared.config.epoch_floor));
        let topics = shared.subscriptions.iter().map(|subscription| Arc::from(subscription.topic.as_str()));
        Self {
            topology: Topology::new(topics),
            shared,
            outbox,
            machine,
            links: Links::default(),
            membership: Membership::default(),
            joined: false,
            last_masters: BTreeMap::new(),
            departed: BTreeSet::new(),
            leaving: None,
            jobs: FuturesUnordered::new(),
            names: BTreeMap::new(),
            starts: BTreeMap::new(),
            state: None,
        }
    }

    /// Runs until the keeper is dropped.
    pub(super) async fn run(
        mut self,
        mut wishes: mpsc::UnboundedReceiver<Wish>,
        mut events: mpsc::Receiver<Event>,
    ) {
        let shared = Arc::clone(&self.shared);
        loop {
            let now = shared.now();
            self.turn(now);
            let wake = self.wake(now);
            let sleep = async {
                match wake {
                    Some(moment) => sleep_until(shared.config.clock.instant(moment)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                wish = wishes.recv() => match wish {
                    Some(wish) => {
                        self.wished(wish);
                        while let Ok(wish) = wishes.try_recv() {
                            self.wished(wish);
                        }
                    }
                    None => return,
                },
                event = events.recv() => if let Some(event) = event { self.happened(event) },
                Some(done) = self.jobs.next(), if !self.jobs.is_empty() => self.done(done),
                () = shared.bell.rung.notified() => {}
                () = sleep => {}
            }
            self.rest_of_turn(&mut events);
        }
    }

    /// Takes what else is ready, a bounded number of each kind: a broker that never stops talking must not keep the
    /// answers of the others, and their renewals, waiting.
    fn rest_of_turn(&mut self, events: &mut mpsc::Receiver<Event>) {
        for _ in 0..INPUTS_PER_KIND {
            let Ok(event) = events.try_recv() else { break };
            self.happened(event);
        }
        for _ in 0..INPUTS_PER_KIND {
            let Some(Some(done)) = self.jobs.next().now_or_never() else { break };
            self.done(done);
        }
    }

    pub(super) fn start(&mut self, job: impl Future<Output = Done> + Send + 'static) {
        self.jobs.push(Box::pin(job));
    }

    /// Does everything that is due.
    fn turn(&mut self, now: Moment) {
        self.machine.tick(now);
        if self.shared.bell.take_stale_routes() {
            self.membership.routes_are_stale(now);
        }
        if self.shared.bell.take_heartbeat() {
            self.links.beat_now(now);
        }
        if self.joined {
            self.look_up_routes(now);
            self.open_links(now);
            self.send_heartbeats(now);
            self.rebalance(now);
        } else if self.outlasts_membership() {
            self.open_links(now);
        }
        self.act();
        self.go_on_leaving(now);
        self.publish(now);
    }

    fn wake(&self, now: Moment) -> Option<Moment> {
        let mut wake = self.machine.wake();
        let mut at = |moment: Moment| wake = Some(wake.map_or(moment, |w| w.min(moment)));
        if self.joined {
            self.routes_wake(now).into_iter().for_each(&mut at);
            self.links.wake().into_iter().for_each(&mut at);
            self.rebalance_wake().into_iter().for_each(&mut at);
        } else if self.outlasts_membership() {
            self.links.opening().into_iter().for_each(&mut at);
        }
        if let Some(Leaving::Registered { until, .. }) = self.leaving {
            at(until);
        }
        wake
    }

    /// Whether queues are still busy after the farewell: a connection that breaks now is made again for them.
    fn outlasts_membership(&self) -> bool {
        matches!(self.leaving, Some(Leaving::Unregistering | Leaving::Unregistered))
            && self.machine.owned().next().is_some()
    }

    fn wished(&mut self, wish: Wish) {
        let now = self.shared.now();
        match wish {
            Wish::Join if self.joined => {}
            Wish::Join => {
                debug!(group = %self.shared.group, client_id = %self.shared.config.client_id, "joining the group");
                // Who changed their mind before the brokers were told is a member still.
                if matches!(self.leaving, Some(Leaving::Unregistering | Leaving::Unregistered)) {
                    self.register_again(now);
                }
                (self.joined, self.leaving) = (true, None);
                self.machine.join();
                self.membership.begin(now);
            }
            Wish::Leave => {
                if self.joined || self.leaving.is_none() {
                    debug!(group = %self.shared.group, "leaving the group");
                    self.joined = false;
                    self.leaving = Some(Leaving::Registered { until: now + FIRST_RELEASES, released: false });
                    self.machine.leave(now);
                    self.membership.end();
                }
            }
            Wish::Release(id, epoch) => {
                // From here on nothing of this epoch is written.
                self.shared.leases.ended(id, epoch);
                if let Some(queue) = self.names.get(&id) {
                    self.machine.release(now, queue, epoch);
                }
                if let Some(Leaving::Registered { released, .. }) = &mut self.leaving {
                    *released = true;
                }
            }
        }
    }

    fn go_on_leaving(&mut self, now: Moment) {
        match self.leaving {
            Some(Leaving::Registered { until, released }) => {
                let first_round_is_over = released && !self.machine.is_releasing() || self.machine.is_idle();
                if first_round_is_over || now >= until {
                    self.leaving = Some(Leaving::Unregistering);
                    let addresses = self.links.registered();
                    self.start(jobs::unregister(Arc::clone(&self.shared), addresses));
                }
            }
            Some(Leaving::Unregistered) if self.machine.is_idle() => {
                self.leaving = None;
                self.close_links();
                self.shared.problems.clear_all();
                self.publish(now);
                debug!(group = %self.shared.group, "left the group");
                self.outbox.push(LeaseEvent::Left);
            }
            Some(Leaving::Unregistering | Leaving::Unregistered) | None => {}
        }
    }

    fn done(&mut self, done: Done) {
        let now = self.shared.now();
        match done {
            Done::Route { topic, looked } => self.looked_up(now, &topic, looked),
            Done::Session { address, turn, result } => self.opened(now, &address, turn, result),
            Done::Beat { address, turn, result } => self.beaten(now, &address, turn, result),
            Done::Members { topic, broker, result } => self.members_known(now, &topic, &broker, result),
            Done::Locked { broker, ticket, granted, error } => {
                if let Some(error) = error {
                    self.broker_failed(&broker, &error);
                } else if granted.is_some() {
                    self.broker_answered(&broker);
                }
                self.machine.locked(now, ticket, granted.as_ref());
            }
            Done::Unlocked { queue, ticket } => self.machine.unlocked(now, &queue, ticket),
            Done::Positioned { queue, ticket, result } => {
                let found = match result {
                    Ok(start) => {
                        self.starts.insert(queue.clone(), start.before);
                        Some(start.position)
                    }
                    Err(error) => {
                        // Noted there when waiting will not cure it.
                        let error = self.shared.failed("find the position", &queue, error);
                        tracing::warn!(queue = %queue, error = %error, "can't begin with the queue yet");
                        None
                    }
                };
                self.machine.positioned(now, &queue, ticket, found);
            }
            Done::Verified { queue, ticket, result } => {
                if let Err(error) = &result {
                    tracing::warn!(queue = %queue, error = ?error, "can't compare the committed position yet");
                }
                self.machine.verified(now, &queue, ticket, result.ok());
            }
            Done::Reset { queue, id, epoch, to } => {
                debug!(queue = %queue, to = %to, "the position was set by hand");
                self.outbox.push(LeaseEvent::Moved { queue: id, epoch, to });
            }
            // The sessions that begin anew wait for nothing.
            Done::SteppedBack => {}
            Done::Unregistered => {
                if self.leaving == Some(Leaving::Unregistering) {
                    self.leaving = Some(Leaving::Unregistered);
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
