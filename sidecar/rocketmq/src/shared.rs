//! What the three halves share: connections, leases, addresses, troubles and counters.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub(crate) use lockstep_broker::refusal;
use lockstep_broker::{BrokerError, Class, Problem, Problems};
use lockstep_model::Moment;
use tokio::sync::Notify;

use crate::{
    config::Config,
    leases::{Leases, Refusal},
    problem::{self, About, Peer, Rank, reason},
    protocol::{MessageQueue, Request, ResponseCode, SubscriptionData},
    remoting::{CallError, Remoting},
};

/// Counters of the session, for metrics. They only rise.
#[derive(Debug, Default)]
pub struct Stats {
    /// Connections to brokers that were lost and made again.
    pub reconnects: AtomicU64,
    /// Leases renewed.
    pub renewals: AtomicU64,
    /// Locks of allocated queues that were refused.
    pub lock_refusals: AtomicU64,
    /// Allocations computed.
    pub rebalances: AtomicU64,
    /// Commits confirmed.
    pub commits: AtomicU64,
}

impl Stats {
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) group: Arc<str>,
    /// What brokers are told; the version is the process's start.
    pub(crate) subscriptions: Vec<SubscriptionData>,
    pub(crate) started_ms: i64,
    pub(crate) remoting: Remoting,
    pub(crate) leases: Leases,
    pub(crate) masters: Masters,
    /// Bounded by topics, brokers and queues.
    pub(crate) problems: Problems<Rank>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) bell: Bell,
}

/// Wakes the keeper from the other halves.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    pub(crate) rung: Notify,
    stale_routes: AtomicBool,
    heartbeat: AtomicBool,
}

impl Bell {
    /// A broker does not know what the route says.
    pub(crate) fn routes_are_stale(&self) {
        self.stale_routes.store(true, Ordering::Relaxed);
        self.rung.notify_one();
    }

    /// A broker does not know the subscription.
    pub(crate) fn heartbeat_is_due(&self) {
        self.heartbeat.store(true, Ordering::Relaxed);
        self.rung.notify_one();
    }

    pub(crate) fn take_stale_routes(&self) -> bool {
        self.stale_routes.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn take_heartbeat(&self) -> bool {
        self.heartbeat.swap(false, Ordering::Relaxed)
    }
}

/// The masters' addresses and whether their sessions stand. As many as there are brokers.
#[derive(Debug, Default)]
pub(crate) struct Masters(Mutex<BTreeMap<Arc<str>, Master>>);

/// One master.
#[derive(Debug, Clone)]
pub(crate) struct Master {
    pub(crate) address: Arc<str>,
    /// It tells a group that never committed from one that committed 0 (from 5.0 on).
    pub(crate) honest: bool,
}

impl Masters {
    /// A session stands: connected, and our heartbeat was answered.
    pub(crate) fn up(&self, broker: &Arc<str>, master: Master) {
        self.lock().insert(Arc::clone(broker), master);
    }

    pub(crate) fn down(&self, broker: &str) {
        self.lock().remove(broker);
    }

