//! What the conditions are judged by, taken out of Kubernetes' and the sidecars' words once.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::ResourceExt;
use lockstep_contract::{
    ConditionType, Phase, PodCondition, Reason, RunState, Status,
    names::{SIDECAR_CONTAINER, annotations},
};
use lockstep_crds::ConsumerGroupStatus;

use super::{children, pod};
use crate::{
    PodReport,
    facts::is_controlled_by,
    rollout::{Strategy, is_ending, is_living},
    status::StatusFacts,
};

/// What the conditions are judged by.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(super) facts: &'a StatusFacts<'a>,
    /// The group's own Deployment.
    pub(super) deployment: Option<&'a Deployment>,
    pub(super) wanted: i32,
    pub(super) paused: bool,
    /// The living pods.
    pub(super) pods: Vec<SeenPod<'a>>,
    /// Pods that still end, and may still hold queues. An evicted one that stays listed has ended.
    pub(super) ending: Vec<&'a Pod>,
    /// Why only a change of the spec helps.
    pub(super) stalled: Option<(Reason, String)>,
    /// What Kubernetes changes on the pods.
    pub(super) change: Option<(Reason, String)>,
}

/// A living pod.
#[derive(Debug)]
pub(super) struct SeenPod<'a> {
    pub(super) name: &'a str,
    pub(super) pod: &'a Pod,
    pub(super) word: Word<'a>,
}

/// What a pod says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Word<'a> {
    /// It answers.
    Says(&'a Status),
    /// Its sidecar has not started.
    Starting,
    /// Its sidecar runs and was not asked yet: the operator is young.
    Unasked,
    /// Its sidecar runs and can't be reached.
    Unreachable(&'a str),
}

impl<'a> Seen<'a> {
    pub(crate) fn new(facts: &'a StatusFacts<'a>) -> Self {
        let uid = facts.group.uid().unwrap_or_default();
        let deployment = facts.deployment.filter(|deployment| is_controlled_by(&deployment.metadata, &uid));
        let living = facts.pods.iter().filter(|pod| is_living(pod));
        let pods: Vec<_> = living.filter_map(|pod| SeenPod::new(pod, facts)).collect();
        let ending = facts.pods.iter().map(Arc::as_ref).filter(|pod| is_ending(pod));
        let recreates = facts.plan.is_some_and(|plan| plan.strategy == Strategy::Recreate);
        Self {
            facts,
            deployment,
            wanted: facts.group.spec.replicas,
            paused: facts.group.spec.state == RunState::Paused,
            stalled: children::stalled(facts, deployment, &pods),
            change: children::change(facts, deployment, recreates),
            ending: ending.collect(),
            pods,
        }
    }

    /// The pods that answer and do not end by themselves.
    pub(super) fn answers(&self) -> impl Iterator<Item = (&'a str, &'a Status)> {
        self.pods.iter().filter_map(SeenPod::answer).filter(|(_, status)| status.phase != Phase::Draining)
    }

    /// The pods that can't be reached, and why.
    pub(super) fn unreachable(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.pods.iter().filter_map(|pod| match pod.word {
            Word::Unreachable(why) => Some((pod.name, why)),
            Word::Says(_) | Word::Starting | Word::Unasked => None,
        })
    }

    /// What was known before, while no pod answers and some were not asked yet: a restarted operator must not make
    /// everything unknown for a moment.
    pub(crate) fn former(&self) -> Option<&'a ConsumerGroupStatus> {
        let unasked = self.pods.iter().any(|pod| matches!(pod.word, Word::Unasked));
        let former = self.facts.group.status.as_ref();
        former.filter(|_| unasked && self.answers().next().is_none() && self.unreachable().next().is_none())
    }

    /// Whether queues change hands, since a pod starts or drains.
    pub(super) fn is_any_moving(&self) -> bool {
        self.pods.iter().any(|pod| match pod.word {
            Word::Starting => true,
            Word::Says(status) => matches!(status.phase, Phase::Starting | Phase::Draining),
            Word::Unasked | Word::Unreachable(_) => false,
        })
    }

    /// Whether no pod holds a queue: none ends any more, and each living one says so or never ran.
    pub(super) fn has_left(&self) -> bool {
        self.ending.is_empty() && self.holding().next().is_none()
    }

    /// The living pods that have not said that they hold nothing.
    pub(super) fn holding(&self) -> impl Iterator<Item = &SeenPod<'a>> {
        self.pods.iter().filter(|pod| match pod.word {
            Word::Says(status) => status.phase != Phase::Paused || status.totals.owned > 0,
            // One that was restarted may still be known to the broker.
            Word::Starting => pod::has_run(pod.pod, SIDECAR_CONTAINER),
            Word::Unasked | Word::Unreachable(_) => true,
        })
    }

    pub(super) fn admin_port(&self) -> u16 {
        self.facts.group.spec.sidecar.admin_port
    }

    /// Queues that the pods know of; `None` = no pod knows.
    pub(crate) fn queues_total(&self) -> Option<u32> {
        self.answers().filter_map(|(_, status)| status.totals.known).max()
    }

    /// Queues that a pod owns, one that two pods list counted once.
    pub(crate) fn queues_owned(&self) -> u32 {
        let mut listed = BTreeSet::new();
        let mut unlisted = 0_u32;
        for (_, status) in self.answers() {
            let own = || status.queues.iter().filter(|queue| !queue.extra);
            listed.extend(own().map(|queue| queue.name.as_str()));
            let count = u32::try_from(own().count()).unwrap_or(u32::MAX);
            unlisted = unlisted.saturating_add(status.totals.owned.saturating_sub(count));
        }
        u32::try_from(listed.len()).unwrap_or(u32::MAX).saturating_add(unlisted)
    }

    pub(crate) fn statuses(&self) -> impl Iterator<Item = &'a Status> {
        self.answers().map(|(_, status)| status)
    }

    pub(crate) fn own_deployment(&self) -> Option<&'a Deployment> {
        self.deployment
    }

    /// The hash of the hot file that every pod has applied, as far as known; while a change is on its way, of the former
    /// one. What a pod that can't be reached has applied is what it had.
    pub(crate) fn config_hash(&self) -> Option<String> {
        let wanted = self.facts.hot_hash;
        let former = || self.facts.group.status.as_ref()?.config_hash.clone();
        let behind = self.answers().find(|(_, status)| status.config.hot_hash != wanted);
        if let Some((_, status)) = behind {
            return former().filter(|hash| hash != wanted).or_else(|| Some(status.config.hot_hash.clone()));
        }
        let known = self.pods.is_empty() && self.wanted == 0
            || self.answers().next().is_some() && self.unreachable().next().is_none();
        if known { Some(wanted.to_owned()) } else { former() }
    }
}

