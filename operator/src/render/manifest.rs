//! From a manifest's text to the typed group, strictly: what the API server would pass over in silence is a mistake.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{PodTemplateSpec, ResourceRequirements},
    serde::{Serialize, de::DeserializeOwned},
};
use lockstep_contract::{Strictness, parse};
use lockstep_crds::{ConsumerGroup, DisruptionBudget};
use serde_json::{Value, json};

use crate::validate::validate_template;

/// Reads a manifest; every mistake at once, a line each.
pub(super) fn read(text: &str) -> Result<ConsumerGroup, Vec<String>> {
    let mut mistakes = Vec::new();
    let parsed = parse(text, Strictness::Strict);
    if let Err(found) = &parsed {
        mistakes.extend(found.iter().map(ToString::to_string));
    }
    // What is no YAML is told already.
    let Ok(value) = serde_yaml::from_str::<Value>(text) else { return Err(mistakes) };
    let is_group = value.get("spec").is_some_and(Value::is_object);
    if is_group {
        operators_fields(&value, &mut mistakes);
    }
    if parsed.is_err() && is_group {
        mistakes.extend(template_faults(&value));
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    serde_yaml::from_str(text).map_err(|error| vec![format!("manifest: {error}; correct that value")])
}

/// The fields that the contract passes over, since only the operator reads them.
fn operators_fields(value: &Value, mistakes: &mut Vec<String>) {
    if value.pointer("/spec/template").is_none_or(Value::is_null) {
        let remedy =
            "give the application's pods as in a Deployment: {spec: {containers: [{name: app, image: …}]}}";
        mistakes.push(format!("spec.template: is missing; {remedy}"));
    }
    field::<PodTemplateSpec>(value, "spec.template", mistakes);
    field::<ResourceRequirements>(value, "spec.sidecar.resources", mistakes);
    field::<String>(value, "spec.sidecar.image", mistakes);
    field::<i32>(value, "spec.replicas", mistakes);
    field::<DisruptionBudget>(value, "spec.podDisruptionBudget", mistakes);
}

fn field<T: DeserializeOwned + Serialize>(value: &Value, path: &str, mistakes: &mut Vec<String>) {
    let given = path.split('.').try_fold(value, |value, name| value.get(name));
    let Some(given) = given.filter(|given| !given.is_null()) else { return };
    // Through its text, since only then the error tells the path.
    let text = serde_yaml::to_string(given).unwrap_or_default();
    match serde_yaml::from_str::<T>(&text) {
        Ok(typed) => unknown(given, &serde_json::to_value(&typed).unwrap_or_default(), path, mistakes),
        Err(error) => {
            let error = error.to_string();
            // Lines count within the field alone.
            let error = error.split(" at line ").next().unwrap_or_default();
            let (below, problem) = match error.split_once(": ") {
                Some((below, problem)) if !below.contains(' ') => (below, problem),
                _ => ("", error),
            };
            let path = if below.is_empty() { path.to_owned() } else { format!("{path}.{below}") };
            mistakes.push(format!("{path}: {problem}; correct that value"));
        }
    }
}

/// Fields that did not come through the type, which the API server would drop with a warning at most.
fn unknown(given: &Value, kept: &Value, path: &str, mistakes: &mut Vec<String>) {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
                let path = format!("{path}.{name}");
                match kept.get(name) {
                    Some(kept) => unknown(value, kept, &path, mistakes),
                    None => {
                        mistakes.push(format!("{path}: is no field there; correct its name or remove it"))
                    }
                }
            }
        }
        (Value::Array(given), Value::Array(kept)) => {
            for (index, (given, kept)) in given.iter().zip(kept).enumerate() {
                unknown(given, kept, &format!("{path}[{index}]"), mistakes);
            }
        }
        _ => {}
    }
}

/// What is wrong with the template of a manifest that has other mistakes, as far as it can be read.
fn template_faults(value: &Value) -> Vec<String> {
    let at = |path: &str| value.pointer(path).cloned().unwrap_or_default();
    let name = at("/metadata/name");
    let stand_in = |delivery: Value, sidecar: Value| {
        serde_json::from_value::<ConsumerGroup>(json!({
            "apiVersion": lockstep_contract::API_VERSION,
            "kind": lockstep_contract::KIND,
            "metadata": { "name": name.as_str().unwrap_or_default() },
            "spec": { "source": {}, "template": at("/spec/template"), "delivery": delivery, "sidecar": sidecar },
        }))
    };
    // Only what the template is held against, so that a mistake in another field stands not in the way.
    let given = |path: &str, names: &[&str]| {
        let given = names.iter().filter_map(|name| Some((*name, value.pointer(path)?.get(name)?)));
        json!(given.filter(|(_, value)| !value.is_null()).collect::<BTreeMap<_, _>>())
    };
    let delivery = given("/spec/delivery", &["containerName", "port"]);
    let sidecar = given("/spec/sidecar", &["adminPort"]);
    let group = stand_in(delivery, sidecar).or_else(|_| stand_in(json!({}), json!({})));
    group.map(|group| validate_template(&group)).unwrap_or_default()
}
