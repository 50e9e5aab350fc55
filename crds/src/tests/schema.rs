//! What an API server does with a schema: removes nulls, fills defaults, checks types and bounds. No rules in CEL.

use serde_json::Value;

/// Removes nulls and fills defaults.
pub(super) fn filled(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let nullable = |name: &str| schema["properties"][name]["nullable"] == true;
            fields.retain(|name, value| !value.is_null() || nullable(name));
            for (name, below) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(default) = below.get("default") {
                    fields.entry(name.clone()).or_insert_with(|| default.clone());
                }
                if let Some(value) = fields.get_mut(name) {
                    filled(below, value);
                }
            }
            if let Some(below) = schema.get("additionalProperties") {
                fields.values_mut().for_each(|value| filled(below, value));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| filled(&schema["items"], item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Each mistake as its field and the API server's words.
pub(super) fn mistakes(schema: &Value, value: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    check(schema, value, "", &mut found);
    found
}

fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<(String, String)>) {
    let mut say = |text: String| found.push((path.to_owned(), text));
    if schema["nullable"] == true && value.is_null() {
        return;
    }
    if schema["x-kubernetes-int-or-string"] == true {
        if !value.is_i64() && !value.is_string() {
            say("must be of type integer or string".to_owned());
        }
        return;
    }
    let kind = schema["type"].as_str().unwrap_or_else(|| panic!("{path} has no type"));
    let has_type = match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        other => panic!("{path} has the type {other}"),
    };
    if !has_type {
        return say(format!("must be of type {kind}"));
    }
    let bound = |name: &str| schema[name].as_i64();
    let whole = |number: usize| i64::try_from(number).unwrap();
    let counted = match value {
        Value::String(text) => Some(("minLength", "maxLength", "chars", whole(text.chars().count()))),
        Value::Array(items) => Some(("minItems", "maxItems", "items", whole(items.len()))),
        Value::Object(fields) => Some(("minProperties", "maxProperties", "properties", whole(fields.len()))),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    };
    if let Some((least, most, what, count)) = counted {
        if bound(least).is_some_and(|least| count < least) {
            say(format!("should be at least {} {what}; at least 1 {what}", schema[least]));
        }
        if bound(most).is_some_and(|most| count > most) {
            say(format!("may be at most {} {what}", schema[most]));
        }
    }
    if let Some(number) = value.as_i64() {
        if bound("minimum").is_some_and(|least| number < least) {
            say(format!("should be greater than or equal to {}", schema["minimum"]));
        }
        if bound("maximum").is_some_and(|most| number > most) {
            say(format!("should be less than or equal to {}", schema["maximum"]));
        }
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        say(format!("supported values: {}", schema["enum"]));
    }
    if schema["format"] == "date-time" && !is_moment(value.as_str().unwrap_or_default()) {
        say("must be of type date-time".to_owned());
    }
    below(schema, value, path, found);
}

fn below(schema: &Value, value: &Value, path: &str, found: &mut Vec<(String, String)>) {
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(&schema["items"], item, &format!("{path}[{index}]"), found);
    }
    let Some(fields) = value.as_object() else { return };
    let inner = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            found.push((inner(name), "Required value".to_owned()));
        }
    }
    for (name, value) in fields {
        if path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        if let Some(schema) = schema["properties"].get(name) {
            check(schema, value, &inner(name), found);
        } else if let Some(schema) = schema.get("additionalProperties") {
            check(schema, value, &inner(name), found);
        } else {
            found.push((inner(name), format!("unknown field \"{}\"", inner(name))));
        }
    }
}

/// As the API server's library judges: by its look.
fn is_moment(text: &str) -> bool {
    let look = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let text: String = text.chars().map(look).collect();
    let Some(rest) = text.strip_prefix("0000-00-00T00:00:00") else { return false };
    let fraction = rest.strip_prefix('.').map_or(rest, |rest| rest.trim_start_matches('0'));
    fraction == "Z" || ["+00:00", "-00:00"].contains(&fraction)
}
