//! From text to a JSON value, with every duplicate key found and everything bounded.

use std::{cell::RefCell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::{Rule, mistake::Collector, words::shortened};

/// The largest manifest in bytes: what etcd takes at most.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;
/// How deep a manifest may nest. A pod template needs about fifteen.
const MAX_DEPTH: usize = 64;
/// How many values a manifest may hold with its aliases expanded. Ten times what fits into a large pod template.
const MAX_NODES: usize = 100_000;

/// Reads the one document of `text`. With mistakes among `out`, the value holds what could still be read.
pub(crate) fn read(text: &str, out: &mut Collector) -> Option<Value> {
    if text.len() > MAX_BYTES {
        out.add(
            Rule::Size,
            "",
            format!("is {} bytes long", text.len()),
            format!("keep it below {MAX_BYTES} bytes"),
        );
        return None;
    }
    if flow_depth(text) > MAX_DEPTH {
        too_nested(out);
        return None;
    }
    let state = RefCell::new(State::default());
    let mut value = None;
    for document in serde_yaml::Deserializer::from_str(text) {
        if value.is_some() {
            out.add(
                Rule::OneDocument,
                "",
                "holds several documents",
                "give one document in one file, without `---` between",
            );
            return None;
        }
        let seed = Node { state: &state, depth: 0, path: String::new() };
        match seed.deserialize(document) {
            Ok(read) => value = Some(read),
            Err(_) if state.borrow().overrun => {
                too_nested(out);
                return None;
            }
            Err(error) => {
                syntax(&error, out);
                return None;
            }
        }
    }
    out.mistakes.append(&mut state.borrow_mut().mistakes.mistakes);
    match value {
        None | Some(Value::Null) => {
            out.add(
                Rule::Empty,
                "",
                "is empty",
                "give a ConsumerGroup; begin with `apiVersion: lockstep.dev/v1alpha1`",
            );
            None
        }
        Some(value) => Some(value),
    }
}

fn too_nested(out: &mut Collector) {
    out.add(
        Rule::Nesting,
        "",
        format!("nests deeper than {MAX_DEPTH} levels or holds more than {MAX_NODES} values"),
        "remove the nesting, or write out the aliases",
    );
}

fn syntax(error: &serde_yaml::Error, out: &mut Collector) {
    let text = error.to_string();
    if text.contains("recursion limit") || text.contains("repetition limit") {
        return too_nested(out);
    }
    out.add(
        Rule::Syntax,
        "",
        format!("is not YAML: {text}"),
        "correct the text there; look for indentation, quotes and tabs",
    );
}

/// An upper bound of how many flow collections are open at once. The scanner below spends quadratic time on deep
/// ones, so they are refused before; brackets in quotes count too, which no manifest has in such numbers.
fn flow_depth(text: &str) -> usize {
    let mut open = 0_usize;
    let mut most = 0;
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

#[derive(Debug, Default)]
struct State {
    nodes: usize,
    overrun: bool,
    mistakes: Collector,
}

/// Reads one value at `path`.
struct Node<'a> {
    state: &'a RefCell<State>,
    depth: usize,
    path: String,
}

impl Node<'_> {
    fn count<E: serde::de::Error>(&self) -> Result<(), E> {
        let mut state = self.state.borrow_mut();
        state.nodes += 1;
        if state.nodes > MAX_NODES || self.depth > MAX_DEPTH {
            state.overrun = true;
            return Err(E::custom("too many values"));
        }
        Ok(())
    }

    fn child(&self, path: String) -> Self {
        Node { state: self.state, depth: self.depth + 1, path }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // JSON has no infinity and no NaN; as a text they are refused wherever a number is wanted.
        Ok(Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) =
            items.next_element_seed(self.child(format!("{}[{}]", self.path, list.len())))?
        {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key_seed(self.child(self.path.clone()))? {
            let Value::String(key) = key else {
                let mut state = self.state.borrow_mut();
                let problem = format!("has the key {key}, which is not a text");
                state.mistakes.add(Rule::TextKey, &self.path, problem, "write the key in quotes");
                drop(state);
                entries.next_value_seed(self.child(self.path.clone()))?;
                continue;
            };
            let path = join(&self.path, &key);
            let value = entries.next_value_seed(self.child(path.clone()))?;
            if map.contains_key(&key) {
                let mut state = self.state.borrow_mut();
                state.mistakes.add(
                    Rule::DuplicateKey,
                    &path,
                    "stands twice in its mapping",
                    "keep one of them",
                );
            } else {
                map.insert(key, value);
            }
        }
        Ok(Value::Object(map))
    }

    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, _: A) -> Result<Value, A::Error> {
        Err(A::Error::custom("a tag such as `!name` is not supported"))
    }
}

/// The path of a field. A name is shortened, so that paths stay short whatever a manifest holds.
pub(crate) fn join(path: &str, name: &str) -> String {
    let name = shortened(name);
    if path.is_empty() { name } else { format!("{path}.{name}") }
}
