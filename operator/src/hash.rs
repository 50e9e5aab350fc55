//! Hashes by which a reconciliation knows what has changed. They name, they do not protect: see
//! [`lockstep_contract::config_hash`].

use k8s_openapi::serde::Serialize;
use lockstep_contract::{FIELDS, Heat, SourceKind, config_hash};
use lockstep_crds::{ConsumerGroup, ConsumerGroupSpec};
use serde_json::{Map, Value, json};

#[cfg(test)]
mod tests;

/// The hash of an object as it is wanted: the same for the same object, in whatever order its fields stand.
pub fn applied_hash(object: &impl Serialize) -> String {
    hash(&serde_json::to_value(object).unwrap_or_default())
}

/// The hash of what the user wrote and what needs new pods.
///
/// Values that equal a default are left out, so that a version that knows more fields comes to the same hash.
pub fn input_hash(group: &ConsumerGroup) -> String {
    let mut spec = serde_json::to_value(&group.spec).unwrap_or_default();
    for field in FIELDS.iter().filter(|field| field.heat == Heat::Hot) {
        if let Some(path) = field.path.strip_prefix("spec.") {
            remove(&mut spec, path);
        }
    }
    for path in ["replicas", "podDisruptionBudget"] {
        remove(&mut spec, path);
    }
    hash(&without_defaults(spec, Some(&defaults(group))).unwrap_or_default())
}

/// The hash of what all members of the broker's group must agree on: while it changes, old and new pods must not run
/// side by side.
pub fn subscription_hash(group: &ConsumerGroup) -> String {
    let agreed = match group.spec.source.kind() {
        Some(SourceKind::RocketMq(source)) => {
            let mut subscriptions: Vec<_> = source.subscriptions.iter().collect();
            // Their order means nothing to the broker.
            subscriptions.sort_by(|a, b| a.topic.cmp(&b.topic));
            json!({
                "rocketmq": { "consumerGroup": source.consumer_group, "subscriptions": subscriptions }
            })
        }
        // Their queues know no common subscription.
        Some(SourceKind::RabbitMq(_)) => json!({ "rabbitmq": {} }),
        Some(SourceKind::ActiveMq(_)) => json!({ "activemq": {} }),
        None => Value::Null,
    };
    hash(&agreed)
}

fn hash(value: &Value) -> String {
    config_hash(&sorted(value).to_string())
}

/// The value with its fields sorted by name, whichever way the map keeps them.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<_> = fields.iter().collect();
            names.sort_by_key(|(name, _)| *name);
            Value::Object(names.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn remove(value: &mut Value, path: &str) {
    let (parents, name) = path.rsplit_once('.').unwrap_or(("", path));
    let parents = parents.split('.').filter(|name| !name.is_empty());
    let mut names = parents.into_iter();
    let parent = names.try_fold(value, |value, name| value.get_mut(name));
    if let Some(fields) = parent.and_then(Value::as_object_mut) {
        fields.remove(name);
    }
}

/// A spec of the same kind of source in which nothing is given that has a default.
fn defaults(group: &ConsumerGroup) -> Value {
    let source = match group.spec.source.kind() {
        Some(SourceKind::RocketMq(_)) => {
            json!({ "rocketmq": { "nameServers": [], "consumerGroup": "", "subscriptions": [] } })
        }
        Some(SourceKind::RabbitMq(_)) => json!({ "rabbitmq": { "urls": [], "queues": [] } }),
        Some(SourceKind::ActiveMq(_)) => json!({ "activemq": { "urls": [], "queues": [] } }),
        None => json!({}),
    };
    let spec = serde_json::from_value::<ConsumerGroupSpec>(json!({ "source": source, "template": {} }));
    spec.and_then(serde_json::to_value).unwrap_or_default()
}

/// What is left of a value without what equals the default; `None` when nothing is.
fn without_defaults(value: Value, default: Option<&Value>) -> Option<Value> {
    match (value, default) {
        (value, Some(default)) if value == *default => None,
        (Value::Object(fields), Some(Value::Object(defaults))) => {
            let kept = fields.into_iter().filter_map(|(name, value)| {
                let default = defaults.get(&name);
                Some((name, without_defaults(value, default)?))
            });
            let kept: Map<String, Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        (value, _) => Some(value),
    }
}