impl<'a> SeenPod<'a> {
    fn new(pod: &'a Pod, facts: &StatusFacts<'a>) -> Option<Self> {
        let name = pod.metadata.name.as_deref()?;
        let word = match facts.reports.get(name) {
            Some(PodReport::Answered(status)) => Word::Says(status),
            Some(PodReport::Unreachable(why)) if pod::has_started(pod, SIDECAR_CONTAINER) => {
                Word::Unreachable(why)
            }
            None if pod::has_started(pod, SIDECAR_CONTAINER) => Word::Unasked,
            Some(PodReport::Unreachable(_)) | None => Word::Starting,
        };
        Some(Self { name, pod, word })
    }

    fn answer(&self) -> Option<(&'a str, &'a Status)> {
        match self.word {
            Word::Says(status) => Some((self.name, status)),
            Word::Starting | Word::Unasked | Word::Unreachable(_) => None,
        }
    }
}

/// What a pod says of one condition.
pub(super) fn own_condition(status: &Status, kind: ConditionType) -> Option<&PodCondition> {
    status.conditions.iter().find(|condition| condition.kind == kind)
}

/// Whether the live object is the one that is wanted.
pub(super) fn is_applied(facts: &StatusFacts<'_>, deployment: &Deployment) -> bool {
    let live = deployment.metadata.annotations.as_ref().and_then(|all| all.get(annotations::APPLIED_HASH));
    facts.applied_hash.is_none_or(|wanted| live.is_some_and(|live| live == wanted))
}
