//! The document that a sidecar shows at `/status` and that an operator reads. It holds ids, numbers and the sidecar's
//! own words, never a part of a message or of an application's answer.
//!
//! Reader and writer may differ by one version: unknown fields are passed over, absent ones take their default, and
//! unknown words read as `Unknown`.

use serde::{Deserialize, Serialize};

use crate::{ConditionStatus, ConditionType, Reason};

/// The version of the document. It rises only when a reader of the former one would be misled.
pub const STATUS_FORMAT: u32 = 1;
/// Queues listed at most; [`Totals`] count the others too.
pub const STATUS_QUEUES_MAX: usize = 1024;
/// Blocked messages listed at most for one queue; [`QueueStatus::blocked_lanes`] counts the others too.
pub const STATUS_BLOCKED_MAX: usize = 16;
/// Gaps kept at most, the youngest ones.
pub const STATUS_GAPS_MAX: usize = 64;

/// What a sidecar says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// [`STATUS_FORMAT`].
    pub format: u32,
    /// The sidecar's version.
    pub version: String,
    /// The group's name.
    pub group: String,
    /// The client id at the broker: in a cluster the pod's UID.
    pub client_id: String,
    /// When the process started, in Unix milliseconds.
    pub started_ms: i64,
    /// The configuration in force.
    pub config: ConfigStatus,
    /// What it does.
    pub phase: Phase,
    /// Whether the pod is ready: the application was healthy and the source connected once, and the application has
    /// not answered before its first success that the endpoint is wrong.
    pub ready: bool,
    /// The application.
    pub application: ApplicationStatus,
    /// The source.
    pub source: SourceStatus,
    /// What holds for all queues together.
    pub totals: Totals,
    /// The owned queues by name, at most [`STATUS_QUEUES_MAX`].
    pub queues: Vec<QueueStatus>,
    /// Attempts now and at most.
    pub limit: LimitStatus,
    /// Whether the application is taken for misconfigured: only one probe is sent at growing intervals.
    pub breaker: Guard,
    /// Whether a dead-letter storm is assumed: the next message is held instead of given up.
    pub storm: Guard,
    /// What happened since the process started.
    pub counters: Counters,
    /// Where the broker removed messages before they were delivered, the youngest [`STATUS_GAPS_MAX`].
    pub gaps: Vec<Gap>,
    /// The conditions as far as this pod knows them.
    pub conditions: Vec<PodCondition>,
}

/// The configuration in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigStatus {
    /// [`crate::config_hash`] of the cold file that the process started with.
    pub cold_hash: String,
    /// [`crate::config_hash`] of the hot file that is applied.
    pub hot_hash: String,
    /// What is wrong with a newer hot file; the applied one stays in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Fields that were passed over, at most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What a sidecar does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It waits for the first healthy answer of the application or for the source.
    Starting,
    /// It delivers.
    Running,
    /// It left the broker's group since the spec says so.
    Paused,
    /// It left the broker's group since the application is unhealthy for too long.
    HandedOver,
    /// The application's shutdown hook holds dispatch.
    Held,
    /// It finishes and gives its queues back.
    Draining,
    /// A word of another version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The application, as the sidecar sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationStatus {
    /// What the health check says.
    pub health: Health,
    /// Why, as in the condition `ApplicationHealthy`.
    pub reason: Reason,
    /// In a sentence.
    pub message: String,
    /// Since when, in Unix milliseconds.
    pub since_ms: i64,
}

/// What the health check says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Health {
    /// It answers.
    Healthy,
    /// It does not.
    Unhealthy,
    /// It was not asked yet, or a word of another version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The source, as the sidecar sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceStatus {
    /// Whether a session stands.
    pub connected: bool,
    /// Why not: a CamelCase word of the adapter, for example `TopicNotFound`. It becomes the condition's reason.
    pub reason: String,
    /// What is wrong, in a sentence.
    pub message: String,
    /// What to do about it: a command or a setting.
    pub remedy: String,
    /// Since when, in Unix milliseconds.
    pub since_ms: i64,
}

/// What holds for all queues of the pod together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Totals {
    /// Queues of what is subscribed to that this pod knows of, its own and others'; `None` = not known. Not counted,
    /// here and in `owned`, are those that a broker adds by itself, such as a retry topic's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<u32>,
    /// Queues of what is subscribed to that this pod owns.
    pub owned: u32,
    /// Owned queues with a blocked lane.
    pub blocked: u32,
    /// Messages behind the cursors; `None` = not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
    /// Age of the oldest of them in seconds; `None` = not known, or there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_age_seconds: Option<u64>,
}

/// One owned queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueStatus {
    /// Its name, as the commands `skip` and `dead-letter` take it.
    pub name: String,
    /// Whether the broker added it by itself, as it does a retry topic's: [`Totals`] do not count it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub extra: bool,
    /// The ownership.
    pub epoch: u64,
    /// How sure the ownership is.
    pub state: QueueState,
    /// Everything before it has a final verdict.
    pub cursor: u64,
    /// The position that the broker confirmed.
    pub committed: u64,
    /// Messages behind the cursor; `None` = not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<u64>,
    /// Age of the oldest message without a final verdict, in seconds; `None` = not known, or there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_age_seconds: Option<u64>,
    /// Messages received and not attempted yet.
    pub buffered: u32,
    /// Attempts running.
    pub in_flight: u32,
    /// Lanes whose first message is blocked.
    pub blocked_lanes: u32,
    /// These messages, at most [`STATUS_BLOCKED_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<BlockedMessage>,
}

/// How sure the ownership of a queue is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueState {
    /// It is ours.
    Owned,
    /// The connection behind it is lost: nothing new starts.
    Doubtful,
    /// It goes to another pod.
    Releasing,
    /// Messages were lost and `retry.onDataLoss` is `Stop`.
    Stopped,
    /// A word of another version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A message that holds its lane up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockedMessage {
    /// Its id, as the commands `skip` and `dead-letter` take it.
    pub message_id: String,
    /// Its place in the queue.
    pub position: u64,
    /// Attempts spent.
    pub attempts: u32,
    /// For how long it is the first of its lane, in seconds.
    pub age_seconds: u64,
    /// Why it waits.
    pub hold: Reason,
    /// What the last attempt met, in the sidecar's words.
    pub last_error: String,
}

/// Attempts now and at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitStatus {
    /// Attempts running.
    pub in_flight: u32,
    /// Attempts allowed now.
    pub current: u32,
    /// `delivery.maxInFlight`.
    pub max: u32,
    /// For how many seconds more nothing is sent, since the application asked for it by `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_seconds: Option<u64>,
}

/// A guard that holds back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Guard {
    /// Whether it does.
    pub open: bool,
    /// Since when, in Unix milliseconds; 0 = never since the start.
    pub since_ms: i64,
}

/// What happened since the process started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counters {
    /// Messages answered 2xx.
    pub done: u64,
    /// Messages in the dead-letter queue.
    pub dead_lettered: u64,
    /// Messages dropped.
    pub skipped: u64,
    /// Attempts that ended without 2xx.
    pub failed_attempts: u64,
    /// Messages removed by the broker before they were delivered.
    pub lost: u64,
}

/// Where the broker removed messages before they were delivered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Gap {
    /// The queue.
    pub queue: String,
    /// The first position that is gone.
    pub from: u64,
    /// The first position that is there again.
    pub to: u64,
    /// When it was seen, in Unix milliseconds.
    pub seen_ms: i64,
}

/// A condition as far as one pod knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Which.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why.
    pub reason: Reason,
    /// In a sentence.
    pub message: String,
}
