//! Reads what the cluster holds of a group, from the watches alone.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Resource, runtime::reflector::ObjectRef};
use lockstep_contract::{KIND, names::labels};
use lockstep_crds::ConsumerGroup;

use crate::{
    Observed,
    compact::{Compact, Keep},
    context::{Key, Scope},
    facts::is_controlled_by,
    membership::Membership,
    poll::Place,
};

/// What the watches hold of a group, and what its pods said last.
///
/// # Errors
///
/// What [`Compact::read`] says.
pub fn observe(scope: &Scope, group: &Arc<ConsumerGroup>) -> Result<Observed, serde_json::Error> {
    let key = Key::of(group.as_ref());
    let stores = &scope.stores;
    let beside = |meta: &ObjectMeta| meta.namespace.as_deref() == Some(key.namespace.as_str());
    let of_group = |meta: &ObjectMeta| beside(meta) && group_label(meta) == Some(key.name.as_str());
    let siblings = stores.groups.state_filter(|other| {
        beside(other.meta()) && other.meta().name.as_deref() != Some(key.name.as_str())
    });
    let deployment = stores.deployments.get(&ObjectRef::new(&key.name).within(&key.namespace));
    let mut observed = Observed {
        group: Arc::clone(group),
        deployment: deployment.map(|live| live.read()).transpose()?,
        replica_sets: read(&stores.replica_sets.state_filter(|set| of_group(set.meta())))?,
        pods: read(&pods(scope, &key))?,
        config_maps: stores.config_maps.state_filter(|map| of_group(&map.metadata)),
        disruption_budgets: stores.disruption_budgets.state_filter(|budget| beside(&budget.metadata)),
        siblings: siblings.iter().filter_map(|other| other.0.as_ref().ok().map(Arc::clone)).collect(),
        running: running(scope, &key),
        strangers: Vec::new(),
        reports: scope.shared.memories.with(&key, |memory| memory.answers.reports().clone()),
    };
    // They are many, and matter before a group's first pods alone.
    let uid = group.metadata.uid.as_deref().unwrap_or_default();
    if !observed.deployment.as_ref().is_some_and(|live| is_controlled_by(live.meta(), uid)) {
        observed.strangers =
            Membership::of(group).map_or(Ok(Vec::new()), |own| strangers(scope, &key, &own))?;
    }
    // The stores have no order; messages that list pods should not change without a reason.
    observed.pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    observed.replica_sets.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    observed.config_maps.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    observed.disruption_budgets.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    observed.siblings.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    Ok(observed)
}

fn read<K: Keep>(kept: &[Arc<Compact<K>>]) -> Result<Vec<Arc<K>>, serde_json::Error> {
    kept.iter().map(|object| object.read()).collect()
}

/// The label by which a ReplicaSet tells its pods from those of others, and the end of its name.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The group's pods: those of its Deployment's ReplicaSets, and of one of that name that was there before. Anybody who
/// may create pods can give them the group's label.
fn pods(scope: &Scope, key: &Key) -> Vec<Arc<Compact<Pod>>> {
    scope.stores.pods.state_filter(|pod| {
        pod.meta().namespace.as_deref() == Some(key.namespace.as_str())
            && group_label(pod.meta()) == Some(key.name.as_str())
            && is_of_deployment(scope, key, pod.meta())
    })
}

/// The group's running pods by name, and where their sidecars are asked.
pub fn places(scope: &Scope, key: &Key) -> Vec<(String, Place)> {
    let pods = pods(scope, key);
    let place = |pod: &Arc<Compact<Pod>>| Some((pod.meta().name.clone()?, pod.glance().place?));
    pods.iter().filter_map(place).collect()
}

fn is_of_deployment(scope: &Scope, key: &Key, pod: &ObjectMeta) -> bool {
    let Some(owner) = controller(pod, "ReplicaSet") else { return false };
    let set = ObjectRef::new(&owner.name).within(&key.namespace);
    match scope.stores.replica_sets.get(&set).filter(|set| set.meta().uid.as_ref() == Some(&owner.uid)) {
        Some(set) => controller(set.meta(), "Deployment").is_some_and(|owner| owner.name == key.name),
        // The watch has still to show it, or it is gone before its pods are: the Deployment's controller names it so.
        None => {
            let hash = pod.labels.as_ref().and_then(|labels| labels.get(TEMPLATE_HASH));
            hash.is_some_and(|hash| owner.name == format!("{}-{hash}", key.name))
        }
    }
}

fn controller<'a>(meta: &'a ObjectMeta, kind: &str) -> Option<&'a OwnerReference> {
    let mut owners = meta.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true)).filter(|owner| owner.kind == kind)
}

/// The UIDs of the namespace's groups that own a Deployment of their name.
fn running(scope: &Scope, key: &Key) -> BTreeSet<String> {
    let deployments =
        scope.stores.deployments.state_filter(|live| live.meta().namespace.as_ref() == Some(&key.namespace));
    let owners = deployments.iter().filter_map(|live| {
        let owner = controller(live.meta(), KIND)?;
        (Some(&owner.name) == live.meta().name.as_ref()).then(|| owner.uid.clone())
    });
    owners.collect()
}

/// The pods of other groups that say that they take part as this one.
fn strangers(scope: &Scope, key: &Key, own: &Membership) -> Result<Vec<Arc<Pod>>, serde_json::Error> {
    let mut strangers = scope.stores.pods.state_filter(|pod| {
        pod.meta().namespace.as_ref() == Some(&key.namespace)
            && group_label(pod.meta()) != Some(&key.name)
            && pod
                .glance()
                .member_of
                .as_deref()
                .and_then(Membership::parse)
                .is_some_and(|other| own.is_same(&other))
    });
    strangers.sort_by(|a, b| a.meta().name.cmp(&b.meta().name));
    read(&strangers)
}

/// The name of the group that an object belongs to, by its label.
pub fn group_label(meta: &ObjectMeta) -> Option<&str> {
    meta.labels.as_ref()?.get(labels::GROUP).map(String::as_str)
}
