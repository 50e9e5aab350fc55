//! The definition is what an API server takes, small, described, and the same in every file.

use std::{fs, path::Path};

use kube::core::Resource;
use kube_cel::{Validator, compile_schema};
use serde_json::Value;

use super::schema::mistakes;
use crate::{ConsumerGroup, FILE, OUTLINE, OUTLINE_FILE, crd, definition::json, outline, yaml};

#[test]
fn the_files_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for folder in ["crds/yaml", "charts/lockstep/files"] {
        let path = root.join(folder).join(FILE);
        let found = fs::read_to_string(&path).unwrap_or_default();
        let same = found == yaml();
        assert!(same, "{folder}/{FILE} is stale: run `cargo run -p lockstep-crds --example generate`");
    }
    assert!(OUTLINE == outline(), "crds/yaml/{OUTLINE_FILE} is stale: run the same");
}

#[test]
fn the_definition_is_small() {
    // What kubectl's client-side apply copies into an annotation, which may hold 262,144 bytes.
    let bytes = serde_json::to_string(&crd()).unwrap().len();
    assert!(bytes < 100_000, "{bytes} bytes");
}

#[test]
fn the_typed_definition_is_the_written_one() {
    let typed = serde_json::from_value::<Value>(serde_json::to_value(crd()).unwrap()).unwrap();
    let text: Value = serde_yaml::from_str(&yaml()).unwrap();
    let numbers = |value: &Value| value.to_string().replace(".0,", ",").replace(".0}", "}");
    assert_eq!(numbers(&typed), numbers(&text));
}

#[test]
fn names_are_as_promised() {
    let names = crd().spec.names;
    assert_eq!(names.short_names, Some(vec!["cgrp".to_owned()]));
    assert_eq!(names.categories, Some(vec!["lockstep".to_owned()]));
    assert_eq!(names.plural, ConsumerGroup::plural(&()));
    let version = &json()["spec"]["versions"][0];
    assert_eq!(version["subresources"]["scale"]["specReplicasPath"], ".spec.replicas");
    assert!(version["subresources"]["status"].is_object());
    let status = &super::schema()["properties"]["status"]["properties"];
    assert_eq!(status["conditions"]["x-kubernetes-list-map-keys"], serde_json::json!(["type"]));
    let columns: Vec<&str> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["Ready", "Reason", "Ready pods", "Backlog", "Oldest", "Source", "Age"]);
}

/// Every node with its path.
fn walk<'a>(schema: &'a Value, path: &str, seen: &mut Vec<(String, &'a Value)>) {
    seen.push((path.to_owned(), schema));
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        walk(below, &format!("{path}.{name}"), seen);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = schema.get(key) {
            walk(below, &format!("{path}.{key}"), seen);
        }
    }
}

#[test]
fn the_schema_is_structural() {
    const KNOWN: [&str; 24] = [
        "additionalProperties",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    ];
    let schema = super::schema();
    let mut seen = Vec::new();
    walk(&schema, "", &mut seen);
    assert!(seen.len() > 500);
    for (path, node) in seen {
        for key in node.as_object().unwrap().keys() {
            assert!(KNOWN.contains(&key.as_str()), "{path}: {key}");
        }
        let int_or_string = node["x-kubernetes-int-or-string"] == true;
        assert_ne!(node["type"].is_string(), int_or_string, "{path} has no type, or two");
        let formats = [Value::Null, "int32".into(), "int64".into(), "date-time".into(), "byte".into()];
        assert!(formats.contains(&node["format"]), "{path}: {}", node["format"]);
        let both = node.get("properties").is_some() && node.get("additionalProperties").is_some();
        assert!(!both, "{path} has both properties and additionalProperties");
    }
}

/// The API server judges a default as it stands, before the defaults below it are filled in.
#[test]
fn defaults_keep_the_rules() {
    let schema = super::schema();
    let mut seen = Vec::new();
    walk(&schema, "", &mut seen);
    let defaults: Vec<_> =
        seen.iter().filter_map(|(path, node)| Some((path, node, node.get("default")?))).collect();
    assert!(defaults.len() > 30);
    for (path, node, default) in defaults {
        assert_eq!(mistakes(node, default), [], "{path}");
        let judged = Validator::new().validate_compiled(&compile_schema(node), default, None);
        assert!(judged.is_ok(), "{path}: {judged:?}");
    }
}

#[test]
fn every_field_is_described() {
    let schema = super::schema();
    let mut seen = Vec::new();
    walk(&schema, "", &mut seen);
    let foreign = [".spec.template.", ".spec.sidecar.resources."];
    for (path, node) in seen {
        let is_field = !path.starts_with(".metadata")
            && !path.ends_with(".items")
            && !path.ends_with(".additionalProperties");
        if is_field && !foreign.iter().any(|foreign| path.starts_with(foreign)) {
            let text = node["description"].as_str().unwrap_or_default();
            assert!(text.len() > 3, "{path} has no description");
        }
    }
}
