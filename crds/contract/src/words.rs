//! Wording of mistakes: values as found, examples, units and near names.

use serde_json::Value;

/// The longest part of a found value that is repeated in a mistake, in characters.
const SHOWN: usize = 60;

/// A value as found, shortened, and without the password of a URL.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("\"{}\"", shortened(text)),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(fields) => format!("a mapping of {}", fields.len()),
    }
}

/// A text as found: shortened, control characters escaped, and the user and password of a URL left out.
pub(crate) fn shortened(text: &str) -> String {
    let hidden = hide_password(text);
    let mut short: String = hidden.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if hidden.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}

fn hide_password(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => text.to_owned(),
    }
}

/// The unit that a field's name ends with, in words.
pub(crate) fn unit(path: &str) -> &'static str {
    if path.ends_with("Milliseconds") {
        " (milliseconds)"
    } else if path.ends_with("Seconds") {
        " (seconds)"
    } else {
        ""
    }
}

/// A text that is a number, perhaps with a unit behind it.
pub(crate) fn number_and_unit(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let is_unit = unit.len() <= 12 && unit.chars().all(|c| c.is_ascii_alphanumeric() || " .%µ".contains(c));
    (!number.is_empty() && is_unit).then(|| (number, unit.trim()))
}

/// An example of a field that has no default.
pub(crate) fn example(path: &str) -> &'static str {
    const EXAMPLES: [(&str, &str); 16] = [
        ("apiVersion", ": apiVersion: lockstep.dev/v1alpha1"),
        ("kind", ": kind: ConsumerGroup"),
        ("metadata", ": metadata: {name: orders}"),
        ("metadata.name", ": name: orders"),
        ("spec", ": spec: {source: {…}}"),
        ("source", ": source: {rocketmq: {…}}"),
        ("nameServers", ": nameServers: [\"namesrv:9876\"]"),
        ("consumerGroup", ": consumerGroup: shop-orders"),
        ("subscriptions", ": subscriptions: [{topic: orders}]"),
        ("topic", ": topic: orders"),
        ("urls", ": urls: [\"amqp://rabbit:5672\"], or for ActiveMQ [\"tcp://activemq:61616\"]"),
        ("queues", ": queues: [orders]"),
        ("url", ": url: http://rabbit:15672"),
        ("secretRefs", ": secretRefs: [{name: hook-keys, key: current}]"),
        ("key", ": key: current"),
        ("name", ": name: orders"),
    ];
    let last = path.rsplit('.').next().unwrap_or(path);
    let found = EXAMPLES.iter().find(|(name, _)| *name == path || *name == last);
    found.map_or("", |(_, example)| example)
}

/// The known name that was most likely meant: one that differs in few letters, or that begins with what was written.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A longer name is no slip of the pen, and its distances would cost time.
    if name.len() > 64 {
        return None;
    }
    let lower = name.to_lowercase();
    let allowed = (name.chars().count() / 3).clamp(1, 3);
    let rated = known.map(|candidate| {
        let other = candidate.to_lowercase();
        let related = lower.len() >= 4 && (other.starts_with(&lower) || lower.starts_with(&other));
        (if related { 1 } else { distance(&lower, &other) }, candidate)
    });
    rated.min().filter(|(distance, _)| *distance <= allowed).map(|(_, candidate)| candidate)
}

/// Insertions, removals and replacements of a letter between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut previous = i + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(&b) {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = *cell;
            previous = replaced.min(previous + 1).min(*cell + 1);
            *cell = previous;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
