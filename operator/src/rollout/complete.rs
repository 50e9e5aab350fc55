//! Whether all pods are there.

use std::sync::Arc;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};

/// Whether the Deployment's controller has seen the newest template, all pods are of it, and all are available.
pub fn is_rolled_out(deployment: &Deployment) -> bool {
    let Some(status) = deployment.status.as_ref() else { return false };
    let wanted = wanted(deployment);
    status.observed_generation >= deployment.metadata.generation
        && [status.replicas, status.updated_replicas, status.available_replicas]
            .iter()
            .all(|count| count.unwrap_or(0) == wanted)
}

/// [`is_rolled_out`], and as many pods live as are wanted.
pub fn is_complete(deployment: &Deployment, pods: &[Arc<Pod>]) -> bool {
    let living = pods.iter().filter(|pod| is_living(pod)).count();
    is_rolled_out(deployment) && i32::try_from(living).ok() == Some(wanted(deployment))
}

/// Whether a pod counts: it neither ends nor has ended, as an evicted one has that stays listed.
pub(crate) fn is_living(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && !has_ended(pod)
}

/// Whether a pod was told to end and has not ended.
pub(crate) fn is_ending(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() && !has_ended(pod)
}

/// Whether none of its containers runs or will.
pub(super) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn wanted(deployment: &Deployment) -> i32 {
    // Kubernetes' default.
    deployment.spec.replicas.unwrap_or(1)
}
