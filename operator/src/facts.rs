//! What the steps of a reconciliation hand to each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{ConfigMap, Pod},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use lockstep_contract::{Reason, Status};
use lockstep_crds::ConsumerGroup;

use crate::validate::Rule;

/// What holds for all groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The sidecar's image where a group names none.
    pub sidecar_image: String,
    /// The operator's version.
    pub version: String,
    /// Groups that may roll to a new sidecar image at the same time.
    pub upgrade_groups_max: usize,
}

/// One group and what the cluster holds of it. Read from watches, so that it may lag by moments.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The group.
    pub group: Arc<ConsumerGroup>,
    /// The Deployment with the group's name, whoever owns it.
    pub deployment: Option<Arc<Deployment>>,
    /// The group's ReplicaSets: some name an old cold ConfigMap.
    pub replica_sets: Vec<Arc<ReplicaSet>>,
    /// The group's pods, ending ones among them.
    pub pods: Vec<Arc<Pod>>,
    /// The group's ConfigMaps.
    pub config_maps: Vec<Arc<ConfigMap>>,
    /// Every PodDisruptionBudget of the namespace, the user's own among them.
    pub disruption_budgets: Vec<Arc<PodDisruptionBudget>>,
    /// The other groups of the namespace.
    pub siblings: Vec<Arc<ConsumerGroup>>,
    /// The UIDs of those groups, this one among them, that own a Deployment of their name.
    pub running: BTreeSet<String>,
    /// Pods of other groups of the namespace that say that they take part at the broker as this one; empty for a group
    /// that has its Deployment.
    pub strangers: Vec<Arc<Pod>>,
    /// What each pod's sidecar says, by the pod's name. Empty before the first poll.
    pub reports: BTreeMap<String, PodReport>,
}

impl Observed {
    /// A cluster that holds nothing but the group.
    pub fn alone(group: ConsumerGroup) -> Self {
        Self {
            group: Arc::new(group),
            deployment: None,
            replica_sets: Vec::new(),
            pods: Vec::new(),
            config_maps: Vec::new(),
            disruption_budgets: Vec::new(),
            siblings: Vec::new(),
            running: BTreeSet::new(),
            strangers: Vec::new(),
            reports: BTreeMap::new(),
        }
    }
}

/// What a pod's sidecar says.
#[derive(Debug, Clone, PartialEq)]
pub enum PodReport {
    /// It answered.
    Answered(Arc<Status>),
    /// It did not; why, in a few words.
    Unreachable(String),
}

/// Something that only a change of the spec, or of an object beside the group, can cure. It stalls the group: children
/// stay as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is broken.
    pub rule: Rule,
    /// The field and what is wrong with it, and the remedy.
    pub message: String,
}

impl Fault {
    /// The word in the condition `Stalled`.
    pub fn reason(&self) -> Reason {
        self.rule.reason()
    }
}

/// Whether the object with that UID controls this one.
pub(crate) fn is_controlled_by(meta: &ObjectMeta, uid: &str) -> bool {
    meta.owner_references.iter().flatten().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

/// Something that the user should know and that stops nothing: an event, and a message in the condition `Ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The word in the event.
    pub reason: Reason,
    /// What and why.
    pub message: String,
}
