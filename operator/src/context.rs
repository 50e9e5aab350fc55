//! What all reconciliations share, and what is remembered of each group between them. All of it can be lost: a restarted
//! operator reads the cluster again.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{ConfigMap, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Client, Resource,
    runtime::{
        events::Reporter,
        reflector::{ObjectRef, Store},
    },
};
use lockstep_crds::ConsumerGroupStatus;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::Instant,
};

use crate::{
    Fault, Notice, Settings, assignment,
    compact::Compact,
    controller::Entry,
    leader::Leadership,
    metrics::Metrics,
    poll::{Answers, Poller},
    rollout::Wave,
    status::ApplyFailure,
    touch::Touches,
};

/// For so long what was written counts as there although the watch does not show it yet.
pub const WRITE_SETTLES: Duration = Duration::from_secs(2);

/// For so long a group is looked at each second while something is on its way. What takes longer than that is not
/// waited for by anybody.
const LIVELY: Duration = Duration::from_secs(120);

/// A reference to a group in its store.
pub type GroupRef = ObjectRef<Entry>;

/// What all groups share.
pub struct Shared {
    /// The Kubernetes API.
    pub client: Client,
    /// What holds for all groups.
    pub settings: Settings,
    /// Asks pods how they are.
    pub poller: Poller,
    /// Who tells, in events.
    pub reporter: Reporter,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How many groups take a new sidecar at once.
    pub wave: Wave,
    /// The Deployments of all scopes.
    pub deployments: Vec<Store<Compact<Deployment>>>,
    /// Bounds the reconciliations that run at the same time, over all watched namespaces.
    pub permits: Semaphore,
    /// Whether this process leads.
    pub leadership: watch::Receiver<Leadership>,
    /// What is remembered of each group.
    pub memories: Memories,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Shared {
    /// Whether this process may write at this moment.
    pub fn leads(&self) -> bool {
        self.leadership.borrow().leads()
    }
}

/// What is watched together: all namespaces, or one.
#[derive(Debug)]
pub struct Scope {
    /// What all groups share.
    pub shared: Arc<Shared>,
    /// What the watches hold.
    pub stores: Stores,
    /// Asks for a reconciliation.
    pub wake: mpsc::Sender<GroupRef>,
    /// Asks for a poll of the group's pods.
    pub poll: mpsc::Sender<GroupRef>,
}

/// What the watches hold.
#[derive(Debug)]
pub struct Stores {
    /// The groups.
    pub groups: Store<Entry>,
    /// Deployments that carry the operator's label.
    pub deployments: Store<Compact<Deployment>>,
    /// ReplicaSets of groups.
    pub replica_sets: Store<Compact<ReplicaSet>>,
    /// Pods of groups.
    pub pods: Store<Compact<Pod>>,
    /// ConfigMaps that carry the operator's label.
    pub config_maps: Store<ConfigMap>,
    /// All PodDisruptionBudgets.
    pub disruption_budgets: Store<PodDisruptionBudget>,
}

impl Stores {
    /// Waits until each watch has listed once; before, an object that is there would be taken for missing.
    pub async fn ready(&self) {
        let Self { groups, deployments, replica_sets, pods, config_maps, disruption_budgets } = self;
        // An error means that the watch was dropped, and this future will be too.
        groups.wait_until_ready().await.ok();
        deployments.wait_until_ready().await.ok();
        replica_sets.wait_until_ready().await.ok();
        pods.wait_until_ready().await.ok();
        config_maps.wait_until_ready().await.ok();
        disruption_budgets.wait_until_ready().await.ok();
    }
}

/// A group's namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of an object.
    pub fn of(object: &impl Resource) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// The group's reference in its store.
    pub fn group(&self) -> GroupRef {
        ObjectRef::new(&self.name).within(&self.namespace)
    }
}

/// What is remembered of each group.
#[derive(Debug, Default)]
pub struct Memories(Mutex<BTreeMap<Key, Memory>>);

impl Memories {
    /// Reads or changes what is remembered of a group. Never waits while it holds the lock.
    pub fn with<R>(&self, key: &Key, change: impl FnOnce(&mut Memory) -> R) -> R {
        let mut memories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(memories.entry(key.clone()).or_default())
    }

    /// Drops what is remembered of a group that is gone.
    pub fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// What is remembered of one group.
#[derive(Debug, Default)]
pub struct Memory {
    /// Which group it is: one of the same name made anew is another.
    pub uid: String,
    /// Failed reconciliations in a row.
    pub failures: u32,
    /// What its pods said last.
    pub answers: Answers,
    /// Children as they were written last, by kind and name.
    pub written: BTreeMap<String, Written>,
    /// When pods were touched.
    pub touches: Touches,
    /// What the user was told.
    pub notices: Vec<Notice>,
    /// Whether its pods are asked from time to time.
    pub polled: bool,
    /// Since when something is on its way.
    pub settling: Option<Instant>,
    /// Since when which pods can take queues.
    pub members: assignment::Memory,
    /// The generation and the hot configuration that it is on its way to.
    pub wanted: (Option<i64>, String),
    /// Writes that failed.
    pub held: Option<Held>,
    /// The status that was written last.
    pub status: Option<StatusWritten>,
    /// The version of an undecodable group that was told of.
    pub undecodable: Option<String>,
}

impl Memory {
    /// Whether something began to be on its way a short while ago: it is looked at more often.
    pub fn is_lively(&self) -> bool {
        self.settling.is_some_and(|since| since.elapsed() < LIVELY)
    }
}

/// A child as it was written last.
#[derive(Debug, Clone)]
pub struct Written {
    /// The hash of what was wanted.
    pub hash: String,
    /// The hash of what the API server made of it.
    pub accepted: String,
    /// The version of what was there before; while the watch shows that one, it has not seen the write.
    pub over: Option<String>,
    /// When.
    pub at: Instant,
}

/// A status as it was written last.
#[derive(Debug, Clone)]
pub struct StatusWritten {
    /// What it says.
    pub status: ConsumerGroupStatus,
    /// The group's version before; while the watch shows that one, it has not seen the write.
    pub over: Option<String>,
    /// When.
    pub at: Instant,
}

/// Writes that failed, and that nothing but a change of what they rest on makes try again before their time.
#[derive(Debug, Clone)]
pub struct Held {
    /// When they are tried again.
    pub until: Instant,
    /// What they rest on.
    pub basis: String,
    /// What went wrong.
    pub troubles: Troubles,
}

/// What went wrong with a group's children and pods, in words.
#[derive(Debug, Clone, Default)]
pub struct Troubles {
    /// Objects of others in the children's places.
    pub faults: Vec<Fault>,
    /// Why children could not be written.
    pub failure: Option<ApplyFailure>,
    /// Why a pod could not be touched, which makes a change only later.
    pub touch: Option<String>,
    /// What is tried again.
    pub again: Vec<String>,
    /// Whether children are not as wanted.
    pub unfinished: bool,
    /// Whether the group goes, be it with its namespace: nothing is told of it any more.
    pub group_ends: bool,
}
