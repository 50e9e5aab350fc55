//! What the stores keep. With hundreds of groups the unread parts of objects would be most of the operator's memory.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{ConfigMap, Container, Pod, PodSpec},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use lockstep_contract::names::SIDECAR_CONTAINER;

use super::Entry;

/// Large, and rewritten by every client-side `kubectl apply`.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Groups: all but bookkeeping.
pub(super) fn group(entry: &mut Entry) {
    metadata(kube::Resource::meta_mut(entry));
}

/// Deployments: all but bookkeeping, since drift can be anywhere.
pub(super) fn deployment(deployment: &mut Deployment) {
    metadata(&mut deployment.metadata);
}

/// ConfigMaps: all but bookkeeping.
pub(super) fn config_map(config_map: &mut ConfigMap) {
    metadata(&mut config_map.metadata);
}

/// PodDisruptionBudgets: what they select, and whether ours has drifted.
pub(super) fn disruption_budget(budget: &mut PodDisruptionBudget) {
    metadata(&mut budget.metadata);
    budget.status = None;
}

/// ReplicaSets: which ConfigMaps their template names, and how many pods they have.
pub(super) fn replica_set(replica_set: &mut ReplicaSet) {
    metadata(&mut replica_set.metadata);
    if let Some(pod) = replica_set.spec.template.as_mut().and_then(|template| template.spec.as_mut()) {
        pod_spec(pod);
    }
}

/// Pods: how they are, which ConfigMaps they name, and the sidecar's ports.
pub(super) fn pod(pod: &mut Pod) {
    metadata(&mut pod.metadata);
    if let Some(spec) = pod.spec.as_mut() {
        pod_spec(spec);
    }
}

fn metadata(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = metadata.annotations.as_mut() {
        annotations.remove(LAST_APPLIED);
    }
}

fn pod_spec(spec: &mut PodSpec) {
    let PodSpec { volumes, node_name, termination_grace_period_seconds, containers, init_containers, .. } =
        std::mem::take(spec);
    let slim = |container: Container| {
        let ports = (container.name == SIDECAR_CONTAINER).then_some(container.ports).flatten();
        Container { name: container.name, image: container.image, ports, ..Container::default() }
    };
    *spec = PodSpec {
        volumes,
        node_name,
        termination_grace_period_seconds,
        containers: containers.into_iter().map(slim).collect(),
        init_containers: init_containers.map(|all| all.into_iter().map(slim).collect()),
        ..PodSpec::default()
    };
}
