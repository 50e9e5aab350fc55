//! From a manifest's text to the typed group.

use std::time::Duration;

use serde_json::Value;

use crate::{
    ConsumerGroup, Mistakes, OrderingMode, Rule, Warning, WhenExhausted, defaults,
    mistake::{Collector, Mistake},
    rules, schema, yaml,
};

/// How unknown fields are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// As mistakes: for people.
    Strict,
    /// As warnings: in a pod, where operator and sidecar may differ by one version.
    Tolerant,
}

/// A valid manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The group, with every default resolved.
    pub group: ConsumerGroup,
    /// What was passed over.
    pub warnings: Vec<Warning>,
}

/// Reads a manifest.
///
/// # Errors
///
/// Every mistake at once. A caller that ends because of them does so with [`crate::EX_USAGE`].
pub fn parse(text: &str, strictness: Strictness) -> Result<Parsed, Mistakes> {
    let mut out = Collector::default();
    let value = yaml::read(text, &mut out);
    finish(value, strictness, out)
}

/// Reads the two mounted files of a pod, of which the hot one's fields win. Unknown fields are tolerated.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_mounted(cold: &str, hot: &str) -> Result<Parsed, Mistakes> {
    let mut out = Collector::default();
    let cold = yaml::read(cold, &mut out);
    let hot = yaml::read(hot, &mut out);
    let merged = cold.zip(hot).map(|(mut cold, hot)| {
        merge(&mut cold, hot);
        cold
    });
    finish(merged, Strictness::Tolerant, out)
}

/// Lays `over` over `base`, mapping by mapping.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Removes fields with nothing behind them, which are absent.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let given = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(given.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn finish(value: Option<Value>, strictness: Strictness, mut out: Collector) -> Result<Parsed, Mistakes> {
    let mut warnings = Vec::new();
    let mut group = None;
    if let Some(value) = value {
        if rules::is_another_resource(&value, &mut out) {
            return Err(Mistakes::sorted(out.mistakes));
        }
        schema::check(&value, &mut out);
        rules::check(&value, &mut out);
        if strictness == Strictness::Tolerant {
            let passed =
                |mistake: &mut Mistake| matches!(mistake.rule, Rule::UnknownField | Rule::DrainTimeout);
            warnings.extend(out.mistakes.extract_if(.., passed).map(Warning));
        }
        if out.mistakes.is_empty() {
            match serde_json::from_value::<ConsumerGroup>(without_nulls(value)) {
                Ok(read) => group = Some(read),
                Err(error) => out.add(Rule::Type, "", error.to_string(), "correct that value"),
            }
        }
    }
    match group {
        Some(mut group) if out.mistakes.is_empty() => {
            group.resolve();
            Ok(Parsed { group, warnings })
        }
        _ => Err(Mistakes::sorted(out.mistakes)),
    }
}

impl ConsumerGroup {
    /// What happens to a message whose tries are used up: as given, else by how much order is kept.
    pub fn when_exhausted(&self) -> WhenExhausted {
        self.spec.retry.when_exhausted.unwrap_or(match self.spec.ordering.mode {
            // Nothing waits behind such a message, so giving it up breaks no order.
            OrderingMode::Unordered => WhenExhausted::DeadLetter,
            // Going on without it would break the order that was asked for.
            OrderingMode::PerKey | OrderingMode::PerQueue => WhenExhausted::Block,
        })
    }

    /// How long a drain may take: as given, else the longest attempt and a reserve. A pod's own bound
    /// ([`crate::names::env::DRAIN_SECONDS`]) is not looked at.
    pub fn drain_timeout(&self) -> Duration {
        self.spec.drain.timeout.unwrap_or(self.spec.delivery.timeout + defaults::DRAIN_RESERVE)
    }

    /// The manifest with every default written out, as YAML. Fields of the operator alone are left out.
    pub fn to_yaml(&self) -> String {
        let mut group = self.clone();
        group.resolve();
        group.spec.drain.timeout = Some(group.drain_timeout());
        serde_yaml::to_string(&group).unwrap_or_default()
    }

    /// Writes the defaults out that depend on other fields of the same heat. The drain's is none of them: it is cold and
    /// its default follows a hot field.
    pub(crate) fn resolve(&mut self) {
        self.spec.retry.when_exhausted = Some(self.when_exhausted());
    }
}
