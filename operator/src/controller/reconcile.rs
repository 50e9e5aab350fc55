//! One reconciliation of one group.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt, runtime::controller::Action};
use lockstep_contract::ConditionType;
use lockstep_crds::{ConsumerGroup, ConsumerGroupStatus};
use thiserror::Error;
use tokio::{
    task::yield_now,
    time::{Instant, timeout},
};
use tracing::{debug, warn};

use super::{
    Entry, LIVELY_PERIOD, POLL_PERIOD, undecodable,
    write::{Written, write},
};
use crate::{
    Observed, apply, backoff,
    conditions::MESSAGE_MAX,
    context::{Key, Memory, Scope},
    dereference::observe,
    events,
    metrics::{ReconcileResult, Step},
    rollout::Hashes,
    status::{StatusFacts, status},
    update_status::{self, Target, update},
    validate::{Rule, Verdict, validate},
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
    Writes(String),
    #[error("failed to read an object again that was kept as text: {0}")]
    Kept(#[from] serde_json::Error),
    #[error("not done after {} s", LONGEST.as_secs())]
    TooLong,
}

/// How a reconciliation ended that did not fail.
enum Outcome {
    /// Look again after so long.
    Done(ReconcileResult, Duration),
    /// What failed before is tried again after so long.
    Held(Duration),
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
        Ok(Outcome::Held(again)) => Action::requeue(again),
        Ok(Outcome::Ending) => Action::requeue(IDLE_PERIOD),
        Err(_) if !shared.leads() => {
            shared.metrics.reconciled(ReconcileResult::Cut, begun.elapsed());
            Action::await_change()
        }
        Err(error) => {
            shared.metrics.reconciled(ReconcileResult::Failed, begun.elapsed());
            let (failures, delay) = shared.memories.with(&key, |memory| {
                memory.failures = memory.failures.saturating_add(1);
                let delay = backoff::delay(memory.failures, backoff::dice());
                if let Some(held) = memory.held.as_mut() {
                    held.until = Instant::now() + delay;
                }
                (memory.failures, delay)
            });
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
    let mut observed = observe(scope, &update_status::newest(scope, key, group))?;
    if observed.deployment.is_none() {
        let found = apply::find_deployment(scope, &observed).await;
        observed.deployment = found
            .map_err(|error| failed(scope, Step::Dereference, "ask for the Deployment", error))?
            .map(Arc::new);
    }
    let leftover = apply::leftover(&observed);
    let mut verdict = validate(&observed);
    if leftover.is_some() {
        verdict.faults.retain(|fault| fault.rule != Rule::ChildOwned);
    }
    let hashes = Hashes::of(group);
    let written = write(scope, &observed, &hashes, !verdict.faults.is_empty(), leftover).await;
    if written.troubles.group_ends {
        debug!("the group or its namespace is being deleted");
        return Ok(Outcome::Ending);
    }
    if !verdict.faults.iter().any(|fault| fault.rule == Rule::ChildOwned) {
        verdict.faults.extend(written.troubles.faults.iter().cloned());
    }
    let next = tell(scope, &observed, &verdict, &written, &hashes.hot).await?;
    finish(scope, key, &verdict, &written, &next, (group.metadata.generation, hashes.hot))
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
        failure: written.troubles.failure.as_ref(),
        now,
    };
    let mut next = status(&facts);
    if let Some(trouble) = &written.troubles.touch {
        mention(&mut next, trouble);
    }
    shared.metrics.show_group(&key.namespace, &key.name, group.spec.replicas, &next);
    let target = Target::of(group, key);
    let changed = update(scope, target, &next).await;
    let about = group.object_ref(&());
    if changed.map_err(|error| failed(scope, Step::Status, "write the status", error))? {
        events::conditions(shared, &about, group.status.as_ref(), &next).await;
    }
    let told =
        shared.memories.with(key, |memory| std::mem::replace(&mut memory.notices, verdict.notices.clone()));
    events::notices(shared, &about, &told, &verdict.notices).await;
    Ok(next)
}

/// Adds to what the group says of its way there that a pod can't be told; it gets there by itself, only later.
fn mention(next: &mut ConsumerGroupStatus, trouble: &str) {
    let reconciling = |condition: &&mut Condition| {
        condition.type_ == ConditionType::Reconciling.as_str() && condition.status == "True"
    };
    if let Some(condition) = next.conditions.iter_mut().find(reconciling) {
        let room = MESSAGE_MAX.saturating_sub(condition.message.len());
        let trouble = format!("; {trouble}; it is tried again");
        condition.message.push_str(trouble.get(..trouble.floor_char_boundary(room)).unwrap_or_default());
    }
}

/// When to look again.
fn finish(
    scope: &Scope,
    key: &Key,
    verdict: &Verdict,
    written: &Written,
    next: &ConsumerGroupStatus,
    wanted: (Option<i64>, String),
) -> Result<Outcome, ReconcileError> {
    let is = |kind: ConditionType, value: &str| {
        next.conditions.iter().any(|condition| condition.type_ == kind.as_str() && condition.status == value)
    };
    let stalled = !verdict.faults.is_empty();
    // Watches and polls wake it earlier; only a touch that has to be repeated, and garbage that goes, do not.
    let waits = written.touching || written.troubles.unfinished;
    let unlike = is(ConditionType::Reconciling, "True") || !is(ConditionType::Ready, "True");
    let settling = waits || !stalled && unlike;
    let (ask, lively) = scope.shared.memories.with(key, |memory| {
        // Something else is on its way than before: it is waited for anew.
        let began = settling && (memory.settling.is_none() || memory.wanted != wanted);
        if began || !settling {
            memory.settling = settling.then(Instant::now);
        }
        memory.wanted = wanted;
        (began || !memory.polled, memory.is_lively())
    });
    // A full channel is no loss: the next turn asks again.
    if ask && scope.poll.try_send(key.group()).is_ok() {
        scope.shared.memories.with(key, |memory| memory.polled = true);
    }
    if let Some(again) = written.held_for {
        return Ok(Outcome::Held(again));
    }
    if !written.troubles.again.is_empty() {
        return Err(ReconcileError::Writes(written.troubles.again.join("; ")));
    }
    let result = if stalled { ReconcileResult::Stalled } else { ReconcileResult::Ok };
    Ok(match () {
        () if waits && lively => Outcome::Done(result, LIVELY_PERIOD),
        () if settling && !stalled => Outcome::Done(result, POLL_PERIOD),
        () => Outcome::Done(result, IDLE_PERIOD),
    })
}

fn failed(scope: &Scope, step: Step, what: &'static str, error: kube::Error) -> ReconcileError {
    scope.shared.metrics.failed(step);
    ReconcileError::Api(what, error)
}
