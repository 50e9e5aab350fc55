//! Which fields apply while a pod lives (hot), and which need a new pod (cold).
//!
//! The operator writes the two parts as two files; the sidecar reads both with [`crate::parse_mounted`] and says in
//! [`crate::ConfigStatus`] which it has applied, as [`config_hash`] of each file's text. The hash is over the text and
//! not over the parsed value, so that a sidecar of another version, which may know other fields, reports the same.

use serde_json::{Map, Value};

use crate::ConsumerGroup;

/// Whether a change applies while a pod lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heat {
    /// It does.
    Hot,
    /// It needs a new pod.
    Cold,
}

/// One field, or a part of the manifest with all its fields.
#[derive(Debug, Clone, Copy)]
pub struct FieldHeat {
    /// Its path; a list or a free mapping counts as one field.
    pub path: &'static str,
    /// Whether a change applies while a pod lives.
    pub heat: Heat,
    /// What a change does, or why it needs a new pod.
    pub why: &'static str,
}

const fn hot(path: &'static str, why: &'static str) -> FieldHeat {
    FieldHeat { path, heat: Heat::Hot, why }
}

const fn cold(path: &'static str, why: &'static str) -> FieldHeat {
    FieldHeat { path, heat: Heat::Cold, why }
}

/// Every field of the manifest.
pub const FIELDS: &[FieldHeat] = &[
    cold("apiVersion", "names the format"),
    cold("kind", "names the format"),
    cold("metadata.name", "another group"),
    cold("metadata.namespace", "another group"),
    cold("metadata.uid", "another group"),
    cold("metadata.creationTimestamp", "another group"),
    hot("spec.state", "joins or leaves the broker's group; attempts in flight end first"),
    cold("spec.source.rocketmq.nameServers", "a new session with the source"),
    cold("spec.source.rocketmq.consumerGroup", "can't be changed: positions belong to it"),
    cold("spec.source.rocketmq.subscriptions", "all members must agree on it"),
    cold("spec.source.rocketmq.startPosition.type", "all members must agree on it"),
    cold("spec.source.rocketmq.startPosition.time", "all members must agree on it"),
    cold("spec.source.rocketmq.lockLifetimeSeconds", "running leases rest on it"),
    cold("spec.source.rocketmq.addressOverrides", "a new session with the source"),
    cold("spec.source.rabbitmq.urls", "a new session with the source"),
    cold("spec.source.rabbitmq.vhost", "a new session with the source"),
    cold("spec.source.rabbitmq.queues", "all members must agree on it"),
    cold("spec.source.rabbitmq.management.url", "a new session with the source"),
    cold("spec.source.rabbitmq.heartbeatSeconds", "running leases rest on it"),
    cold("spec.source.rabbitmq.acknowledgementTimeoutSeconds", "what is prefetched rests on it"),
    cold("spec.source.rabbitmq.ownership", "a new session with the source"),
    cold("spec.source.activemq.urls", "a new session with the source"),
    cold("spec.source.activemq.queues", "all members must agree on it"),
    cold("spec.source.activemq.mode", "a new session with the source"),
    cold("spec.source.activemq.selector", "all members must agree on it"),
    cold("spec.source.credentialsSecretRef.name", "a mounted Secret; its content is followed"),
    cold("spec.source.tls.mode", "a new session with the source"),
    cold("spec.source.tls.caSecretRef.name", "a mounted Secret; its content is followed"),
    cold("spec.source.tls.caSecretRef.key", "a mounted Secret; its content is followed"),
    cold("spec.source.tls.clientCertSecretRef.name", "a mounted Secret; its content is followed"),
    cold("spec.ordering.mode", "lanes are built by it"),
    cold("spec.ordering.key.from", "lanes are built by it"),
    cold("spec.ordering.key.header", "lanes are built by it"),
    cold("spec.delivery.containerName", "the pod is built by it"),
    cold("spec.delivery.host", "comes with another application"),
    cold("spec.delivery.port", "comes with another application"),
    cold("spec.delivery.path", "comes with another application"),
    cold("spec.delivery.format", "comes with another application"),
    cold("spec.delivery.contentType", "comes with another application"),
    cold("spec.delivery.headersSecretRef.name", "a mounted Secret; its content is followed"),
    hot(
        "spec.delivery.timeoutSeconds",
        "holds from the next attempt on; without `drain.timeoutSeconds` the drain follows it, in a living pod up to what the \
         pod was built with",
    ),
    hot("spec.delivery.maxInFlight", "holds at once; attempts above a lowered limit end first"),
    hot("spec.delivery.statusCodes.done", "holds for answers from then on"),
    hot("spec.delivery.statusCodes.again", "holds for answers from then on"),
    hot("spec.delivery.statusCodes.never", "holds for answers from then on"),
    hot("spec.delivery.statusCodes.misconfigured", "holds for answers from then on"),
    hot("spec.delivery.healthCheck.path", "holds from the next check on"),
    hot("spec.delivery.healthCheck.periodSeconds", "holds from the next check on"),
    hot("spec.delivery.healthCheck.failureThreshold", "holds from the next check on"),
    hot("spec.delivery.healthCheck.handOverSeconds", "holds at once"),
    cold("spec.delivery.signing.secretRefs", "mounted Secrets; their content is followed"),
    hot("spec.retry.maxAttempts", "holds at once: a message that waits with as many attempts is exhausted"),
    hot("spec.retry.backoff.policy", "holds from the next wait on"),
    hot("spec.retry.backoff.initialMilliseconds", "holds from the next wait on"),
    hot("spec.retry.backoff.maxSeconds", "holds from the next wait on"),
    hot("spec.retry.retryAfterMaxSeconds", "holds for answers from then on"),
    hot("spec.retry.whenExhausted", "holds at once, for blocked messages too"),
    hot("spec.retry.undecodable", "holds at once, for blocked messages too"),
    hot("spec.retry.onDataLoss", "holds at once, for stopped queues too"),
    cold("spec.deadLetter.policy", "a new session with the source"),
    cold("spec.deadLetter.name", "a new session with the source"),
    cold(
        "spec.drain.timeoutSeconds",
        "the pod's termination grace period rests on it; left out, pods that live keep the time they were built with",
    ),
    hot("spec.sidecar.logLevel", "holds at once"),
    cold("spec.sidecar.adminPort", "the pod's probes rest on it"),
];

