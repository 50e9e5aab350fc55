//! Whether the cluster holds what is wanted.

use serde_json::Value;

/// Members by which the API server merges lists of objects, the most telling first.
const KEYS: &[&str] = &["name", "type", "uid", "mountPath", "containerPort", "key", "topologyKey"];
/// Members whose values, or whose members' values, are quantities, which the API server rewrites.
const QUANTITIES: &[&str] = &["requests", "limits", "sizeLimit", "divisor", "capacity"];

/// Whether `live` says all that `wanted` says; it may say more, as defaults and other writers do. Objects are compared
/// member by member, lists of objects by their key, other lists item by item, quantities by value, and what is empty or
/// zero equals what is absent.
pub fn is_subset(wanted: &Value, live: &Value) -> bool {
    within(wanted, Some(live), false)
}

fn within(wanted: &Value, live: Option<&Value>, quantity: bool) -> bool {
    let live = match live {
        None | Some(Value::Null) => return is_zero(wanted),
        Some(live) => live,
    };
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted.iter().all(|(name, value)| {
            within(value, live.get(name), quantity || QUANTITIES.contains(&name.as_str()))
        }),
        (Value::Array(wanted), Value::Array(live)) => list_within(wanted, live),
        (Value::String(_) | Value::Number(_), Value::String(_) | Value::Number(_)) if quantity => {
            wanted == live || same_quantity(wanted, live)
        }
        (Value::Null, _) => true,
        _ => wanted == live,
    }
}

/// What the API server leaves out when it writes an object.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_zero),
    }
}

fn list_within(wanted: &[Value], live: &[Value]) -> bool {
    let key = KEYS.iter().find(|key| wanted.iter().all(|item| item.get(key).is_some()));
    match key {
        Some(key) if !wanted.is_empty() => wanted.iter().all(|item| {
            // Two ports may share a number, and differ by protocol: any match will do.
            live.iter().any(|other| other.get(key) == item.get(key) && within(item, Some(other), false))
        }),
        _ => {
            wanted.len() == live.len()
                && wanted.iter().zip(live).all(|(wanted, live)| within(wanted, Some(live), false))
        }
    }
}

fn same_quantity(wanted: &Value, live: &Value) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => quantity(text),
        Value::Number(number) => quantity(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    // Both sides went through the same few multiplications, so that a part in a thousand million is equal.
    amount(wanted)
        .zip(amount(live))
        .is_some_and(|(wanted, live)| (wanted - live).abs() <= wanted.abs().max(live.abs()) * 1e-9)
}

/// A quantity's amount: a number and a suffix of Kubernetes (`m`, `k`, `Mi`, ...), or an exponent.
fn quantity(text: &str) -> Option<f64> {
    const SUFFIXES: &[(&str, f64)] = &[
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let (number, factor) = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| text.strip_suffix(suffix).map(|number| (number, *factor)))
        .unwrap_or((text, 1.0));
    number.parse::<f64>().ok().map(|number| number * factor).filter(|amount| amount.is_finite())
}

#[cfg(test)]
mod tests;
