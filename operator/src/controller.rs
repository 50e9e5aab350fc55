//! Runs reconciliations: of each group one at a time, of many groups side by side, whenever something that it rests on
//! has changed.
//!
//! All of it is one future: dropping it stops everything at once, requests under way among it. A panic in it ends the
//! process, and another replica takes over: what it had begun is found in the cluster.

mod entry;
mod reconcile;
mod strip;
mod undecodable;
mod watches;
mod write;

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, future::join_all, stream};
use kube::{
    Client,
    runtime::{
        Config, applier,
        controller::{Action, Error},
        events::Reporter,
    },
};
use lockstep_contract::names::FIELD_MANAGER;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::{MissedTickBehavior, interval},
};
use tracing::{Instrument, debug, info, info_span};

pub use entry::Entry;

use crate::{
    Settings,
    context::{GroupRef, Key, Memories, Scope, Shared},
    leader::Leadership,
    metrics::Metrics,
    poll::Poller,
    rollout::Wave,
    server::Probes,
};

/// Reconciliations at the same time: most of one is waiting for the API server, which they should not flood.
pub const CONCURRENCY: u16 = 16;
/// Groups whose pods are asked at the same time.
const POLLS: u16 = 64;
/// Requests for a reconciliation that may wait to be taken over by the queue, which holds each group once.
const WAKES: usize = 1024;
/// Between two polls of a group's pods.
const POLL_PERIOD: Duration = Duration::from_secs(5);
/// The same while something is on its way.
const LIVELY_PERIOD: Duration = Duration::from_secs(1);
/// How often the loop says that it turns.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// What the controller needs.
#[derive(Clone)]
pub struct Setup {
    /// The Kubernetes API.
    pub client: Client,
    /// What holds for all groups.
    pub settings: Settings,
    /// The namespaces to watch; none = all.
    pub namespaces: Vec<String>,
    /// This process's name, in events.
    pub identity: String,
    /// Asks pods how they are.
    pub poller: Poller,
    /// Whether this process leads.
    pub leadership: watch::Receiver<Leadership>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What the probes are told.
    pub probes: Arc<Probes>,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, namespaces, .. } = self;
        f.debug_struct("Setup")
            .field("settings", settings)
            .field("namespaces", namespaces)
            .finish_non_exhaustive()
    }
}

/// Reconciles until it is dropped.
pub async fn run(setup: Setup) {
    let Setup { client, settings, namespaces, identity, poller, leadership, metrics, probes } = setup;
    probes.beat();
    probes.synced(false);
    let all = namespaces.is_empty().then_some(None);
    let watched = all.into_iter().chain(namespaces.iter().map(|name| Some(name.as_str())));
    let (stores, streams): (Vec<_>, Vec<_>) =
        watched.map(|namespace| watches::start(&client, namespace, &metrics)).unzip();
    let shared = Arc::new(Shared {
        reporter: Reporter { controller: FIELD_MANAGER.to_owned(), instance: Some(identity) },
        client,
        settings,
        poller,
        metrics,
        wave: Wave::default(),
        deployments: stores.iter().map(|stores| stores.deployments.clone()).collect(),
        permits: Semaphore::new(usize::from(CONCURRENCY)),
        leadership,
        memories: Memories::default(),
    });
    let mut runs = Vec::new();
    let mut scopes = Vec::new();
    for (stores, groups) in stores.into_iter().zip(streams) {
        let (wake, wakes) = mpsc::channel(WAKES);
        let (poll, polls) = mpsc::channel(WAKES);
        let scope = Arc::new(Scope { shared: Arc::clone(&shared), stores, wake, poll });
        runs.push(reconcile_all(Arc::clone(&scope), groups, wakes));
        runs.push(poll_all(Arc::clone(&scope), polls));
        scopes.push(scope);
    }
    let synced = async {
        join_all(scopes.iter().map(|scope| scope.stores.ready())).await;
        probes.synced(true);
        let groups: usize = scopes.iter().map(|scope| scope.stores.groups.len()).sum();
        info!(groups, "watches complete");
    };
    let beats = async {
        let mut beats = interval(HEARTBEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            probes.beat();
        }
    };
    // The beats never end.
    tokio::join!(join_all(runs), synced, beats);
}

