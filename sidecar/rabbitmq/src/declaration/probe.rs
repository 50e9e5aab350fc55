//! Learning a queue's arguments by declaring it: the broker says which one differs, one at a time.

use std::collections::BTreeMap;

use super::{DELAYED_RETRY, DELAYED_RETRY_OFF, Declaration, Kind, MAX_PRIORITY};

/// How many arguments may be learnt: more than any kind of queue has that a person would give.
const MOST: u32 = 12;

/// An argument's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Bool(bool),
    Int(i64),
    Text(String),
}

/// What is believed of a queue. To be declared until the broker agrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probe {
    durable: bool,
    arguments: BTreeMap<String, Value>,
    left: u32,
}

/// What came of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Learned {
    /// Declare again.
    Something,
    /// It says nothing that helps, or there was no end of it.
    Nothing,
}

impl Probe {
    /// Believes in what an ordered queue should be.
    pub(crate) fn new() -> Self {
        let arguments = [
            ("x-queue-type".to_owned(), Value::Text("quorum".to_owned())),
            ("x-single-active-consumer".to_owned(), Value::Bool(true)),
        ];
        Self { durable: true, arguments: arguments.into(), left: MOST }
    }

    pub(crate) fn durable(&self) -> bool {
        self.durable
    }

    /// The arguments to declare with.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.arguments.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Learns from a refusal's words (406).
    pub(crate) fn learn(&mut self, words: &str) -> Learned {
        if self.left == 0 {
            return Learned::Nothing;
        }
        self.left -= 1;
        let Some(Difference { name, current }) = difference(words) else { return Learned::Nothing };
        let believed = self.arguments.get(name);
        let flag = |current: Current<'_>| match current {
            Current::Plain(text) => text.parse::<bool>().ok(),
            Current::None | Current::Typed(..) => None,
        };
        match (name, flag(current)) {
            ("durable", Some(value)) if value != self.durable => self.durable = value,
            // Declared by us it would be another queue.
            ("durable" | "auto_delete" | "exclusive", _) => return Learned::Nothing,
            (name, _) => {
                let value = current.value(believed);
                // Told what was believed, it would be told for ever; and what can't be read can't be declared.
                if believed == value.as_ref() || (value.is_none() && current != Current::None) {
                    return Learned::Nothing;
                }
                match value {
                    Some(value) => drop(self.arguments.insert(name.to_owned(), value)),
                    None => drop(self.arguments.remove(name)),
                }
            }
        }
        Learned::Something
    }

    /// What the broker has agreed to.
    pub(crate) fn agreed(&self) -> Declaration {
        let text = |name| match self.arguments.get(name) {
            Some(Value::Text(text)) => Some(text.as_str()),
            Some(Value::Bool(_) | Value::Int(_)) | None => None,
        };
        let limit = match self.arguments.get("x-delivery-limit") {
            Some(Value::Int(limit)) => Some(*limit),
            Some(Value::Bool(_) | Value::Text(_)) | None => None,
        };
        Declaration {
            kind: text("x-queue-type").map_or(Kind::Classic, Kind::of),
            single_active: self.arguments.get("x-single-active-consumer") == Some(&Value::Bool(true)),
            limit,
            dead_letter_exchange: self.arguments.contains_key("x-dead-letter-exchange"),
            overtaking: self.arguments.contains_key(MAX_PRIORITY).then_some(MAX_PRIORITY).or_else(|| {
                text(DELAYED_RETRY.0).filter(|kind| *kind != DELAYED_RETRY_OFF).map(|_| DELAYED_RETRY.0)
            }),
            with_policies: false,
        }
    }
}

/// What a refusal says.
#[derive(Debug, PartialEq, Eq)]
struct Difference<'a> {
    name: &'a str,
    current: Current<'a>,
}

/// What the queue has, in the broker's ways to write it: `none`, `the value 'v' of type 't'` where we gave none, and
/// `'v'` where we gave another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Current<'a> {
    None,
    Typed(&'a str, &'a str),
    Plain(&'a str),
}

impl Current<'_> {
    /// The value, typed as the believed one where the broker does not name the type; `None` when it has none or can't be read.
    fn value(self, believed: Option<&Value>) -> Option<Value> {
        let int = |text: &str| text.parse().ok().map(Value::Int);
        let bool = |text: &str| text.parse().ok().map(Value::Bool);
        match (self, believed) {
            // Names of types as in Erlang's client (amqp_field_type).
            (Self::Typed(text, "longstr" | "binary"), _) | (Self::Plain(text), Some(Value::Text(_))) => {
                Some(Value::Text(text.to_owned()))
            }
            (
                Self::Typed(
                    text,
                    "signedint" | "long" | "short" | "byte" | "unsignedbyte" | "unsignedshort"
                    | "unsignedint",
                ),
                _,
            )
            | (Self::Plain(text), Some(Value::Int(_))) => int(text),
            (Self::Typed(text, "bool"), _) | (Self::Plain(text), Some(Value::Bool(_))) => bool(text),
            (Self::None | Self::Typed(..), _) | (Self::Plain(_), None) => None,
        }
    }
}

/// Reads `PRECONDITION_FAILED - inequivalent arg 'x' for queue 'q' in vhost '/': received … but current is …`. Brokers
/// cut it off at 255 bytes; then it says nothing.
fn difference(words: &str) -> Option<Difference<'_>> {
    let (_, rest) = words.split_once("inequivalent arg '")?;
    let (name, rest) = rest.split_once("' for ")?;
    let (_, current) = rest.rsplit_once(" but current is ")?;
    let current = current.trim_end();
    let current = if current == "none" {
        Current::None
    } else if let Some(typed) = current.strip_prefix("the value '") {
        let (value, kind) = typed.rsplit_once("' of type '")?;
        Current::Typed(value, kind.strip_suffix('\'')?)
    } else {
        Current::Plain(current.strip_prefix('\'')?.strip_suffix('\'')?)
    };
    Some(Difference { name, current })
}
