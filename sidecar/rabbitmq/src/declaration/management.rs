//! What the management API says of a queue.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{DELAYED_RETRY, DELAYED_RETRY_OFF, Declaration, Kind, MAX_PRIORITY};

#[derive(Deserialize)]
struct Queue {
    /// Absent before 3.8, where every queue was classic.
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    arguments: Table,
    /// What policies set, the operator's among them.
    #[serde(default)]
    effective_policy_definition: Table,
}

/// Erlang's JSON writers show an empty table as an empty list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Table {
    Full(Map<String, Value>),
    Empty([(); 0]),
}

impl Default for Table {
    fn default() -> Self {
        Self::Empty([])
    }
}

impl Table {
    fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Full(map) => map.get(name),
            Self::Empty(_) => None,
        }
    }
}

/// Reads the answer to `GET /api/queues/{vhost}/{queue}`. `None` when it is none.
pub(crate) fn of_json(body: &[u8]) -> Option<Declaration> {
    let queue: Queue = serde_json::from_slice(body).ok()?;
    let argument = |name: &str| queue.arguments.get(name);
    let policy = |name: &str| queue.effective_policy_definition.get(name);
    let limits = [argument("x-delivery-limit"), policy("delivery-limit")];
    let limit = match limits.map(|limit| limit.and_then(Value::as_i64)) {
        // As the broker resolves the two: the lower one, and one that is a limit before one that is none.
        [Some(a), Some(b)] if a < 0 || b < 0 => Some(a.max(b)),
        [Some(a), Some(b)] => Some(a.min(b)),
        [one, None] | [None, one] => one,
    };
    let delays = argument(DELAYED_RETRY.0).or_else(|| policy(DELAYED_RETRY.1)).and_then(Value::as_str);
    let named = argument("x-queue-type").and_then(Value::as_str);
    Some(Declaration {
        kind: queue.kind.as_deref().or(named).map_or(Kind::Classic, Kind::of),
        single_active: argument("x-single-active-consumer").and_then(Value::as_bool).unwrap_or(false),
        limit,
        dead_letter_exchange: argument("x-dead-letter-exchange")
            .or_else(|| policy("dead-letter-exchange"))
            .is_some(),
        overtaking: argument(MAX_PRIORITY)
            .map(|_| MAX_PRIORITY)
            .or_else(|| delays.filter(|kind| *kind != DELAYED_RETRY_OFF).map(|_| DELAYED_RETRY.0)),
        with_policies: true,
    })
}
