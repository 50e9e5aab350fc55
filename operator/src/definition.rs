//! Whether the installed definition of the resource is the one that this operator knows. Pure: an API server drops, without
//! a word, every field that its definition lacks, so that somebody has to say it.
//!
//! Only what decides over a field's life is compared: fields, their types and the words of enumerations. Bounds, rules
//! and defaults may differ, since the operator judges every group anew and has defaults of its own; so may all that an
//! API server adds to a definition.

mod look;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use lockstep_contract::API_VERSION;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

pub use look::{Known, follow, look};

/// What is compared of a CustomResourceDefinition.
#[derive(Debug, Deserialize)]
pub struct Definition {
    spec: Spec,
}

#[derive(Debug, Deserialize)]
struct Spec {
    versions: Vec<Version>,
}

#[derive(Debug, Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    schema: Schema,
    #[serde(default)]
    subresources: Subresources,
}

#[derive(Debug, Default, Deserialize)]
struct Schema {
    #[serde(default, rename = "openAPIV3Schema")]
    root: Node,
}

#[derive(Debug, Default, Deserialize)]
struct Subresources {
    status: Option<IgnoredAny>,
    scale: Option<IgnoredAny>,
}

/// One field. Everything else in a schema is read over, without being kept.
#[derive(Debug, Default, Deserialize)]
struct Node {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    properties: BTreeMap<String, Self>,
    items: Option<Box<Self>>,
    #[serde(rename = "additionalProperties")]
    values: Option<Box<Self>>,
    #[serde(default, rename = "enum")]
    words: Vec<Value>,
    #[serde(default, rename = "x-kubernetes-preserve-unknown-fields")]
    keeps_all: bool,
    #[serde(default, rename = "x-kubernetes-int-or-string")]
    is_amount: bool,
}

/// In what two definitions differ: paths of fields, `[]` for the members of a list and `{}` for those of a mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// What this operator knows and the installed definition does not: what is written there is dropped or refused.
    pub lacks: Vec<String>,
    /// What only the installed definition knows.
    pub adds: Vec<String>,
}

/// Holds the installed definition against the one that this operator was built with.
pub fn compare(installed: &Definition, own: &Definition) -> Difference {
    let mut found = Difference::default();
    let version = API_VERSION.rsplit('/').next().unwrap_or_default();
    let Some((there, here)) = served(installed, version).zip(served(own, version)) else {
        found.lacks.push(format!("the version {version}"));
        return found;
    };
    let doors = [
        ("the subresource status", there.subresources.status.is_some(), here.subresources.status.is_some()),
        ("the subresource scale", there.subresources.scale.is_some(), here.subresources.scale.is_some()),
    ];
    for (door, _, _) in doors.iter().filter(|(_, there, here)| *here && !there) {
        found.lacks.push((*door).to_owned());
    }
    node("", &there.schema.root, &here.schema.root, &mut found);
    found
}

fn served<'a>(definition: &'a Definition, version: &str) -> Option<&'a Version> {
    definition.spec.versions.iter().find(|one| one.name == version && one.served)
}

fn node(path: &str, there: &Node, here: &Node, found: &mut Difference) {
    if there.keeps_all {
        return;
    }
    let differs = match (&there.kind, &here.kind) {
        (Some(there), Some(here)) => there != here,
        (None, Some(_)) => !there.is_amount,
        (_, None) => false,
    };
    if differs || (here.is_amount && !there.is_amount) || here.keeps_all {
        found.lacks.push(format!("the type of {path}"));
        return;
    }
    words(path, there, here, found);
    for (name, below) in &here.properties {
        let path = join(path, name);
        match there.properties.get(name) {
            Some(there) => node(&path, there, below, found),
            None => found.lacks.push(path),
        }
    }
    let added = there.properties.keys().filter(|name| !here.properties.contains_key(*name));
    found.adds.extend(added.map(|name| join(path, name)));
    let members = [("[]", &there.items, &here.items), ("{}", &there.values, &here.values)];
    for (brackets, there, here) in members {
        let path = format!("{path}{brackets}");
        match (there, here) {
            (Some(there), Some(here)) => node(&path, there, here, found),
            (None, Some(_)) => found.lacks.push(path),
            (Some(_), None) => found.adds.push(path),
            (None, None) => {}
        }
    }
}

fn words(path: &str, there: &Node, here: &Node, found: &mut Difference) {
    let text =
        |word: &Value| format!("{path}: {}", word.as_str().map_or_else(|| word.to_string(), str::to_owned));
    // Without a list every word is taken.
    if !there.words.is_empty() {
        found.lacks.extend(here.words.iter().filter(|word| !there.words.contains(word)).map(text));
    }
    if !here.words.is_empty() {
        found.adds.extend(there.words.iter().filter(|word| !here.words.contains(word)).map(text));
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
