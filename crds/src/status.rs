//! What the operator says of a group.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator says of a group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerGroupStatus {
    /// The `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pods that exist and are not ending.
    #[serde(default)]
    pub replicas: i32,
    /// Pods that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Pods of the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// The pods' label selector, as text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The sidecar's image in the current template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecar_image: Option<String>,
    /// The hash of the hot configuration that every pod has applied; while a change is on its way, of the former one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// The kind of source and what it reads, for example `rocketmq/shop-orders`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The source's queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Queues>,
    /// Messages that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// Ready, Reconciling, Stalled, SourceConnected, ApplicationHealthy, QueuesOwned, Blocked, Paused.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The source's queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Queues {
    /// Those that the pods know of.
    pub total: u32,
    /// Those that a pod owns.
    pub owned: u32,
    /// Owned ones with a message that holds up what is behind it.
    pub blocked: u32,
}

/// Messages that wait. Written when conditions change, else at most once a minute, and rounded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backlog {
    /// How many, rounded to two digits.
    pub messages: i64,
    /// The age of the oldest in seconds, rounded to two digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_age_seconds: Option<i64>,
    /// When that was.
    pub observed_time: Time,
}
