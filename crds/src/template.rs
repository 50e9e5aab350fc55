//! The schema and the reading of what comes from Kubernetes itself: the pod template and resource amounts.
//!
//! Descriptions are left out of the schema, which would be five times as large with them: `kubectl explain pod.spec`
//! says the same. Amounts such as `cpu: 1` may be numbers, as in a Deployment; they are read as texts.

use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error};
use serde_json::{Map, Value, json};

/// The fields of `template.metadata` that a Deployment keeps, and one that `kubectl create --dry-run` writes as `null`.
const METADATA: [&str; 3] = ["labels", "annotations", "creationTimestamp"];

/// Mappings whose values are amounts.
const AMOUNTS: [&str; 3] = ["limits", "requests", "overhead"];
/// Fields that are amounts.
const AMOUNT: [&str; 2] = ["sizeLimit", "divisor"];

/// Reads a value of Kubernetes in which amounts may be numbers.
pub(crate) fn with_amounts<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<T, D::Error> {
    let mut value = Value::deserialize(deserializer)?;
    amounts_to_text(&mut value);
    serde_json::from_value(value).map_err(D::Error::custom)
}

fn amounts_to_text(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(amounts_to_text),
        Value::Object(fields) => {
            for (name, value) in fields {
                if AMOUNT.contains(&name.as_str()) {
                    to_text(value);
                }
                if AMOUNTS.contains(&name.as_str()) {
                    value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(to_text);
                } else {
                    amounts_to_text(value);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn to_text(value: &mut Value) {
    if let Value::Number(number) = value {
        *value = Value::String(number.to_string());
    }
}

/// Makes Kubernetes' own schema of a pod template small.
pub(crate) fn shorten_template(schema: &mut Value) {
    shorten(schema);
    if let Some(metadata) =
        schema.pointer_mut("/properties/metadata/properties").and_then(Value::as_object_mut)
    {
        metadata.retain(|name, _| METADATA.contains(&name.as_str()));
        if let Some(time) = metadata.get_mut("creationTimestamp").and_then(Value::as_object_mut) {
            time.insert("nullable".to_owned(), json!(true));
        }
    }
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("required".to_owned(), json!(["spec"]));
    }
}

/// Removes the descriptions below a node and keeps the node's own.
pub(crate) fn shorten(schema: &mut Value) {
    let own = schema.get("description").cloned();
    without_descriptions(schema);
    if let (Some(own), Some(fields)) = (own, schema.as_object_mut()) {
        fields.insert("description".to_owned(), own);
    }
}

fn without_descriptions(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("description");
    for key in ["items", "additionalProperties"] {
        if let Some(below) = fields.get_mut(key) {
            without_descriptions(below);
        }
    }
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    properties.map(Map::values_mut).into_iter().flatten().for_each(without_descriptions);
}
