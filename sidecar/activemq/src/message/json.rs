//! Values of Java as JSON, in their order. Values nest as deep as the codec reads them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lockstep_openwire::{Map, Value};

/// A map as an object. Names that come twice stay so.
pub(super) fn of_map(map: &Map) -> String {
    let mut out = String::new();
    object(&mut out, map);
    out
}

/// Values as an array.
pub(super) fn of_list(list: &[Value]) -> String {
    let mut out = String::new();
    array(&mut out, list);
    out
}

fn object(out: &mut String, map: &Map) {
    out.push('{');
    for (index, (name, value)) in map.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        quoted(out, &name.decoded());
        out.push(':');
        push(out, value);
    }
    out.push('}');
}

fn array(out: &mut String, list: &[Value]) {
    out.push('[');
    for (index, value) in list.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push(out, value);
    }
    out.push(']');
}

fn push(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Byte(number) => out.push_str(&number.to_string()),
        Value::Char(unit) => quoted(out, &String::from_utf16_lossy(&[*unit])),
        Value::Short(number) => out.push_str(&number.to_string()),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Long(number) => out.push_str(&number.to_string()),
        Value::Double(number) if number.is_finite() => out.push_str(&number.to_string()),
        Value::Double(number) => quoted(out, &number.to_string()),
        Value::Float(number) if number.is_finite() => out.push_str(&number.to_string()),
        Value::Float(number) => quoted(out, &number.to_string()),
        Value::Text(text) => quoted(out, &text.decoded()),
        Value::Bytes(bytes) => quoted(out, &STANDARD.encode(bytes)),
        Value::Map(map) => object(out, map),
        Value::List(list) => array(out, list),
    }
}

fn quoted(out: &mut String, text: &str) {
    // A text is never refused.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}
