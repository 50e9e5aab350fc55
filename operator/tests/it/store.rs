//! Objects as an API server keeps them: versions, generations, merges and what watches are told.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Where an object is: plural, namespace, name.
pub(crate) type Place = (String, String, String);

/// One change, as a watch shows it.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) kind: &'static str,
    pub(crate) plural: String,
    pub(crate) before: Option<Value>,
    pub(crate) object: Value,
}

/// All objects, and all that ever happened to them.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) objects: BTreeMap<Place, Value>,
    pub(crate) changes: Vec<Change>,
    version: u64,
    uids: u64,
}

impl Store {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&place(plural, namespace, name))
    }

    /// Lays `patch` over what is there; an object that is not there is made.
    pub(crate) fn apply(&mut self, plural: &str, namespace: &str, name: &str, patch: &Value) -> Value {
        let mut object = self.get(plural, namespace, name).cloned().unwrap_or_else(|| json!({}));
        merge(&mut object, patch);
        if plural != "consumergroups" {
            defaults(plural, &mut object);
        } else if let (Some(fields), true) = (object.as_object_mut(), patch.get("spec").is_some()) {
            // A group's status has its own door.
            let before = self.objects.get(&place(plural, namespace, name));
            match before.and_then(|before| before.get("status")) {
                Some(status) => fields.insert("status".to_owned(), status.clone()),
                None => fields.remove("status"),
            };
        }
        self.put(plural, namespace, name, object)
    }

    /// Stores an object as given.
    pub(crate) fn put(&mut self, plural: &str, namespace: &str, name: &str, mut object: Value) -> Value {
        let key = place(plural, namespace, name);
        let before = self.objects.get(&key).cloned();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.insert("name".to_owned(), json!(name));
        metadata.insert("namespace".to_owned(), json!(namespace));
        match &before {
            Some(before) => {
                for field in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
                    metadata.insert(field.to_owned(), before["metadata"][field].clone());
                }
                if *before == object {
                    return object;
                }
                let generation = before["metadata"]["generation"].as_u64().unwrap();
                let changed = u64::from(before.get("spec") != object.get("spec"));
                object["metadata"]["generation"] = json!(generation + changed);
            }
            None => {
                self.uids += 1;
                metadata
                    .insert("uid".to_owned(), json!(format!("00000000-0000-0000-0000-{:012}", self.uids)));
                metadata.insert("creationTimestamp".to_owned(), json!("2026-11-30T08:00:00Z"));
                metadata.insert("generation".to_owned(), json!(1));
            }
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        self.objects.insert(key, object.clone());
        self.tell(kind, plural, before, object.clone());
        object
    }

    pub(crate) fn delete(&mut self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let mut object = self.objects.remove(&place(plural, namespace, name))?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell("DELETED", plural, Some(object.clone()), object.clone());
        Some(object)
    }

    fn tell(&mut self, kind: &'static str, plural: &str, before: Option<Value>, object: Value) {
        let plural = plural.to_owned();
        self.changes.push(Change { version: self.version, kind, plural, before, object });
    }
}

fn place(plural: &str, namespace: &str, name: &str) -> Place {
    (plural.to_owned(), namespace.to_owned(), name.to_owned())
}

/// Whether an object has the labels of a selector: `key=value` or `key`.
pub(crate) fn selected(object: &Value, selector: Option<&str>) -> bool {
    let Some(selector) = selector else { return true };
    let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
    match selector.split_once('=') {
        Some((key, value)) => label(key) == Some(value),
        None => label(selector).is_some(),
    }
}

fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                if !value.is_null() {
                    merge(base.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

/// Some of what an API server adds, and what it writes in another way.
fn defaults(plural: &str, object: &mut Value) {
    if plural != "deployments" {
        return;
    }
    let spec = object["spec"].as_object_mut().unwrap();
    spec.entry("revisionHistoryLimit").or_insert(json!(10));
    let pod = spec["template"]["spec"].as_object_mut().unwrap();
    pod.entry("dnsPolicy").or_insert(json!("ClusterFirst"));
    for container in pod["containers"].as_array_mut().unwrap() {
        let container = container.as_object_mut().unwrap();
        container.entry("imagePullPolicy").or_insert(json!("IfNotPresent"));
        let requests = container.get_mut("resources").and_then(|resources| resources.get_mut("requests"));
        if let Some(cpu) =
            requests.and_then(|requests| requests.get_mut("cpu")).filter(|cpu| **cpu == "1000m")
        {
            *cpu = json!("1");
        }
    }
    without_empty(object);
}

/// Empty texts and lists are not written back.
fn without_empty(value: &mut Value) {
    let empty = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    };
    match value {
        Value::Object(fields) => {
            let kept: Map<String, Value> =
                std::mem::take(fields).into_iter().filter(|(_, value)| !empty(value)).collect();
            *fields = kept;
            fields.values_mut().for_each(without_empty);
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
