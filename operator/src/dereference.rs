//! Reads what the cluster holds of a group, from the watches alone.

use std::sync::Arc;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, runtime::reflector::ObjectRef};
use lockstep_contract::names::labels;
use lockstep_crds::ConsumerGroup;

use crate::{
    Observed,
    context::{Key, Scope},
};

/// What the watches hold of a group, and what its pods said last.
pub fn observe(scope: &Scope, group: &Arc<ConsumerGroup>) -> Observed {
    let key = Key::of(group.as_ref());
    let stores = &scope.stores;
    let beside = |meta: &ObjectMeta| meta.namespace.as_deref() == Some(key.namespace.as_str());
    let of_group = |meta: &ObjectMeta| beside(meta) && group_label(meta) == Some(key.name.as_str());
    let siblings = stores.groups.state_filter(|other| {
        beside(other.meta()) && other.meta().name.as_deref() != Some(key.name.as_str())
    });
    let mut observed = Observed {
        group: Arc::clone(group),
        deployment: stores.deployments.get(&ObjectRef::new(&key.name).within(&key.namespace)),
        replica_sets: stores.replica_sets.state_filter(|set| of_group(&set.metadata)),
        pods: pods(scope, &key),
        config_maps: stores.config_maps.state_filter(|map| of_group(&map.metadata)),
        disruption_budgets: stores.disruption_budgets.state_filter(|budget| beside(&budget.metadata)),
        siblings: siblings.iter().filter_map(|other| other.0.as_ref().ok().map(Arc::clone)).collect(),
        reports: scope.shared.memories.with(&key, |memory| memory.reports.clone()),
    };
    // The stores have no order; messages that list pods should not change without a reason.
    observed.pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    observed.replica_sets.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    observed.config_maps.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    observed.disruption_budgets.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    observed.siblings.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    observed
}

/// The group's pods.
pub fn pods(scope: &Scope, key: &Key) -> Vec<Arc<Pod>> {
    scope.stores.pods.state_filter(|pod| {
        pod.metadata.namespace.as_deref() == Some(key.namespace.as_str())
            && group_label(&pod.metadata) == Some(key.name.as_str())
    })
}

/// The name of the group that an object belongs to, by its label.
pub fn group_label(meta: &ObjectMeta) -> Option<&str> {
    meta.labels.as_ref()?.get(labels::GROUP).map(String::as_str)
}
