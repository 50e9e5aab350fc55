//! One reconciliation of one group.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Resource, ResourceExt, runtime::controller::Action};
use lockstep_contract::{ConditionType, Reason, names::annotations};
use lockstep_crds::{ConsumerGroup, ConsumerGroupStatus};
use thiserror::Error;
use tokio::{
    task::yield_now,
    time::{Instant, timeout},
};
use tracing::{debug, warn};

use super::{Entry, LIVELY_PERIOD, POLL_PERIOD, undecodable};
use crate::{
    Observed,
    apply::{self, ApplyError},
    assignment, backoff,
    build::{BuildError, build},
    context::{Key, Memory, Scope},
    dereference::observe,
    events,
    metrics::{ReconcileResult, Step},
    rollout::{self, Hashes, Plan, WaveView},
    status::{ApplyFailure, StatusFacts, status},
    touch,
    update_status::{Target, update},
    validate::{Verdict, validate},
};

/// The longest reconciliation. One with every write takes a second on a busy API server.
const LONGEST: Duration = Duration::from_secs(30);
/// Between two looks at a group that nothing happens to; what matters wakes it earlier.
const IDLE_PERIOD: Duration = Duration::from_secs(30);

/// A reconciliation failed and is tried again.
#[derive(Debug, Error)]
enum ReconcileError {
    #[error("failed to {0}: {1}")]
    Api(&'static str, kube::Error),
    #[error("{0}")]
    Children(String),
    #[error("{0}")]
    Build(#[from] BuildError),
    #[error("{0}")]
    Assignment(#[from] assignment::TooLong),
    #[error("not done after {} s", LONGEST.as_secs())]
    TooLong,
}

/// How a reconciliation ended that did not fail.
enum Outcome {
    /// Look again after so long.
    Done(ReconcileResult, Duration),
    /// The group goes; nothing is to be done.
    Ending,
}

/// Brings a group to what its spec says and says how it is. Never fails: what went wrong is told, and tried again.
pub(super) async fn reconcile(scope: &Arc<Scope>, entry: &Entry) -> Action {
    let shared = &scope.shared;
    let key = Key::of(entry);
    // The queue never pauses while groups are due; here the election gets its turn.
    yield_now().await;
    // Never closed.
    let _permit = shared.permits.acquire().await;
    if !shared.leads() {
        return Action::await_change();
    }
    let begun = Instant::now();
    let result = match timeout(LONGEST, steps(scope, entry, &key)).await {
        Ok(result) => result,
        Err(_) => Err(ReconcileError::TooLong),
    };
    match result {
        Ok(Outcome::Done(result, again)) => {
            shared.metrics.reconciled(result, begun.elapsed());
            shared.memories.with(&key, |memory| memory.failures = 0);
            Action::requeue(again)
        }
        Ok(Outcome::Ending) => Action::requeue(IDLE_PERIOD),
        Err(_) if !shared.leads() => {
            shared.metrics.reconciled(ReconcileResult::Cut, begun.elapsed());
            Action::await_change()
        }
        Err(error) => {
            shared.metrics.reconciled(ReconcileResult::Failed, begun.elapsed());
            let failures = shared.memories.with(&key, |memory| {
                memory.failures = memory.failures.saturating_add(1);
                memory.failures
            });
            let delay = backoff::delay(failures, backoff::dice());
            let again_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            warn!(error = %error, failures, again_ms, "reconciliation failed; it is tried again");
            Action::requeue(delay)
        }
    }
}

async fn steps(scope: &Arc<Scope>, entry: &Entry, key: &Key) -> Result<Outcome, ReconcileError> {
    let group = match &entry.0 {
        Ok(group) => group,
        Err(invalid) => {
            scope.shared.metrics.failed(Step::Decode);
            let told = undecodable::report(scope, invalid).await;
            told.map_err(|error| failed(scope, Step::Status, "write the status", error))?;
            return Ok(Outcome::Done(ReconcileResult::Stalled, IDLE_PERIOD));
        }
    };
    if group.metadata.deletion_timestamp.is_some() {
        // Its children go with it.
        return Ok(Outcome::Ending);
    }
    scope.stores.ready().await;
    remember(scope, key, group);
    let mut observed = observe(scope, group);
    if observed.deployment.is_none() {
        let found = apply::find_deployment(scope, &observed).await;
        observed.deployment = found
            .map_err(|error| failed(scope, Step::Dereference, "ask for the Deployment", error))?
            .map(Arc::new);
    }
    let leftover = apply::leftover(&observed);
    let mut verdict = validate(&observed);
    if leftover.is_some() {
        verdict.faults.retain(|fault| fault.reason != Reason::ChildNotOwned);
    }
    let hashes = Hashes::of(group);
    let written = if verdict.faults.is_empty() {
        write(scope, &observed, &hashes, leftover).await?
    } else {
        Written::default()
    };
    if written.errors.iter().any(|error| matches!(error, ApplyError::NamespaceEnds)) {
        debug!("the namespace is being deleted");
        return Ok(Outcome::Ending);
    }
    for error in &written.errors {
        if let ApplyError::NotOwned { .. } = error {
            verdict.faults.push(crate::Fault { reason: Reason::ChildNotOwned, message: error.to_string() });
        }
    }
    let next = tell(scope, &observed, &verdict, &written, &hashes.hot).await?;
    finish(scope, key, &verdict, &written, &next)
}

/// What is remembered of another group of the same name is void.
fn remember(scope: &Scope, key: &Key, group: &ConsumerGroup) {
    let uid = group.uid().unwrap_or_default();
    scope.shared.memories.with(key, |memory| {
        if memory.uid != uid {
            *memory = Memory { uid, ..Memory::default() };
        }
        memory.undecodable = None;
    });
}

/// What was done.
#[derive(Default)]
struct Written {
    plan: Option<Plan>,
    applied_hash: Option<String>,
    errors: Vec<ApplyError>,
}

/// Writes children, and annotations of pods.
async fn write(
    scope: &Scope,
    observed: &Observed,
    hashes: &Hashes,
    leftover: Option<ApplyError>,
) -> Result<Written, ReconcileError> {
    let shared = &scope.shared;
    let deployments: Vec<_> = shared.deployments.iter().flat_map(|store| store.state()).collect();
    let view = WaveView { wave: &shared.wave, deployments: &deployments };
    let plan = rollout::plan(observed, &shared.settings, &view, hashes);
    if let Some(leftover) = leftover {
        return Ok(Written { plan: Some(plan), applied_hash: None, errors: vec![leftover] });
    }
    let children = build(observed, &plan).inspect_err(|_| shared.metrics.failed(Step::Build))?;
    let errors = apply::apply(scope, &children, observed).await.err().unwrap_or_default();
    if errors.is_empty() {
        touch_pods(scope, observed, &plan, &hashes.hot).await?;
        assign_queues(scope, observed).await?;
    } else {
        shared.metrics.failed(Step::Apply);
    }
    let applied_hash = children.deployment.annotations().get(annotations::APPLIED_HASH).cloned();
    Ok(Written { plan: Some(plan), applied_hash, errors })
}

async fn touch_pods(
    scope: &Scope,
    observed: &Observed,
    plan: &Plan,
    hot: &str,
) -> Result<(), ReconcileError> {
    let shared = &scope.shared;
    let key = Key::of(observed.group.as_ref());
    let due = shared.memories.with(&key, |memory| memory.touches.due(&plan.touch, hot, Instant::now()));
    for pod in due.iter().filter(|_| shared.leads()) {
        let now_ms = Timestamp::now().as_millisecond();
        touch::touch(&shared.client, &key.namespace, pod, hot, now_ms)
            .await
            .map_err(|error| failed(scope, Step::Touch, "touch a pod", error))?;
        shared.metrics.wrote(crate::metrics::ChildKind::Pod, crate::metrics::Verb::Patch);
        debug!(pod, hot, "pod touched");
    }
    Ok(())
}

/// Writes which pod should take which queues, where the source does not share them out by itself.
async fn assign_queues(scope: &Scope, observed: &Observed) -> Result<(), ReconcileError> {
    let shared = &scope.shared;
    let Some(queues) = assignment::needs_assignment(&observed.group) else { return Ok(()) };
    let key = Key::of(observed.group.as_ref());
    let now = Instant::now();
    let members = shared.memories.with(&key, |memory| memory.members.members(observed, now));
    let before = assignment::assigned(observed.pods.iter().map(Arc::as_ref));
    let hand_over = observed.group.spec.delivery.health_check.hand_over;
    let after = assignment::assign(&queues, &members, &before, hand_over, now);
    for (pod, queues) in after.iter().filter(|(pod, queues)| before.get(*pod) != Some(*queues)) {
        let text = assignment::annotation(queues).inspect_err(|_| shared.metrics.failed(Step::Assign))?;
        if !shared.leads() {
            break;
        }
        touch::assign(&shared.client, &key.namespace, pod, &text)
            .await
            .map_err(|error| failed(scope, Step::Assign, "assign queues", error))?;
        shared.metrics.wrote(crate::metrics::ChildKind::Pod, crate::metrics::Verb::Patch);
    }
    Ok(())
}

/// Writes the status, and tells what changed in it.
async fn tell(
    scope: &Scope,
    observed: &Observed,
    verdict: &Verdict,
    written: &Written,
    hot_hash: &str,
) -> Result<ConsumerGroupStatus, ReconcileError> {
    let shared = &scope.shared;
    let group = &observed.group;
    let now = Timestamp::now();
    let key = &Key::of(group.as_ref());
    let failure = failure(&written.errors);
    let facts = StatusFacts {
        group,
        faults: &verdict.faults,
        notices: &verdict.notices,
        plan: written.plan.as_ref(),
        deployment: observed.deployment.as_deref(),
        applied_hash: written.applied_hash.as_deref(),
        pods: &observed.pods,
        reports: &observed.reports,
        hot_hash,
        failure: failure.as_ref(),
        now,
    };
    let next = status(&facts);
    shared.metrics.show_group(&key.namespace, &key.name, group.spec.replicas, &next);
    let target = Target::of(group, key);
    let changed = update(scope, target, &next, now).await;
    let about = group.object_ref(&());
    if changed.map_err(|error| failed(scope, Step::Status, "write the status", error))? {
        events::conditions(shared, &about, group.status.as_ref(), &next).await;
    }
    let told =
        shared.memories.with(key, |memory| std::mem::replace(&mut memory.notices, verdict.notices.clone()));
    events::notices(shared, &about, &told, &verdict.notices).await;
    Ok(next)
}

/// Why children could not be written, for the status.
fn failure(errors: &[ApplyError]) -> Option<ApplyFailure> {
    let told = errors.iter().filter(|error| match error {
        ApplyError::NotOwned { .. } | ApplyError::NamespaceEnds | ApplyError::NotLeading => false,
        ApplyError::Leftover { .. } | ApplyError::Refused { .. } | ApplyError::Failed { .. } => true,
    });
    let messages: Vec<String> = told.map(ToString::to_string).collect();
    let for_good = errors.iter().any(|error| matches!(error, ApplyError::Refused { .. }));
    (!messages.is_empty()).then(|| ApplyFailure { message: messages.join("; "), for_good })
}

/// When to look again.
fn finish(
    scope: &Scope,
    key: &Key,
    verdict: &Verdict,
    written: &Written,
    next: &ConsumerGroupStatus,
) -> Result<Outcome, ReconcileError> {
    let is = |kind: ConditionType, value: &str| {
        next.conditions.iter().any(|condition| condition.type_ == kind.as_str() && condition.status == value)
    };
    let stalled = !verdict.faults.is_empty();
    let settling = !stalled && (is(ConditionType::Reconciling, "True") || !is(ConditionType::Ready, "True"));
    let (ask, lively) = scope.shared.memories.with(key, |memory| {
        let began = settling && memory.settling.is_none();
        memory.settling = settling.then(|| memory.settling.unwrap_or_else(Instant::now));
        (began || !memory.polled, memory.is_lively())
    });
    // A full channel is no loss: the next turn asks again.
    if ask && scope.poll.try_send(key.group()).is_ok() {
        scope.shared.memories.with(key, |memory| memory.polled = true);
    }
    let retried = written.errors.iter().filter(|error| match error {
        ApplyError::Refused { .. } | ApplyError::Failed { .. } => true,
        ApplyError::NotOwned { .. }
        | ApplyError::Leftover { .. }
        | ApplyError::NamespaceEnds
        | ApplyError::NotLeading => false,
    });
    let retried: Vec<String> = retried.map(ToString::to_string).collect();
    if !retried.is_empty() {
        return Err(ReconcileError::Children(retried.join("; ")));
    }
    // Watches and polls wake it earlier; only a touch that has to be repeated, and garbage that goes, do not.
    let waits =
        written.plan.as_ref().is_some_and(|plan| !plan.touch.is_empty()) || !written.errors.is_empty();
    Ok(match () {
        () if stalled => Outcome::Done(ReconcileResult::Stalled, IDLE_PERIOD),
        () if waits && lively => Outcome::Done(ReconcileResult::Ok, LIVELY_PERIOD),
        () if settling => Outcome::Done(ReconcileResult::Ok, POLL_PERIOD),
        () => Outcome::Done(ReconcileResult::Ok, IDLE_PERIOD),
    })
}

fn failed(scope: &Scope, step: Step, what: &'static str, error: kube::Error) -> ReconcileError {
    scope.shared.metrics.failed(step);
    ReconcileError::Api(what, error)
}
