//! The resource, as far as the sidecar needs it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Delivery, Retry, Source, defaults, units::optional_seconds};

/// The `apiVersion` of a manifest.
pub const API_VERSION: &str = "lockstep.dev/v1alpha1";
/// The `kind` of a manifest.
pub const KIND: &str = "ConsumerGroup";

/// A manifest: messages of a source, delivered in order to an HTTP application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerGroup {
    /// `lockstep.dev/v1alpha1`
    pub api_version: String,
    /// `ConsumerGroup`
    pub kind: String,
    /// Name and namespace.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: ConsumerGroupSpec,
}

/// The parts of Kubernetes' object metadata that the sidecar needs; others are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The group's name, at most 52 characters, so that the names of its children fit.
    pub name: String,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its unique id, given by Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// When it was created, in RFC 3339, given by Kubernetes. `startPosition: Latest` means this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
}

/// What is wanted of the sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerGroupSpec {
    /// `Running`, or `Paused`: pods stay, but they leave the broker's group and pull nothing.
    #[serde(default)]
    pub state: RunState,
    /// Where messages come from.
    pub source: Source,
    /// How much order is kept.
    #[serde(default)]
    pub ordering: Ordering,
    /// How messages reach the application.
    #[serde(default)]
    pub delivery: Delivery,
    /// What happens when the application does not answer 2xx.
    #[serde(default)]
    pub retry: Retry,
    /// Where messages go that are given up.
    #[serde(default)]
    pub dead_letter: DeadLetter,
    /// How a pod ends.
    #[serde(default)]
    pub drain: Drain,
    /// The sidecar itself.
    #[serde(default)]
    pub sidecar: Sidecar,
}

/// Whether the group consumes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunState {
    /// It does.
    #[default]
    Running,
    /// Pods stay, but they leave the broker's group and pull nothing.
    Paused,
}

/// How much order is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ordering {
    /// `PerQueue`: one message of a queue at a time. `PerKey`: one message of a key at a time, keys in parallel.
    /// `Unordered`: as many as `maxInFlight` allows.
    #[serde(default)]
    pub mode: OrderingMode,
    /// Where a message's key comes from.
    #[serde(default)]
    pub key: OrderingKey,
}

/// How much order is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OrderingMode {
    /// None.
    Unordered,
    /// Messages of one key in order, keys in parallel; messages without a key share one line per queue.
    PerKey,
    /// Messages of one queue in order.
    #[default]
    PerQueue,
}

/// Where a message's key comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderingKey {
    /// `Native`: the broker's own (RocketMQ message group or sharding key, RabbitMQ routing key, ActiveMQ
    /// JMSXGroupID). `Header`: the message property named by `header`.
    #[serde(default)]
    pub from: KeyFrom,
    /// The name of the message property, for `Header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub header: Option<String>,
}

/// Where a message's key comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KeyFrom {
    /// The broker's own notion of a key.
    #[default]
    Native,
    /// A message property.
    Header,
}

/// Where messages go that are given up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// `Broker`: the broker's own dead-letter queue (RabbitMQ: only where a dead-letter exchange is declared).
    /// `Queue`: the queue named by `name` (RabbitMQ only).
    #[serde(default)]
    pub policy: DeadLetterPolicy,
    /// The queue, for `Queue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub name: Option<String>,
}

/// Where messages go that are given up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeadLetterPolicy {
    /// The broker's own dead-letter queue.
    #[default]
    Broker,
    /// A queue named here.
    Queue,
}

/// How a pod ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// How long a pod may take to finish what runs and to give its queues back, in seconds. At least
    /// `delivery.timeoutSeconds`; default: 5 more than that.
    #[serde(
        rename = "timeoutSeconds",
        default,
        with = "optional_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<u32>", range(min = 1, max = 7200))]
    pub timeout: Option<Duration>,
}

/// The sidecar itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sidecar {
    /// How much it logs. Never a message's content.
    #[serde(default)]
    pub log_level: LogLevel,
    /// The port of its probes, metrics and status. Change it when the application uses the same.
    #[serde(default = "admin_port")]
    #[schemars(range(min = 1024, max = 65535))]
    pub admin_port: u16,
}

impl Default for Sidecar {
    fn default() -> Self {
        Self { log_level: LogLevel::default(), admin_port: admin_port() }
    }
}

/// How much the sidecar logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What needs a person.
    Error,
    /// And surprises that it got over.
    Warn,
    /// And changes of state.
    #[default]
    Info,
    /// And every message, without its content.
    Debug,
    /// And every step.
    Trace,
}

fn admin_port() -> u16 {
    defaults::ADMIN_PORT
}
