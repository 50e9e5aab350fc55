//! Checks a value against the schema that is derived from the types: unknown fields, types, ranges, words, lengths.
//! What hangs together over several fields is in `rules`.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    ConsumerGroup, Rule,
    mistake::Collector,
    words::{self, shown},
    yaml::join,
};

/// Fields that a manifest may hold and that are the operator's or Kubernetes' business alone.
const PASSED_OVER: [(&str, &[&str]); 4] = [
    ("", &["status"]),
    (
        "metadata",
        &[
            "annotations",
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "finalizers",
            "generateName",
            "generation",
            "labels",
            "managedFields",
            "ownerReferences",
            "resourceVersion",
            "selfLink",
        ],
    ),
    ("spec", &["podDisruptionBudget", "replicas", "template"]),
    ("spec.sidecar", &["image", "resources"]),
];

/// The JSON schema of a type, without references, as a custom resource wants it.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Checks a manifest against the schema of [`ConsumerGroup`].
pub(crate) fn check(value: &Value, out: &mut Collector) {
    node(value, &schema_of::<ConsumerGroup>(), "", out);
}

fn node(value: &Value, schema: &Value, path: &str, out: &mut Collector) {
    let choices = choices(schema);
    if !choices.is_empty() {
        return choice(value, &choices, path, out);
    }
    match kind(schema) {
        Some("object") => object(value, schema, path, out),
        Some("array") => array(value, schema, path, out),
        Some("integer") => integer(value, schema, path, out),
        Some("string") => string(value, schema, path, out),
        // Left to a rule.
        _ => {}
    }
}

/// The type of a schema; `null` beside it only says that the field is optional.
fn kind(schema: &Value) -> Option<&str> {
    let kind = schema.get("type").or_else(|| not_null(schema)?.get("type"))?;
    match kind.as_array() {
        Some(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        None => kind.as_str(),
    }
}

/// The one alternative of an optional field that is not `null`.
fn not_null(schema: &Value) -> Option<&Value> {
    let is_null = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("null");
    schema.get("anyOf")?.as_array()?.iter().find(|schema| !is_null(schema))
}

/// A part of a schema, looked up also in the alternative of an optional field.
pub(crate) fn part<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    schema.get(key).or_else(|| not_null(schema)?.get(key))
}

/// The words of an enum.
fn choices(schema: &Value) -> Vec<&str> {
    if let Some(words) = part(schema, "enum").and_then(Value::as_array) {
        return words.iter().filter_map(Value::as_str).collect();
    }
    let alternatives = part(schema, "oneOf").and_then(Value::as_array);
    alternatives.map(|list| list.iter().flat_map(words_of).collect()).unwrap_or_default()
}

fn words_of(schema: &Value) -> Vec<&str> {
    let one = schema.get("const").and_then(Value::as_str);
    let several = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    one.into_iter().chain(several.filter_map(Value::as_str)).collect()
}

fn object(value: &Value, schema: &Value, path: &str, out: &mut Collector) {
    let Value::Object(fields) = value else {
        let problem = format!("is {}, not a mapping", shown(value));
        return out.add(Rule::Type, path, problem, "give fields below it, each as `name: value`");
    };
    let Some(known) = part(schema, "properties").and_then(Value::as_object) else {
        return texts(fields, path, out);
    };
    for (name, value) in fields {
        let path = join(path, name);
        match known.get(name) {
            // `field:` with nothing behind it is an absent field, as for Kubernetes.
            Some(_) if value.is_null() => {}
            Some(schema) => node(value, schema, &path, out),
            None => unknown(name, known, &path, out),
        }
    }
    let required = part(schema, "required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if fields.get(name).is_none_or(Value::is_null) {
            let path = join(path, name);
            out.add(Rule::Missing, &path, "is missing", format!("give it{}", words::example(&path)));
        }
    }
}

/// A mapping of free keys to texts.
fn texts(fields: &Map<String, Value>, path: &str, out: &mut Collector) {
    for (name, value) in fields {
        string(value, &json!({}), &join(path, name), out);
    }
}

