//! The CustomResourceDefinition: what kube derives from the types, made fit for an API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::{ConsumerGroup, rules, template};

/// The file with the definition, below `crds/yaml` and in the chart.
pub const FILE: &str = "consumergroups.lockstep.dev.yaml";

/// The file with the outline, below `crds/yaml`.
pub const OUTLINE_FILE: &str = "outline.json";

/// The generated outline: what of the definition decides whether an API server keeps a field. Reading it takes a tenth of
/// the memory that deriving or reading the whole definition does.
pub const OUTLINE: &str = include_str!("../yaml/outline.json");

/// What an outline keeps of a schema's node.
const OUTLINED: [&str; 7] = [
    "type",
    "properties",
    "items",
    "additionalProperties",
    "enum",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
];

/// The definition of the resource.
pub fn crd() -> CustomResourceDefinition {
    serde_json::from_value(json()).expect("the adapted definition must be a definition still")
}

/// The definition as the text of a file.
pub fn yaml() -> String {
    let body = serde_yaml::to_string(&json()).expect("JSON must be writable as YAML");
    format!(
        "# Generated from crds/src. Write it anew with: cargo run -p lockstep-crds --example generate\n{body}"
    )
}

/// The outline as the text of a file.
pub fn outline() -> String {
    let mut versions = json().pointer_mut("/spec/versions").map(Value::take).unwrap_or_default();
    for version in versions.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        version.retain(|name, _| ["name", "schema", "served", "subresources"].contains(&name.as_str()));
        if let Some(schema) = version.get_mut("schema").and_then(|schema| schema.get_mut("openAPIV3Schema")) {
            *schema = outlined(schema.take());
        }
    }
    format!("{}\n", json!({ "spec": { "versions": versions } }))
}

fn outlined(node: Value) -> Value {
    let Value::Object(mut fields) = node else { return node };
    fields.retain(|name, _| OUTLINED.contains(&name.as_str()));
    for below in ["items", "additionalProperties"] {
        if let Some(node) = fields.get_mut(below) {
            *node = outlined(node.take());
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(|node| *node = outlined(node.take()));
    }
    Value::Object(fields)
}

/// The definition as JSON.
pub(crate) fn json() -> Value {
    let mut crd = serde_json::to_value(ConsumerGroup::crd()).expect("the derived definition must be JSON");
    if let Some(fields) = crd.as_object_mut() {
        fields.remove("status");
    }
    whole_numbers(&mut crd);
    if let Some(schema) = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") {
        adapt(schema);
        for (at, bounds) in rules::bounds() {
            add_bounds(schema, at, bounds);
        }
        for rule in rules::CEL_RULES {
            add_rule(schema, rule);
        }
    }
    crd
}

/// kube holds all bounds as floating-point numbers.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Number(number) => {
            let text = number.to_string();
            if let Some(whole) = text.strip_suffix(".0").and_then(|text| text.parse::<i64>().ok()) {
                *value = json!(whole);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn adapt(schema: &mut Value) {
    node(schema);
    if let Some(properties) = schema.pointer_mut("/properties").and_then(Value::as_object_mut) {
        // Kubernetes knows all of it, but a rule can name only fields that stand in the schema.
        let name = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        properties.insert("metadata".to_owned(), name);
    }
    if let Some(template) = schema.pointer_mut("/properties/spec/properties/template") {
        template::shorten_template(template);
    }
    if let Some(resources) = schema.pointer_mut("/properties/spec/properties/sidecar/properties/resources") {
        template::shorten(resources);
    }
}

/// Adapts a node and what is below it.
fn node(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    // Without it, `field: null` is an absent field, as the contract reads it.
    fields.remove("nullable");
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.replace("\n\n", "\u{b6}").replace('\n', " ").replace('\u{b6}', "\n\n");
    }
    // An unsigned format is unknown to Kubernetes, which would warn of it.
    if fields.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
        let most = fields.get("maximum").and_then(Value::as_i64).unwrap_or(i64::MAX);
        let format = if most <= i64::from(i32::MAX) { "int32" } else { "int64" };
        fields.insert("format".to_owned(), json!(format));
        fields.entry("minimum").or_insert(json!(0));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = fields.get_mut(key) {
            node(below);
        }
    }
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    properties.map(Map::values_mut).into_iter().flatten().for_each(node);
}

/// The node of a rule or a bound: `at` as in [`rules::CelRule::at`].
fn find<'a>(schema: &'a mut Value, at: &str) -> &'a mut Map<String, Value> {
    let mut found = schema;
    if !at.is_empty() {
        for step in std::iter::once("spec").chain(at.split('.').filter(|step| !step.is_empty())) {
            found = match step {
                "[]" => found.get_mut("items"),
                "{}" => found.get_mut("additionalProperties"),
                name => found.get_mut("properties").and_then(|fields| fields.get_mut(name)),
            }
            .expect("the place of a rule must be a node of the schema");
        }
    }
    found.as_object_mut().expect("a node of the schema must be a mapping")
}

fn add_bounds(schema: &mut Value, at: &str, bounds: Value) {
    if let Value::Object(bounds) = bounds {
        find(schema, at).extend(bounds);
    }
}

fn add_rule(schema: &mut Value, rule: &rules::CelRule) {
    let mut written = Map::new();
    written.insert("rule".to_owned(), json!(rule.rule));
    written.insert("message".to_owned(), json!(rule.message));
    if !rule.field.is_empty() {
        written.insert("fieldPath".to_owned(), json!(rule.field));
    }
    let rules = find(schema, rule.at).entry("x-kubernetes-validations").or_insert_with(|| json!([]));
    if let Some(rules) = rules.as_array_mut() {
        rules.push(Value::Object(written));
    }
}
