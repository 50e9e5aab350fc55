//! What a schema can't say: how texts are built, and what hangs together over several fields. Each rule looks at a
//! value only when it has the right type, since anything else is a mistake already.

mod activemq;
mod delivery;
mod source;
mod texts;

use serde_json::Value;

use crate::{API_VERSION, KIND, Rule, mistake::Collector, names, words::shortened, yaml::join};

/// A place in a manifest, whether something stands there or not.
#[derive(Debug, Clone)]
pub(crate) struct At<'a> {
    value: Option<&'a Value>,
    path: String,
}

impl<'a> At<'a> {
    fn get(&self, name: &str) -> Self {
        let value = self.value.and_then(|value| value.get(name)).filter(|value| !value.is_null());
        Self { value, path: join(&self.path, name) }
    }

    fn items(&self) -> impl Iterator<Item = Self> {
        let items = self.value.and_then(Value::as_array).into_iter().flatten();
        items
            .enumerate()
            .map(|(index, item)| Self { value: Some(item), path: format!("{}[{index}]", self.path) })
    }

    fn text(&self) -> Option<&'a str> {
        self.value?.as_str()
    }

    fn number(&self) -> Option<u64> {
        self.value?.as_u64()
    }

    fn is_given(&self) -> bool {
        self.value.is_some()
    }

    fn is_mapping(&self) -> bool {
        self.value.is_some_and(Value::is_object)
    }
}

/// Checks a manifest against every rule.
pub(crate) fn check(value: &Value, out: &mut Collector) {
    let root = At { value: Some(value), path: String::new() };
    kind(&root, out);
    for name in ["name", "namespace"] {
        let name = root.get("metadata").get(name);
        let most = if name.path.ends_with("namespace") { 63 } else { names::MAX_GROUP_NAME };
        texts::kubernetes_name(&name, most, out);
    }
    let spec = root.get("spec");
    source::check(&spec, out);
    delivery::check(&spec, out);
}

/// Whether the manifest says itself that it is something else altogether: then nothing else in it is a mistake.
pub(crate) fn is_another_resource(value: &Value, out: &mut Collector) -> bool {
    let root = At { value: Some(value), path: String::new() };
    let differs = |name: &str, wanted: &str| root.get(name).text().is_some_and(|text| text != wanted);
    let other = differs("apiVersion", API_VERSION) && differs("kind", KIND);
    if other {
        kind(&root, out);
    }
    other
}

fn kind(root: &At<'_>, out: &mut Collector) {
    let fixed = [("apiVersion", API_VERSION, Rule::ApiVersion), ("kind", KIND, Rule::Kind)];
    for (name, wanted, rule) in fixed {
        let at = root.get(name);
        if let Some(text) = at.text().filter(|text| *text != wanted) {
            out.add(
                rule,
                &at.path,
                format!("is \"{}\"", shortened(text)),
                format!("write `{name}: {wanted}`"),
            );
        }
    }
}

/// What each text of a list names stands in it once.
fn listed_once<'a>(list: impl Iterator<Item = At<'a>>, named: fn(&str) -> &str, out: &mut Collector) {
    let mut seen = Vec::new();
    for at in list {
        let Some(text) = at.text().map(named) else { continue };
        if seen.contains(&text) {
            let problem = format!("is \"{}\", which is listed before", shortened(text));
            out.add(Rule::ListedOnce, &at.path, problem, "remove one of the two entries");
        }
        seen.push(text);
    }
}
