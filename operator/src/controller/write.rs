//! The writes of one reconciliation, the status left out.

use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use kube::ResourceExt;
use lockstep_contract::{Strictness, names::annotations, parse};
use lockstep_crds::ConsumerGroup;
use tokio::time::Instant;
use tracing::debug;

use crate::{
    Fault, Observed,
    apply::{self, ApplyError},
    assignment,
    build::{Children, build, hot},
    context::{Held, Key, Scope, Troubles},
    metrics::{ChildKind, Step, Verb},
    rollout::{self, Hashes, Plan, WaveView, untouched},
    status::ApplyFailure,
    touch,
    validate::Rule,
};

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) plan: Option<Plan>,
    pub(super) applied_hash: Option<String>,
    /// Whether pods have still to apply the hot configuration.
    pub(super) touching: bool,
    pub(super) troubles: Troubles,
    /// Nothing was written, since that failed a moment ago; it is tried again after so long.
    pub(super) held_for: Option<Duration>,
}

/// Writes children, and annotations of pods. Of a stalled group with pods only what does not rest on the mistake: the
/// number of pods, and the hot configuration where that breaks no rule.
pub(super) async fn write(
    scope: &Scope,
    observed: &Observed,
    hashes: &Hashes,
    stalled: bool,
    leftover: Option<ApplyError>,
) -> Written {
    if stalled {
        let Key { namespace, name } = Key::of(observed.group.as_ref());
        scope.shared.wave.sit_out(
            &namespace,
            &name,
            observed.deployment.as_ref().and_then(|live| live.metadata.uid.as_deref()),
        );
    }
    let plan = (!stalled).then(|| plan(scope, observed, hashes));
    if let Some(leftover) = leftover {
        return Written { plan, troubles: troubles(&[leftover]), ..Written::default() };
    }
    let built = plan.as_ref().map(|plan| build(observed, plan));
    let children = match built.transpose() {
        Ok(children) => children,
        Err(error) => {
            scope.shared.metrics.failed(Step::Build);
            let failure = ApplyFailure { message: error.to_string(), for_good: false };
            let troubles =
                Troubles { failure: Some(failure), again: vec![error.to_string()], ..Troubles::default() };
            return Written { plan, troubles, ..Written::default() };
        }
    };
    let applied_hash = children
        .as_ref()
        .and_then(|children| children.deployment.annotations().get(annotations::APPLIED_HASH).cloned());
    let mut waiting = untouched(&observed.pods, &observed.reports, &hashes.hot);
    if stalled && !is_hot_applied(observed, hashes) {
        waiting.clear();
    }
    let touching = !waiting.is_empty();
    let key = Key::of(observed.group.as_ref());
    let basis = basis(observed, &waiting);
    let now = Instant::now();
    let held = scope.shared.memories.with(&key, |memory| memory.held.clone());
    if let Some(held) = held.filter(|held| held.until > now && held.basis == basis) {
        let held_for = Some(held.until.duration_since(now));
        return Written { plan, applied_hash, touching, troubles: held.troubles, held_for };
    }
    let troubles = attempt(scope, observed, children.as_ref(), &waiting, hashes).await;
    scope.shared.memories.with(&key, |memory| {
        let troubles = troubles.clone();
        memory.held = (!troubles.again.is_empty()).then_some(Held { until: now, basis, troubles });
    });
    Written { plan, applied_hash, touching, troubles, held_for: None }
}

fn plan(scope: &Scope, observed: &Observed, hashes: &Hashes) -> Plan {
    let shared = &scope.shared;
    let deployments: Vec<_> = shared.deployments.iter().flat_map(|store| store.state()).collect();
    let candidates: Vec<_> = deployments.iter().map(|live| live.glance()).collect();
    let view = WaveView { wave: &shared.wave, candidates: &candidates };
    let listed = shared.deployments.iter().all(|store| store.wait_until_ready().now_or_never().is_some());
    if listed {
        return rollout::plan(observed, &shared.settings, &view, hashes);
    }
    // Groups of a namespace that is not listed yet may hold all the places.
    let nobody = crate::Settings { upgrade_groups_max: 0, ..shared.settings.clone() };
    rollout::plan(observed, &nobody, &view, hashes)
}

async fn attempt(
    scope: &Scope,
    observed: &Observed,
    children: Option<&Children>,
    waiting: &[String],
    hashes: &Hashes,
) -> Troubles {
    let shared = &scope.shared;
    let applied = match children {
        Some(children) => apply::apply(scope, children, observed).await,
        None => apply::keep(scope, observed, readable_hot(&observed.group)).await,
    };
    let errors = applied.err().unwrap_or_default();
    let mut troubles = troubles(&errors);
    if troubles.group_ends {
        return troubles;
    }
    if !errors.is_empty() {
        shared.metrics.failed(Step::Apply);
    }
    let untouchable = touch_pods(scope, observed, waiting, &hashes.hot).await;
    troubles.again.extend(untouchable.clone());
    troubles.touch = untouchable;
    if errors.is_empty() && children.is_some() {
        let failed = assign_queues(scope, observed).await.err();
        troubles.again.extend(failed.clone());
        troubles.failure = failed.map(|message| ApplyFailure { message, for_good: false });
    }
    troubles
}

