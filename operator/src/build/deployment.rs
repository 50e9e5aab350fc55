//! The Deployment.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{ConfigMap, PodTemplateSpec},
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kube::ResourceExt;
use lockstep_contract::{self as contract, OrderingMode, names::annotations};
use lockstep_crds::ConsumerGroup;

use super::{BuildError, Owned, configmaps, kept, pod};
use crate::{
    facts::Observed,
    rollout::{Plan, Strategy, TemplateSource, former_image},
};

/// How long a new pod must stay ready before the next one is replaced, in seconds. An application that answers 404
/// to everything is ready until its first messages; within this time the sidecar has seen enough of them to say so.
const MIN_READY_SECONDS: i32 = 10;
/// After so long without progress a rollout is called failed, in seconds: Kubernetes' own default, written out so
/// that it does not depend on the server.
const PROGRESS_DEADLINE_SECONDS: i32 = 600;

/// Former ReplicaSets that are kept, to be looked at: the way back is a change of the group. Each keeps its ConfigMap.
const REVISIONS: i32 = 2;

/// A pod template and what goes with it.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) template: PodTemplateSpec,
    pub(super) cold: ConfigMap,
}

impl Built {
    pub(super) fn new(
        observed: &Observed,
        plan: &Plan,
        contract: &contract::ConsumerGroup,
        owned: &Owned,
    ) -> Result<Self, BuildError> {
        let kept = match plan.template {
            TemplateSource::Build => None,
            // Without the former configuration its template would start no pod, so a new one is better.
            TemplateSource::KeepLive => Self::live(observed, owned),
        };
        match kept {
            Some(kept) => Ok(kept),
            None => Self::fresh(&observed.group, plan, contract, owned),
        }
    }

    fn fresh(
        group: &ConsumerGroup,
        plan: &Plan,
        contract: &contract::ConsumerGroup,
        owned: &Owned,
    ) -> Result<Self, BuildError> {
        let cold = configmaps::cold(contract, owned);
        let template = pod::template(group, plan, contract, owned, &cold)?;
        Ok(Self { template, cold })
    }

    /// What the cluster holds, with what its user wrote.
    fn live(observed: &Observed, owned: &Owned) -> Option<Self> {
        let deployment = observed.deployment.as_ref()?;
        let group = observed.group.as_ref();
        let image = group.spec.sidecar.image.as_deref().or_else(|| former_image(deployment));
        let template = kept::template(&deployment.spec.template, &group.spec.template, image)?;
        let hash = template.metadata.as_ref()?.annotations.as_ref()?.get(annotations::COLD_HASH)?;
        let name = configmaps::cold_name(&owned.group, hash);
        let live = observed.config_maps.iter().find(|map| map.name_any() == name)?;
        let metadata = ObjectMeta {
            annotations: Some([(annotations::COLD_HASH.to_owned(), hash.clone())].into()),
            ..owned.named(name)
        };
        let cold =
            ConfigMap { immutable: Some(true), metadata, data: live.data.clone(), ..ConfigMap::default() };
        Some(Self { template, cold })
    }
}

pub(super) fn deployment(
    group: &ConsumerGroup,
    plan: &Plan,
    owned: &Owned,
    template: PodTemplateSpec,
) -> Deployment {
    let marks = plan.marks.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    let metadata = ObjectMeta { annotations: Some(marks.collect()), ..owned.named(owned.group.clone()) };
    let spec = DeploymentSpec {
        replicas: Some(group.spec.replicas),
        selector: LabelSelector {
            match_labels: Some(pod::selector(&owned.group)),
            ..LabelSelector::default()
        },
        strategy: Some(strategy(plan.strategy, group.spec.ordering.mode)),
        // Written out: a pause by another writer would hold every change back without a word.
        paused: Some(false),
        min_ready_seconds: Some(MIN_READY_SECONDS),
        progress_deadline_seconds: Some(PROGRESS_DEADLINE_SECONDS),
        revision_history_limit: Some(REVISIONS),
        template,
    };
    Deployment { metadata, spec, ..Deployment::default() }
}

fn strategy(strategy: Strategy, mode: OrderingMode) -> DeploymentStrategy {
    let rolling = |surge, unavailable| DeploymentStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: Some(IntOrString::Int(surge)),
            max_unavailable: Some(IntOrString::Int(unavailable)),
        }),
    };
    match (strategy, mode) {
        (Strategy::Recreate, _) => {
            DeploymentStrategy { type_: Some("Recreate".to_owned()), rolling_update: None }
        }
        (Strategy::Rolling, OrderingMode::Unordered) => rolling(1, 0),
        // A surge adds a member and so moves the queues twice for each pod.
        (Strategy::Rolling, OrderingMode::PerKey | OrderingMode::PerQueue) => rolling(0, 1),
    }
}
