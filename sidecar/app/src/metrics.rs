//! What the sidecar counts. Every metric is described in `docs/metrics.md`; a test holds both together. Label values
//! come from the configuration, from the broker's queue names and from fixed sets only, so their number is bounded.

use std::sync::atomic::AtomicU64;

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

#[cfg(test)]
mod tests;

/// Queues by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QueueLabel {
    /// The queue's name.
    pub queue: String,
}

/// Attempts by what came of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct VerdictLabel {
    /// The verdict.
    pub verdict: Verdict,
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(missing_docs, reason = "the words of design and documentation")]
pub enum Verdict {
    Done,
    Again,
    Snoozed,
    Never,
    Misconfigured,
    Unreachable,
    Cancelled,
    Late,
}

/// Operations on the broker by result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabel {
    /// How it ended.
    pub result: OperationResult,
}

/// How an operation on the broker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(missing_docs, reason = "the words of design and documentation")]
pub enum OperationResult {
    Ok,
    NotDone,
    Unknown,
    Permanent,
}

/// Inputs that came too late, by kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WhatLabel {
    /// A word out of the engine's fixed set.
    pub what: &'static str,
}

/// Number of a metric that may be a fraction.
pub type Seconds = Gauge<f64, AtomicU64>;

/// All metrics of the process. Cheap to clone handles are taken from the families once per queue.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Messages received from the broker, by queue.
    pub received: Family<QueueLabel, Counter>,
    /// Attempts by verdict.
    pub attempts: Family<VerdictLabel, Counter>,
    /// How long attempts took.
    pub attempt_duration: Histogram,
    /// Attempts running now.
    pub in_flight: Gauge,
    /// Concurrent attempts allowed now.
    pub limit: Gauge,
    /// Deliveries received and not yet attempted.
    pub buffered: Gauge,
    /// Their bytes.
    pub buffered_bytes: Gauge,
    /// How far finished deliveries run ahead of the cursor, by queue.
    pub span: Family<QueueLabel, Gauge>,
    /// Messages of a queue that are not committed.
    pub lag: Family<QueueLabel, Gauge>,
    /// Age of a queue's oldest message that is not committed.
    pub oldest_age: Family<QueueLabel, Seconds>,
    /// Whether the queue's lease is held: 1 held, 0.5 doubtful.
    pub lease_held: Family<QueueLabel, Seconds>,
    /// Renewals of leases.
    pub lease_renewals: Counter,
    /// Leases that ended without our release.
    pub leases_lost: Counter,
    /// Commits by result.
    pub commits: Family<ResultLabel, Counter>,
    /// Dead letters, confirmed by the broker, by queue.
    pub dead_letters: Family<QueueLabel, Counter>,
    /// Settlements that failed, by result.
    pub settlements: Family<ResultLabel, Counter>,
    /// Messages skipped, by queue.
    pub skipped: Family<QueueLabel, Counter>,
    /// Lanes whose head is blocked, by queue.
    pub blocked: Family<QueueLabel, Gauge>,
    /// Whether the misconfiguration breaker is open.
    pub breaker_open: Gauge,
    /// Whether a dead-letter storm is assumed.
    pub storm_open: Gauge,
    /// Deliveries not attempted again because their 2xx was known, by queue.
    pub suppressed: Family<QueueLabel, Counter>,
    /// Attempts, fetches and answers of the broker that ended after their time.
    pub late: Family<WhatLabel, Counter>,
    /// Deliveries given up unfinished because their lease ended.
    pub abandoned: Counter,
    /// Unread messages that retention removed, by queue.
    pub lost_to_retention: Family<QueueLabel, Counter>,
    /// Reconnects to the source.
    pub reconnects: Counter,
    /// Whether the source is connected.
    pub source_connected: Gauge,
    /// Whether the application is healthy.
    pub application_healthy: Gauge,
    /// Failed fetches.
    pub fetch_failures: Counter,
    /// Seconds spent with dispatch held or draining is visible as 1.
    pub draining: Gauge,
}

impl Metrics {
    /// All metrics at zero, registered.
    pub fn new(version: &'static str) -> Self {
        let mut registry = Registry::with_prefix("lockstep");
        registry.register("build", "Version of the sidecar", Info::new(vec![("version", version)]));
        let r = &mut registry;
        Self {
            received: add(r, "received_messages", "Messages received from the broker"),
            attempts: add(r, "attempts", "Attempts to deliver, by verdict"),
            attempt_duration: attempt_duration(r),
            in_flight: add(r, "attempts_in_flight", "Attempts running now"),
            limit: add(r, "attempts_limit", "Concurrent attempts allowed now"),
            buffered: add(r, "buffered_messages", "Messages received and not yet attempted"),
            buffered_bytes: with_unit(r, "buffered", "Bytes received and not yet attempted", Unit::Bytes),
            span: add(r, "span_messages", "How far finished messages run ahead of the cursor"),
            lag: add(r, "lag_messages", "Messages of an owned queue that are not committed"),
            oldest_age: with_unit(r, "oldest_age", "Age of the oldest uncommitted message", Unit::Seconds),
            lease_held: add(r, "lease_held", "1 = held, 0.5 = doubtful, 0 = not owned"),
            lease_renewals: add(r, "lease_renewals", "Renewed leases"),
            leases_lost: add(r, "leases_lost", "Leases that ended without a release"),
            commits: add(r, "commits", "Commits, by result"),
            dead_letters: add(r, "dead_letters", "Messages moved to the dead-letter queue"),
            settlements: add(r, "settlements", "Settlements of single messages, by result"),
            skipped: add(r, "skipped_messages", "Messages skipped"),
            blocked: add(r, "blocked_lanes", "Lanes whose head is blocked"),
            breaker_open: add(r, "breaker_open", "1 while the misconfiguration breaker is open"),
            storm_open: add(r, "dead_letter_storm", "1 while a dead-letter storm is assumed"),
            suppressed: add(r, "suppressed_duplicates", "Redelivered messages whose success was known"),
            late: add(r, "late_completions", "Completions that came after their time, by kind"),
            abandoned: add(r, "abandoned_messages", "Messages given up unfinished with their lease"),
            lost_to_retention: add(r, "lost_messages", "Unread messages removed by the broker's retention"),
            reconnects: add(r, "source_reconnects", "Reconnects to the source"),
            source_connected: add(r, "source_connected", "1 while the source is connected"),
            application_healthy: add(r, "application_healthy", "1 while the application is healthy"),
            fetch_failures: add(r, "fetch_failures", "Failed fetches"),
            draining: add(r, "draining", "1 while dispatch is held or a drain runs"),
            registry,
        }
    }

    /// The OpenMetrics text.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        match text::encode(&mut text, &self.registry) {
            Ok(()) => text,
            // Writing to a string does not fail; an empty answer would be noticed as a missing target.
            Err(_) => String::new(),
        }
    }
}

/// From 250 us, a quick application on the same node, to 65 s, beyond the default timeout.
fn attempt_duration(registry: &mut Registry) -> Histogram {
    let histogram = Histogram::new(exponential_buckets(0.000_25, 2.0, 19));
    registry.register_with_unit("attempt_duration", "Duration of attempts", Unit::Seconds, histogram.clone());
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

fn with_unit<M>(registry: &mut Registry, name: &str, help: &str, unit: Unit) -> M
where
    M: prometheus_client::registry::Metric + Clone + Default,
{
    let metric = M::default();
    registry.register_with_unit(name, help, unit, metric.clone());
    metric
}