fn unknown(name: &str, known: &Map<String, Value>, path: &str, out: &mut Collector) {
    let parent = path.strip_suffix(name).map_or("", |parent| parent.trim_end_matches('.'));
    let passed = PASSED_OVER.iter().find(|(place, _)| *place == parent).map_or(&[][..], |(_, names)| names);
    if passed.contains(&name) {
        return;
    }
    let all = known.keys().map(String::as_str).chain(passed.iter().copied());
    let remedy = match words::nearest(name, all.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("remove it; known here: {}", all.collect::<Vec<_>>().join(", ")),
    };
    out.add(Rule::UnknownField, path, "is no field of a ConsumerGroup", remedy);
}

fn array(value: &Value, schema: &Value, path: &str, out: &mut Collector) {
    let Value::Array(items) = value else {
        let problem = format!("is {}, not a list", shown(value));
        return out.add(Rule::Type, path, problem, "write it as a list, for example `[a, b]`");
    };
    let bound = |key| part(schema, key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let (least, most) = (bound("minItems").unwrap_or(0), bound("maxItems").unwrap_or(usize::MAX));
    if items.len() < least {
        out.add(Rule::Length, path, "is empty", format!("give at least {least}{}", words::example(path)));
    }
    if items.len() > most {
        out.add(Rule::Length, path, format!("has {} entries", items.len()), format!("give at most {most}"));
    }
    if let Some(schema) = part(schema, "items") {
        for (index, item) in items.iter().enumerate() {
            node(item, schema, &format!("{path}[{index}]"), out);
        }
    }
}

/// Where a field names no maximum of its own: what its type takes.
const UNBOUNDED: i64 = u32::MAX as i64;

fn integer(value: &Value, schema: &Value, path: &str, out: &mut Collector) {
    let bound = |key| part(schema, key).and_then(Value::as_i64);
    let (least, most) = (bound("minimum").unwrap_or(0), bound("maximum").unwrap_or(UNBOUNDED));
    let wanted = format!("a whole number from {least} to {most}{}", words::unit(path));
    let Value::Number(number) = value else {
        let with_unit = value.as_str().and_then(words::number_and_unit);
        return match with_unit {
            Some((_, "")) => {
                let problem = format!("is the text {}, not a number", shown(value));
                out.add(Rule::Type, path, problem, "write it without quotes");
            }
            Some(_) => {
                let problem = format!("is {}, a number with a unit of its own", shown(value));
                out.add(Rule::Unit, path, problem, format!("give {wanted}, without a unit"));
            }
            None => {
                let problem = format!("is {}, not a number", shown(value));
                out.add(Rule::Type, path, problem, format!("give {wanted}"));
            }
        };
    };
    if number.is_f64() {
        let problem = format!("is {number}, a number with a fraction");
        return out.add(Rule::Fraction, path, problem, format!("give {wanted}"));
    }
    if !number.as_i64().is_some_and(|number| (least..=most).contains(&number)) {
        out.add(Rule::Range, path, format!("is {number}"), format!("give {wanted}"));
    }
}

fn string(value: &Value, schema: &Value, path: &str, out: &mut Collector) {
    let Value::String(text) = value else {
        let remedy = match value {
            Value::Bool(_) | Value::Number(_) => format!("write it in quotes: \"{value}\""),
            Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                format!("give one text{}", words::example(path))
            }
        };
        return out.add(Rule::Type, path, format!("is {}, not a text", shown(value)), remedy);
    };
    let bound = |key| part(schema, key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let length = text.chars().count();
    if length < bound("minLength").unwrap_or(0) {
        out.add(Rule::Length, path, "is empty", "give a text, or leave the field out");
    }
    if let Some(most) = bound("maxLength").filter(|most| length > *most) {
        out.add(
            Rule::Length,
            path,
            format!("has {length} characters"),
            format!("shorten it to at most {most}"),
        );
    }
}

fn choice(value: &Value, choices: &[&str], path: &str, out: &mut Collector) {
    if value.as_str().is_some_and(|word| choices.contains(&word)) {
        return;
    }
    let near = value.as_str().and_then(|word| words::nearest(word, choices.iter().copied()));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let problem = format!("is {}", shown(value));
    out.add(Rule::Choice, path, problem, format!("give one of {}{hint}", choices.join(", ")));
}