/// The hot ConfigMap of a stalled group, where the sidecar's part of its spec breaks no rule.
fn readable_hot(group: &ConsumerGroup) -> Option<k8s_openapi::api::core::v1::ConfigMap> {
    let manifest = serde_json::to_string(&group.contract()).unwrap_or_default();
    parse(&manifest, Strictness::Strict).ok().and_then(|_| hot(group).ok())
}

/// Whether the cluster holds the hot configuration that is wanted: only then a touch shows it to a pod.
fn is_hot_applied(observed: &Observed, hashes: &Hashes) -> bool {
    observed
        .config_maps
        .iter()
        .any(|map| map.annotations().get(annotations::HOT_HASH).is_some_and(|hash| *hash == hashes.hot))
}

/// What writes rest on that failed: the group, what the cluster holds of it, and the pods that wait for a touch. Not the
/// status of anything, which changes all the time.
fn basis(observed: &Observed, waiting: &[String]) -> String {
    let group = &observed.group.metadata;
    let deployment = observed.deployment.iter().map(|live| (&live.metadata.uid, live.metadata.generation));
    let maps = observed.config_maps.iter().map(|map| (&map.metadata.uid, &map.metadata.resource_version));
    let budgets = observed.disruption_budgets.iter();
    let budgets = budgets.map(|budget| (&budget.metadata.uid, budget.metadata.generation));
    let children = (deployment.collect::<Vec<_>>(), maps.collect::<Vec<_>>(), budgets.collect::<Vec<_>>());
    format!("{:?} {:?} {children:?} {waiting:?}", group.uid, group.generation)
}

/// What the errors mean for the status, and for when to try again.
fn troubles(errors: &[ApplyError]) -> Troubles {
    let mut troubles = Troubles::default();
    let mut told = Vec::new();
    for error in errors {
        match error {
            ApplyError::NotOwned { .. } => {
                troubles.faults.push(Fault { rule: Rule::ChildOwned, message: error.to_string() });
            }
            ApplyError::Leftover { .. } => told.push(error.to_string()),
            ApplyError::NamespaceEnds | ApplyError::GroupEnds => troubles.group_ends = true,
            ApplyError::NotLeading => {}
            ApplyError::Refused { .. } | ApplyError::Failed { .. } => {
                told.push(error.to_string());
                troubles.again.push(error.to_string());
            }
        }
    }
    let for_good = errors.iter().any(|error| matches!(error, ApplyError::Refused { .. }));
    troubles.failure = (!told.is_empty()).then(|| ApplyFailure { message: told.join("; "), for_good });
    troubles.unfinished = !errors.is_empty();
    troubles
}

/// Touches the pods whose turn it is, and answers what went wrong: one pod holds up none of the others.
async fn touch_pods(scope: &Scope, observed: &Observed, waiting: &[String], hot: &str) -> Option<String> {
    let shared = &scope.shared;
    let key = Key::of(observed.group.as_ref());
    let due = shared.memories.with(&key, |memory| memory.touches.due(waiting, hot, Instant::now()));
    let mut first = None;
    for pod in due.iter().filter(|_| shared.leads()) {
        let now_ms = Timestamp::now().as_millisecond();
        match touch::touch(&shared.client, &key.namespace, pod, hot, now_ms).await {
            Ok(()) => {
                shared.memories.with(&key, |memory| memory.touches.touched(pod, hot, Instant::now()));
                shared.metrics.wrote(ChildKind::Pod, Verb::Patch);
                debug!(pod, hot, "pod touched");
            }
            Err(error) => {
                shared.metrics.failed(Step::Touch);
                first.get_or_insert_with(|| format!("failed to touch pod {pod}: {error}"));
            }
        }
    }
    first
}

/// Writes which pod should take which queues, where the source does not share them out by itself.
async fn assign_queues(scope: &Scope, observed: &Observed) -> Result<(), String> {
    let shared = &scope.shared;
    let Some(queues) = assignment::needs_assignment(&observed.group) else { return Ok(()) };
    let key = Key::of(observed.group.as_ref());
    let now = Instant::now();
    let members = shared.memories.with(&key, |memory| memory.members.members(observed, now));
    let before = assignment::assigned(observed.pods.iter().map(AsRef::as_ref));
    let hand_over = observed.group.spec.delivery.health_check.hand_over;
    let after = assignment::assign(&queues, &members, &before, hand_over, now);
    let failed = |message: String| {
        shared.metrics.failed(Step::Assign);
        message
    };
    for (pod, queues) in after.iter().filter(|(pod, queues)| before.get(*pod) != Some(*queues)) {
        let text = assignment::annotation(queues).map_err(|error| failed(error.to_string()))?;
        if !shared.leads() {
            break;
        }
        touch::assign(&shared.client, &key.namespace, pod, &text)
            .await
            .map_err(|error| failed(format!("failed to assign queues to pod {pod}: {error}")))?;
        shared.metrics.wrote(ChildKind::Pod, Verb::Patch);
    }
    Ok(())
}
