//! What the Deployment says: whether it changes pods, and whether the API refuses them.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use lockstep_contract::Reason;

use super::{
    pod,
    seen::{SeenPod, is_applied},
};
use crate::status::StatusFacts;

/// Why only a change of the spec helps, if so.
pub(super) fn stalled(
    facts: &StatusFacts<'_>,
    deployment: Option<&Deployment>,
    pods: &[SeenPod<'_>],
) -> Option<(Reason, String)> {
    if let Some(first) = facts.faults.first() {
        let messages: Vec<_> = facts.faults.iter().map(|fault| fault.message.as_str()).collect();
        return Some((first.reason(), messages.join("; ")));
    }
    if let Some(failure) = facts.failure.filter(|failure| failure.for_good) {
        return Some((Reason::ChildRefused, failure.message.clone()));
    }
    let current = deployment.filter(|deployment| is_applied(facts, deployment) && is_observed(deployment))?;
    if let Some(refusal) = refusal(current).filter(|message| is_for_good(message)) {
        let message = format!("Kubernetes refuses the pods: {refusal}; correct spec.template");
        return Some((Reason::ChildRefused, message));
    }
    let (name, image) = pods.iter().find_map(|seen| Some((seen.name, pod::invalid_image(seen.pod)?)))?;
    Some((Reason::InvalidTemplate, format!("pod {name}: {image}; correct the image in spec.template")))
}

/// What Kubernetes has not finished on the pods, if anything.
pub(super) fn change(
    facts: &StatusFacts<'_>,
    deployment: Option<&Deployment>,
    recreates: bool,
) -> Option<(Reason, String)> {
    let roll = if recreates { Reason::ReplacingAll } else { Reason::RollingOut };
    let Some(deployment) = deployment else {
        return Some((Reason::RollingOut, "the Deployment is not there yet".to_owned()));
    };
    let Counts { wanted, all, updated, available } = Counts::of(facts, deployment);
    let reason = if !is_applied(facts, deployment) || !is_observed(deployment) {
        // Which of the two Kubernetes will make of it is not known yet; a group that only lacks pods is being scaled.
        let scales = has_rolled_out(deployment) && !recreates && updated == all && all != wanted;
        if scales { Reason::Scaling } else { roll }
    } else if all > updated {
        roll
    } else if all != wanted {
        if has_rolled_out(deployment) { Reason::Scaling } else { roll }
    } else if available < wanted && !has_rolled_out(deployment) {
        roll
    } else {
        return None;
    };
    let message = if reason == Reason::Scaling {
        format!("{all} pods, {wanted} wanted")
    } else {
        format!("{updated} of {wanted} pods are of the current template, {available} are available")
    };
    Some((reason, message))
}

/// Whether as many pods of the current template are ready as are wanted, and none of a former one is left.
pub(super) fn is_enough(facts: &StatusFacts<'_>, deployment: Option<&Deployment>) -> bool {
    deployment.is_some_and(|deployment| {
        let Counts { wanted, all, updated, available } = Counts::of(facts, deployment);
        is_applied(facts, deployment)
            && is_observed(deployment)
            && updated == all
            && updated >= wanted
            && available >= wanted
    })
}

/// Whether the newest pods were not ready within the Deployment's deadline.
pub(super) fn is_stuck(deployment: &Deployment) -> bool {
    let progressing = condition(deployment, "Progressing");
    is_observed(deployment)
        && progressing
            .is_some_and(|condition| condition.reason.as_deref() == Some("ProgressDeadlineExceeded"))
}

/// Why the API refuses to create pods, if it does.
pub(super) fn refusal(deployment: &Deployment) -> Option<&str> {
    let failure = condition(deployment, "ReplicaFailure")
        .filter(|condition| condition.status.as_deref() == Some("True"))?;
    Some(failure.message.as_deref().unwrap_or_default())
}

/// A quota frees up, a ServiceAccount is created, a webhook comes back: those refusals pass without a change of the spec.
/// Everything else that is forbidden or invalid is refused again each time.
fn is_for_good(message: &str) -> bool {
    let message = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    has(&["forbidden", "invalid", "denied the request"])
        && !has(&[
            "exceeded quota",
            "not found",
            // A PriorityClass: "no PriorityClass with name … was found".
            "was found",
            "being terminated",
            "failed calling webhook",
            "failed quota",
            "timed out",
        ])
}

/// Numbers of pods.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) wanted: i32,
    pub(super) all: i32,
    pub(super) updated: i32,
    pub(super) available: i32,
}

impl Counts {
    pub(super) fn of(facts: &StatusFacts<'_>, deployment: &Deployment) -> Self {
        let status = deployment.status.as_ref();
        let count = |count: Option<Option<i32>>| count.flatten().unwrap_or(0);
        Self {
            wanted: facts.group.spec.replicas,
            all: count(status.map(|status| status.replicas)),
            updated: count(status.map(|status| status.updated_replicas)),
            available: count(status.map(|status| status.available_replicas)),
        }
    }
}

fn is_observed(deployment: &Deployment) -> bool {
    let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
    observed.is_some() && observed >= deployment.metadata.generation
}

/// Whether the newest template was rolled out once: what is missing since then is a scale or a broken pod.
fn has_rolled_out(deployment: &Deployment) -> bool {
    let progressing = condition(deployment, "Progressing");
    progressing.is_some_and(|condition| condition.reason.as_deref() == Some("NewReplicaSetAvailable"))
}

fn condition<'a>(deployment: &'a Deployment, kind: &str) -> Option<&'a DeploymentCondition> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_.as_deref() == Some(kind))
}
