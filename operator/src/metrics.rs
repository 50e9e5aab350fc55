//! What the operator counts. Every metric is described in `docs/metrics.md`; a test holds both together. Label values
//! come from fixed sets and from the names of groups that exist, so their number is bounded.

mod groups;
#[cfg(test)]
mod tests;

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use lockstep_crds::ConsumerGroupStatus;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Registry, Unit},
};

use groups::Groups;

/// Reconciliations by result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabel {
    /// How it ended.
    pub result: ReconcileResult,
}

/// How a reconciliation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum ReconcileResult {
    /// The group is as its spec says, or on its way there.
    Ok,
    /// The group is stalled: only a change of the spec helps.
    Stalled,
    /// Something failed; it is tried again.
    Failed,
    /// It was cut off because this replica leads no more.
    Cut,
}

/// Failures by the step of the reconciliation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StepLabel {
    /// The step.
    pub step: Step,
}

/// A step of the reconciliation that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Step {
    /// Reading what the cluster holds.
    Dereference,
    /// Making the children.
    Build,
    /// Writing the children.
    Apply,
    /// Touching pods whose hot configuration is old.
    Touch,
    /// Writing which pod takes which queues.
    Assign,
    /// Writing the status.
    Status,
    /// Writing an event.
    Event,
    /// An object that can't be decoded.
    Decode,
}

/// Writes of children by kind and verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WriteLabel {
    /// The object's kind.
    pub kind: ChildKind,
    /// What was done.
    pub verb: Verb,
}

/// Kinds of objects that the operator writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(missing_docs, reason = "Kubernetes' words")]
pub enum ChildKind {
    Deployment,
    ConfigMap,
    PodDisruptionBudget,
    Pod,
}

/// What was done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Verb {
    /// Server-side apply.
    Apply,
    /// A patch of annotations, or of the number of pods.
    Patch,
    /// A deletion.
    Delete,
}

/// Restarted watches by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WatchLabel {
    /// What is watched.
    pub kind: WatchKind,
}

/// Kinds of objects that the operator watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(missing_docs, reason = "Kubernetes' words")]
pub enum WatchKind {
    ConsumerGroup,
    Deployment,
    ReplicaSet,
    Pod,
    ConfigMap,
    PodDisruptionBudget,
}

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    /// Encoding needs no exclusive access, but collectors are asked one at a time.
    registry: Mutex<Registry>,
    groups: Groups,
    /// Reconciliations by result.
    pub reconciles: Family<ResultLabel, Counter>,
    /// How long reconciliations took.
    pub reconcile_duration: Histogram,
    /// Failures by step.
    pub errors: Family<StepLabel, Counter>,
    /// Writes of a group's status.
    pub status_writes: Counter,
    /// Writes of children and pods.
    pub child_writes: Family<WriteLabel, Counter>,
    /// Events told.
    pub events: Counter,
    /// Pods that could not be asked for their status.
    pub poll_failures: Counter,
    /// Watches that broke and were begun again.
    pub watch_restarts: Family<WatchLabel, Counter>,
    /// Whether this replica leads.
    pub leader: Gauge,
    /// Whether the installed definition lacks what this operator knows.
    pub crd_outdated: Gauge,
}

impl Metrics {
    /// All metrics at zero, registered.
    pub fn new(version: &'static str) -> Self {
        let mut registry = Registry::with_prefix("lockstep");
        let groups = Groups::default();
        registry.register_collector(Box::new(groups.clone()));
        let r = registry.sub_registry_with_prefix("operator");
        r.register("build", "Version of the operator", Info::new(vec![("version", version)]));
        Self {
            reconciles: add(r, "reconciles", "Reconciliations of groups, by result"),
            reconcile_duration: reconcile_duration(r),
            errors: add(r, "errors", "Failures of reconciliations, by step"),
            status_writes: add(r, "status_writes", "Writes of a group's status"),
            child_writes: add(r, "child_writes", "Writes of children and pods, by kind and verb"),
            events: add(r, "events", "Events told"),
            poll_failures: add(r, "poll_failures", "Pods that could not be asked for their status"),
            watch_restarts: add(r, "watch_restarts", "Watches that broke and were begun again, by kind"),
            leader: add(r, "leader", "1 while this replica leads"),
            crd_outdated: add(
                r,
                "crd_outdated",
                "1 while the installed definition lacks what this operator knows",
            ),
            groups,
            registry: Mutex::new(registry),
        }
    }

    /// Counts one reconciliation.
    pub fn reconciled(&self, result: ReconcileResult, took: Duration) {
        self.reconciles.get_or_create(&ResultLabel { result }).inc();
        self.reconcile_duration.observe(took.as_secs_f64());
    }

    /// Counts a failure.
    pub fn failed(&self, step: Step) {
        self.errors.get_or_create(&StepLabel { step }).inc();
    }

    /// Counts the write of a child or a pod.
    pub fn wrote(&self, kind: ChildKind, verb: Verb) {
        self.child_writes.get_or_create(&WriteLabel { kind, verb }).inc();
    }

    /// Counts a watch that had to be begun again.
    pub fn watch_restarted(&self, kind: WatchKind) {
        self.watch_restarts.get_or_create(&WatchLabel { kind }).inc();
    }

    /// Shows a group as its status says. `wanted` = `spec.replicas`.
    pub fn show_group(&self, namespace: &str, name: &str, wanted: i32, status: &ConsumerGroupStatus) {
        self.groups.show(namespace, name, wanted, status);
    }

    /// Shows a group no more: it was deleted.
    pub fn forget_group(&self, namespace: &str, name: &str) {
        self.groups.forget(namespace, name);
    }

    /// Shows no group any more: this replica does not lead.
    pub fn forget_groups(&self) {
        self.groups.clear();
    }

    /// The OpenMetrics text.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        match text::encode(&mut text, &registry) {
            Ok(()) => text,
            // Writing to a string does not fail; an empty answer would be noticed as a missing target.
            Err(_) => String::new(),
        }
    }
}

/// From 1 ms, nothing to do, to 16 s, an API that answers slowly.
fn reconcile_duration(registry: &mut Registry) -> Histogram {
    let histogram = Histogram::new(exponential_buckets(0.001, 2.0, 15));
    let help = "Duration of reconciliations";
    registry.register_with_unit("reconcile_duration", help, Unit::Seconds, histogram.clone());
    histogram
}

fn add<M>(registry: &mut Registry, name: &str, help: &str) -> M
where
    M: prometheus_client::registry::Metric + Clone + Default,
{
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}
