//! Writes children, and only what differs: a steady group costs no request.

mod child;
mod subset;

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, PodSpec},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, ResourceExt};
use lockstep_contract::names::annotations;

pub use child::ApplyError;
pub use subset::is_subset;

use crate::{Observed, build::Children, context::Scope, rollout};
use child::Writer;

/// Brings the group's children to what is wanted: configuration before the pods that read it. A child that fails holds up
/// only those that rest on it.
///
/// # Errors
///
/// What went wrong, child by child; the others are as wanted.
pub async fn apply(scope: &Scope, children: &Children, observed: &Observed) -> Result<(), Vec<ApplyError>> {
    let Children { deployment, cold, hot, disruption_budget } = children;
    let mut errors = Vec::new();
    let writer = Writer::new(scope, &observed.group);
    let mut configured = true;
    for wanted in [cold, hot] {
        let live = observed.config_maps.iter().find(|map| map.name_any() == wanted.name_any());
        if let Err(error) = writer.ensure(wanted, live.map(Arc::as_ref)).await {
            // Pods can start with the former one, if there is one.
            configured &= live.is_some();
            errors.push(error);
        }
    }
    let budget = budget(&writer, observed, disruption_budget.as_ref());
    errors.extend(budget.await.err());
    if configured {
        let ensured = writer.ensure(deployment, observed.deployment.as_deref()).await;
        errors.extend(ensured.err());
    }
    if errors.is_empty() {
        errors.extend(sweep(&writer, children, observed).await.err());
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Brings a stalled group's pods to what does not rest on the mistake: their number, and `hot` where there is one. Their
/// template stays, and a group without a Deployment of its own gets nothing.
///
/// # Errors
///
/// As [`apply`].
pub async fn keep(scope: &Scope, observed: &Observed, hot: Option<ConfigMap>) -> Result<(), Vec<ApplyError>> {
    let writer = Writer::new(scope, &observed.group);
    let Some(deployment) = observed.deployment.as_deref().filter(|live| writer.owns(*live)) else {
        return Ok(());
    };
    let mut errors = Vec::new();
    if let Some(hot) = hot {
        let live = observed.config_maps.iter().find(|map| map.name_any() == hot.name_any());
        errors.extend(writer.ensure(&hot, live.map(Arc::as_ref)).await.err());
    }
    errors.extend(writer.scale(deployment, observed.group.spec.replicas).await.err());
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

async fn budget(
    writer: &Writer<'_>,
    observed: &Observed,
    wanted: Option<&PodDisruptionBudget>,
) -> Result<(), ApplyError> {
    let name = observed.group.name_any();
    let live = observed.disruption_budgets.iter().find(|budget| budget.name_any() == name);
    match (wanted, live) {
        (Some(wanted), live) => writer.ensure(wanted, live.map(Arc::as_ref)).await,
        (None, Some(live)) if writer.owns(live.as_ref()) => writer.delete(live.as_ref()).await,
        (None, _) => Ok(()),
    }
}

/// Deletes cold ConfigMaps that nothing names any more.
async fn sweep(writer: &Writer<'_>, children: &Children, observed: &Observed) -> Result<(), ApplyError> {
    let mut named = named_config_maps(children, observed);
    named.extend([children.cold.name_any(), children.hot.name_any()]);
    for map in &observed.config_maps {
        let is_cold = map.annotations().contains_key(annotations::COLD_HASH);
        if is_cold && writer.owns(map.as_ref()) && !named.contains(&map.name_any()) {
            writer.delete(map.as_ref()).await?;
        }
    }
    Ok(())
}

/// The ConfigMaps that a pod, a ReplicaSet to which one can roll back, or a Deployment mounts.
fn named_config_maps(children: &Children, observed: &Observed) -> BTreeSet<String> {
    fn of_deployment(deployment: &Deployment) -> Option<&PodSpec> {
        deployment.spec.template.spec.as_ref()
    }
    let pods = observed.pods.iter().filter_map(|pod| pod.spec.as_ref());
    let sets = observed
        .replica_sets
        .iter()
        .filter_map(|set| set.spec.template.as_ref().and_then(|template| template.spec.as_ref()));
    let live = observed.deployment.iter().filter_map(|live| of_deployment(live));
    let specs = pods.chain(sets).chain(live).chain(of_deployment(&children.deployment));
    specs
        .flat_map(|spec| spec.volumes.iter().flatten())
        .filter_map(|volume| volume.config_map.as_ref().map(|map| map.name.clone()))
        .collect()
}

/// What is left of another group, so that nothing may be made yet: a Deployment of a deleted group of the same name, which
/// goes by itself, or a pod that would meet the new ones at the broker.
pub fn leftover(observed: &Observed) -> Option<ApplyError> {
    let group = &observed.group;
    let uid = group.uid().unwrap_or_default();
    let former = observed.deployment.as_deref();
    let former = former.filter(|live| child::is_leftover(*live, &uid, &group.name_any()));
    if let Some(live) = former {
        return Some(ApplyError::Leftover { kind: "Deployment".to_owned(), name: live.name_any() });
    }
    let pod = rollout::former_member(observed)?;
    Some(ApplyError::Leftover { kind: "Pod".to_owned(), name: pod.name_any() })
}

/// The Deployment of the group's name, whoever made it. A watch shows only those with the operator's label, so that
/// before the first write one has to ask.
///
/// # Errors
///
/// What the API says.
pub async fn find_deployment(scope: &Scope, observed: &Observed) -> Result<Option<Deployment>, kube::Error> {
    let namespace = observed.group.namespace().unwrap_or_default();
    let api: Api<Deployment> = Api::namespaced(scope.shared.client.clone(), &namespace);
    api.get_opt(&observed.group.name_any()).await
}
