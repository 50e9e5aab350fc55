//! What a person writes.

use k8s_openapi::api::core::v1::{PodTemplateSpec, ResourceRequirements};
use kube::CustomResource;
use lockstep_contract::{
    self as contract, DeadLetter, Delivery, Drain, LogLevel, Ordering, Retry, RunState, Source, defaults,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ConsumerGroupStatus, template::with_amounts};

/// What is wanted.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "lockstep.dev",
    version = "v1alpha1",
    kind = "ConsumerGroup",
    namespaced,
    status = "ConsumerGroupStatus",
    doc = "Messages of a broker's queues, delivered in order to an HTTP application. Lockstep runs the application's pods with a sidecar that posts each message to it and gives it back to the broker only after a 2xx.",
    shortname = "cgrp",
    category = "lockstep",
    scale = r#"{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "description": "Whether the group does what its spec says"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason", "description": "Why it is ready or not"}"#,
    printcolumn = r#"{"name": "Ready pods", "type": "integer", "jsonPath": ".status.readyReplicas", "description": "Pods that are ready"}"#,
    printcolumn = r#"{"name": "Backlog", "type": "integer", "jsonPath": ".status.backlog.messages", "description": "Messages that wait, rounded"}"#,
    printcolumn = r#"{"name": "Oldest", "type": "integer", "jsonPath": ".status.backlog.oldestAgeSeconds", "description": "Age of the oldest in seconds, rounded"}"#,
    printcolumn = r#"{"name": "Source", "type": "string", "jsonPath": ".status.source", "priority": 1, "description": "The kind of source and what it reads"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Since when the group exists"}"#,
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerGroupSpec {
    /// How many pods. `kubectl scale` and autoscalers set it. Pods above the number of queues have nothing to do.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
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
    /// `Managed`: a PodDisruptionBudget of one unavailable pod, unless one of your own selects the pods. `None`: none.
    #[serde(default)]
    pub pod_disruption_budget: DisruptionBudget,
    /// The sidecar itself.
    #[serde(default)]
    pub sidecar: SidecarSpec,
    /// The application's pods, as in a Deployment (`kubectl explain pod.spec`). The sidecar is added to them; everything
    /// else stays as it is. Not taken: `hostNetwork`, `activeDeadlineSeconds`, a `restartPolicy` other than `Always`,
    /// and containers and volumes with the sidecar's names.
    #[serde(deserialize_with = "with_amounts")]
    pub template: PodTemplateSpec,
}

/// Whether Lockstep keeps a PodDisruptionBudget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DisruptionBudget {
    /// It does, unless one of the user's own selects the pods.
    #[default]
    Managed,
    /// It does not.
    None,
}

/// The sidecar itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSpec {
    /// How much it logs. Never a message's content.
    #[serde(default)]
    pub log_level: LogLevel,
    /// The port of its probes, metrics and status. Change it when the application uses the same.
    #[serde(default = "admin_port")]
    #[schemars(range(min = 1024, max = 65535))]
    pub admin_port: u16,
    /// Its image. Default: the one that the operator was installed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Its resources. Default: a request of 20m CPU and 32Mi memory, and no limit.
    #[serde(default, deserialize_with = "with_amounts", skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
}

impl Default for SidecarSpec {
    fn default() -> Self {
        Self { log_level: LogLevel::default(), admin_port: admin_port(), image: None, resources: None }
    }
}

impl ConsumerGroup {
    /// The sidecar's part of it, defaults resolved where they depend on other fields.
    pub fn contract(&self) -> contract::ConsumerGroup {
        let spec = self.spec.clone();
        let metadata = &self.metadata;
        contract::ConsumerGroup {
            api_version: contract::API_VERSION.to_owned(),
            kind: contract::KIND.to_owned(),
            metadata: contract::Metadata {
                name: metadata.name.clone().unwrap_or_default(),
                namespace: metadata.namespace.clone(),
                uid: metadata.uid.clone(),
                creation_timestamp: metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()),
            },
            spec: contract::ConsumerGroupSpec {
                state: spec.state,
                source: spec.source,
                ordering: spec.ordering,
                delivery: spec.delivery,
                retry: spec.retry,
                dead_letter: spec.dead_letter,
                drain: spec.drain,
                sidecar: contract::Sidecar {
                    log_level: spec.sidecar.log_level,
                    admin_port: spec.sidecar.admin_port,
                },
            },
        }
    }
}

fn one() -> i32 {
    1
}

fn admin_port() -> u16 {
    defaults::ADMIN_PORT
}