    /// The master, if its session stands.
    pub(crate) fn get(&self, broker: &str) -> Option<Master> {
        self.lock().get(broker).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Master>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question to a queue's master that brought no answer.
#[derive(Debug)]
pub(crate) enum AskError {
    /// No session with it stands.
    NotConnected,
    /// It was asked.
    Call(CallError),
}

impl Shared {
    pub(crate) fn new(config: Config, remoting: Remoting) -> Self {
        let started_ms = unix_ms();
        Self {
            group: Arc::from(config.group.as_str()),
            subscriptions: config.subscription_data(started_ms),
            started_ms,
            config,
            remoting,
            leases: Leases::default(),
            masters: Masters::default(),
            problems: Problems::default(),
            stats: Arc::default(),
            bell: Bell::default(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.config.clock.now()
    }

    /// What is subscribed to of a topic.
    pub(crate) fn subscription(&self, topic: &str) -> Option<&SubscriptionData> {
        self.subscriptions.iter().find(|subscription| subscription.topic == topic)
    }

    /// Asks the master of a queue. Never written after `not_after`.
    pub(crate) async fn ask<R: Request>(
        &self,
        queue: &MessageQueue,
        request: &R,
        timeout: Duration,
        not_after: Option<Moment>,
    ) -> Result<R::Reply, AskError> {
        let master = self.masters.get(&queue.broker_name).ok_or(AskError::NotConnected)?;
        let not_after = not_after.map(|moment| self.config.clock.instant(moment));
        self.remoting.call_before(&master.address, request, timeout, not_after).await.map_err(AskError::Call)
    }

    /// What a failed question means for a person, noted as the queue's trouble when waiting will not cure it.
    pub(crate) fn failed(
        &self,
        operation: &'static str,
        queue: &MessageQueue,
        error: AskError,
    ) -> BrokerError {
        let error = match error {
            AskError::NotConnected => return self.not_connected(operation, queue),
            AskError::Call(error) => error,
        };
        let about = self.about(Peer::Broker(&queue.broker_name), Some(&queue.topic));
        let problem = problem::of_call(&error, about);
        let class = error.refusal().map_or(Class::Transient, class);
        self.react(error.refusal());
        if class == Class::Permanent && self.problems.set(Rank::Queue, &queue.to_string(), problem.clone()) {
            self.bell.rung.notify_one();
        }
        BrokerError { operation, certainty: error.certainty(), class, problem, source: Some(Arc::new(error)) }
    }

    fn not_connected(&self, operation: &'static str, queue: &MessageQueue) -> BrokerError {
        let message = format!("there is no session with broker {} now", queue.broker_name);
        refusal(operation, Class::Transient, reason::CONNECTION_LOST, message)
    }

    /// Some refusals say that we and the broker know different things.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other codes ask for nothing")]
    fn react(&self, code: Option<ResponseCode>) {
        match code {
            Some(
                ResponseCode::SubscriptionNotExist
                | ResponseCode::SubscriptionNotLatest
                | ResponseCode::FilterDataNotExist
                | ResponseCode::FilterDataNotLatest,
            ) => self.bell.heartbeat_is_due(),
            Some(
                ResponseCode::NoPermission
                | ResponseCode::TopicNotExist
                | ResponseCode::InvalidParameter
                | ResponseCode::SubscriptionGroupNotExist
                | ResponseCode::NotLeaderForQueue,
            ) => self.bell.routes_are_stale(),
            _ => {}
        }
    }

    /// A queue stands still for a reason that may pass.
    pub(crate) fn stuck(&self, queue: &MessageQueue, problem: &Problem) {
        let message = format!("queue {queue}: {}", problem.message);
        if self.problems.set(Rank::Queue, &queue.to_string(), Problem { message, ..problem.clone() }) {
            self.bell.rung.notify_one();
        }
    }

    /// A queue's trouble has passed.
    pub(crate) fn passed(&self, queue: &MessageQueue) {
        if self.problems.clear(Rank::Queue, &queue.to_string()) {
            self.bell.rung.notify_one();
        }
    }

    pub(crate) fn about<'a>(&'a self, peer: Peer<'a>, topic: Option<&'a str>) -> About<'a> {
        About { peer, group: &self.group, topic, name_servers: &self.config.name_servers }
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all other codes may pass by themselves")]
fn class(code: ResponseCode) -> Class {
    match code {
        ResponseCode::NoPermission
        | ResponseCode::TopicNotExist
        | ResponseCode::SubscriptionGroupNotExist
        | ResponseCode::InvalidParameter
        | ResponseCode::SubscriptionParseFailed => Class::Permanent,
        _ => Class::Transient,
    }
}

/// An operation that the lease forbids.
pub(crate) fn not_owned(operation: &'static str, refused: Refusal) -> BrokerError {
    let (reason, message) = match refused {
        Refusal::Over => (reason::NOT_OWNED, "the queue is not owned under this epoch any more"),
        Refusal::Doubtful => {
            (reason::CONNECTION_LOST, "the queue's lock is in doubt since the connection was lost")
        }
        Refusal::Moved { .. } => (reason::POSITION_MOVED, "the queue's position was moved from outside"),
    };
    refusal(operation, Class::Transient, reason, message)
}

/// The wall clock in milliseconds.
pub(crate) fn unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    i64::try_from(now).unwrap_or(i64::MAX)
}