/// FNV-1a of a file's text in 16 hexadecimal digits: names a configuration. It is no protection against forgery, and
/// need not be: who can write the file can do more.
pub fn config_hash(text: &str) -> String {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hash = text.bytes().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}

impl ConsumerGroup {
    /// The file with the hot fields, defaults resolved: the same text for the same settings.
    pub fn hot_file(&self) -> String {
        self.file(Heat::Hot)
    }

    /// The file with the cold fields, defaults resolved: the same text for the same settings.
    pub fn cold_file(&self) -> String {
        self.file(Heat::Cold)
    }

    /// The fields that differ from `other`, defaults resolved, in the order of [`FIELDS`].
    pub fn changes(&self, other: &Self) -> Vec<&'static FieldHeat> {
        let (before, after) = (self.resolved(), other.resolved());
        FIELDS.iter().filter(|field| at(&before, field.path) != at(&after, field.path)).collect()
    }

    fn file(&self, heat: Heat) -> String {
        let part = part(&self.resolved(), "", heat).unwrap_or_default();
        serde_yaml::to_string(&part).unwrap_or_default()
    }

    fn resolved(&self) -> Value {
        let mut group = self.clone();
        group.resolve();
        serde_json::to_value(&group).unwrap_or_default()
    }
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, name| value.get(name))
}

/// The fields of that heat, sorted by name; `None` when there are none below.
fn part(value: &Value, path: &str, heat: Heat) -> Option<Value> {
    if let Some(field) = FIELDS.iter().find(|field| field.path == path) {
        return (field.heat == heat).then(|| value.clone());
    }
    let fields = value.as_object()?;
    let mut names: Vec<&String> = fields.keys().collect();
    names.sort();
    let mut kept = Map::new();
    for name in names {
        let below = fields.get(name).and_then(|value| part(value, &crate::yaml::join(path, name), heat));
        if let Some(below) = below {
            kept.insert(name.clone(), below);
        }
    }
    (!kept.is_empty()).then_some(Value::Object(kept))
}