type Run = futures_util::future::BoxFuture<'static, ()>;

fn reconcile_all(
    scope: Arc<Scope>,
    groups: impl futures_util::Stream<Item = Result<GroupRef, Infallible>> + Send + 'static,
    wakes: mpsc::Receiver<GroupRef>,
) -> Run {
    let store = scope.stores.groups.clone();
    let config = Config::default().concurrency(CONCURRENCY);
    let queue = stream::select(groups, received(wakes));
    let reconcile = |entry: Arc<Entry>, scope: Arc<Scope>| {
        let Key { namespace, name } = Key::of(entry.as_ref());
        let span = info_span!("group", namespace, name);
        async move { Ok::<_, Infallible>(reconcile::reconcile(&scope, &entry).await) }
            .instrument(span)
            .boxed()
    };
    let done = applier(reconcile, |_, _, _| Action::await_change(), Arc::clone(&scope), store, queue, config);
    done.for_each(move |result| {
        if let Err(error) = result {
            ended(&scope, &error);
        }
        std::future::ready(())
    })
    .boxed()
}

fn poll_all(scope: Arc<Scope>, polls: mpsc::Receiver<GroupRef>) -> Run {
    let store = scope.stores.groups.clone();
    let config = Config::default().concurrency(POLLS);
    let poll = |entry: Arc<Entry>, scope: Arc<Scope>| {
        async move { Ok::<_, Infallible>(poll(&scope, &entry).await) }.boxed()
    };
    let never = |_: Arc<Entry>, _: &Infallible, _: Arc<Scope>| Action::await_change();
    let done = applier(poll, never, Arc::clone(&scope), store, received(polls), config);
    done.for_each(move |result| {
        if let Err(error) = result {
            ended(&scope, &error);
        }
        std::future::ready(())
    })
    .boxed()
}

fn received(
    mut receiver: mpsc::Receiver<GroupRef>,
) -> impl futures_util::Stream<Item = Result<GroupRef, Infallible>> {
    stream::poll_fn(move |context| receiver.poll_recv(context).map(|received| received.map(Ok)))
}

/// Nothing is remembered of a group that is gone.
fn ended(scope: &Scope, error: &Error<Infallible, Infallible>) {
    match error {
        Error::ObjectNotFound(gone) => {
            let namespace = gone.namespace.clone().unwrap_or_default();
            let key = Key { namespace, name: gone.name.clone() };
            scope.shared.memories.forget(&key);
            scope.shared.metrics.forget_group(&key.namespace, &key.name);
            debug!(namespace = key.namespace, name = key.name, "group gone");
        }
        Error::ReconcilerFailed(never, _) | Error::QueueError(never) => match *never {},
        Error::RunnerError(error) => debug!(error = %error, "the queue ended"),
    }
}

/// Asks a group's pods how they are, and asks for a reconciliation when they say something new.
async fn poll(scope: &Scope, entry: &Entry) -> Action {
    let key = Key::of(entry);
    let Ok(group) = &entry.0 else {
        scope.shared.memories.with(&key, |memory| memory.polled = false);
        return Action::await_change();
    };
    let places = crate::dereference::places(scope, &key);
    let reports = scope.shared.poller.ask(places, group.spec.sidecar.admin_port).await;
    let failures =
        reports.values().filter(|report| matches!(report, crate::PodReport::Unreachable(_))).count();
    scope.shared.metrics.poll_failures.inc_by(u64::try_from(failures).unwrap_or(u64::MAX));
    let (news, lively) =
        scope.shared.memories.with(&key, |memory| (memory.answers.take(reports), memory.is_lively()));
    if news {
        // A full channel is no loss: each group is looked at from time to time anyway.
        scope.wake.try_send(key.group()).ok();
    }
    Action::requeue(if lively { LIVELY_PERIOD } else { POLL_PERIOD })
}
