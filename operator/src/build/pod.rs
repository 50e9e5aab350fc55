//! The pod template: the user's, with the sidecar added.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, ContainerPort, PodSpec, PodTemplateSpec};
use kube::ResourceExt;
use lockstep_contract::{self as contract, names};
use lockstep_crds::ConsumerGroup;

use super::{BuildError, Owned, hooks, sidecar, volumes};
use crate::{membership::Membership, rollout::Plan};

/// What Kubernetes gives a pod to end where its template says nothing, in seconds.
const GRACE_SECONDS: i64 = 30;
/// What the sidecar may take after the application's end, to leave the broker's group, in seconds.
const RESERVE_SECONDS: i64 = 5;
/// What Kubernetes runs pods as whose template names no account.
const DEFAULT_ACCOUNT: &str = "default";

pub(super) fn template(
    group: &ConsumerGroup,
    plan: &Plan,
    contract: &contract::ConsumerGroup,
    owned: &Owned,
    cold: &ConfigMap,
) -> Result<PodTemplateSpec, BuildError> {
    let mut template = group.spec.template.clone();
    let metadata = template.metadata.get_or_insert_default();
    metadata.labels = Some(pod_labels(group));
    let cold_hash = cold.annotations().get(names::annotations::COLD_HASH).cloned().unwrap_or_default();
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(names::annotations::COLD_HASH.to_owned(), cold_hash);
    annotations.insert(names::annotations::GROUP_UID.to_owned(), owned.uid.clone());
    if let Some(membership) = Membership::of(group) {
        annotations.insert(names::annotations::MEMBER_OF.to_owned(), membership.to_string());
    }

    let Some(spec) = template.spec.as_mut().filter(|spec| !spec.containers.is_empty()) else {
        return Err(BuildError::NoContainer);
    };
    account(spec);
    for container in &mut spec.containers {
        hooks::inject(container, &owned.uid, contract.spec.sidecar.admin_port);
    }
    let (volumes, mounts) = volumes::of(contract, cold.name_any(), &owned.group);
    spec.volumes.get_or_insert_default().extend(volumes);
    let grace = spec.termination_grace_period_seconds.unwrap_or(GRACE_SECONDS);
    let mut sidecar = sidecar::container(&group.spec.sidecar, owned, plan, grace, mounts);
    if spec.resources.is_some() && group.spec.sidecar.resources.is_none() {
        // A pod that requests as a whole must request no less than its containers together.
        sidecar.resources = None;
    }
    // Last: what the user starts before the application is there before the sidecar too, and outlives it.
    spec.init_containers.get_or_insert_default().push(sidecar);
    let drain = i64::try_from(plan.drain_seconds).unwrap_or(i64::MAX);
    let total = drain.saturating_add(grace).saturating_add(RESERVE_SECONDS);
    spec.termination_grace_period_seconds = Some(total);
    Ok(template)
}

/// Writes the service account under both of its names. The API server copies the one to the other, so that a name which
/// was taken out of the group would live on under the one that nobody writes.
fn account(spec: &mut PodSpec) {
    let given = [spec.service_account_name.take(), spec.service_account.take()];
    let name = given.into_iter().flatten().find(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned());
    spec.service_account = Some(name.clone());
    spec.service_account_name = Some(name);
}

/// Labels of every child.
pub(crate) fn labels(group: &str) -> BTreeMap<String, String> {
    let mut labels = selector(group);
    labels.insert(names::labels::MANAGED_BY.to_owned(), names::FIELD_MANAGER.to_owned());
    labels
}

/// The label by which the Deployment knows its pods.
pub(super) fn selector(group: &str) -> BTreeMap<String, String> {
    [(names::labels::GROUP.to_owned(), group.to_owned())].into()
}

/// The labels of the group's pods: the user's and ours.
pub(super) fn pod_labels(group: &ConsumerGroup) -> BTreeMap<String, String> {
    let given = group.spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
    let mut all = given.unwrap_or_default();
    all.extend(labels(&group.name_any()));
    all
}

/// Whether it is a port of TCP, which is the default.
pub(crate) fn is_tcp(port: &ContainerPort) -> bool {
    port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP")
}
