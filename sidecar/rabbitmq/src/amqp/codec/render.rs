use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;

use super::table::{Nested, Step, TableError, Value, Walk};

/// A table or array as JSON.
pub(super) fn json(nested: Nested, most: usize) -> Result<String, TableError> {
    let mut out = String::new();
    // Whether something stands before the next value, at this level.
    let mut follows = false;
    for step in Walk::new(nested) {
        match step? {
            Step::Open { name, table } => {
                begin(&mut out, follows, name.as_ref());
                out.push(if table { '{' } else { '[' });
                follows = false;
            }
            Step::Scalar { name, value } => {
                begin(&mut out, follows, name.as_ref());
                // Longer than allowed whatever it becomes, so that it need not be made.
                if size(&value) > most {
                    return Err(TableError::Length(most));
                }
                scalar(&mut out, &value);
                follows = true;
            }
            Step::Close { table } => {
                out.push(if table { '}' } else { ']' });
                follows = true;
            }
        }
        if out.len() > most {
            return Err(TableError::Length(most));
        }
    }
    Ok(out)
}

/// A value that is neither table nor array as JSON.
pub(super) fn scalar_json(value: &Value, most: usize) -> Result<String, TableError> {
    let mut out = String::new();
    if size(value) <= most {
        scalar(&mut out, value);
    }
    if out.is_empty() || out.len() > most { Err(TableError::Length(most)) } else { Ok(out) }
}

fn begin(out: &mut String, follows: bool, name: Option<&Bytes>) {
    if follows {
        out.push(',');
    }
    if let Some(name) = name {
        text(out, name);
        out.push(':');
    }
}

/// The least that a value's text takes.
fn size(value: &Value) -> usize {
    if let Value::Text(bytes) | Value::Binary(bytes) = value { bytes.len() } else { 0 }
}

fn scalar(out: &mut String, value: &Value) {
    match value {
        Value::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Uint(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&serde_json::Value::from(*number).to_string()),
        Value::Decimal { scale, digits } => decimal(out, *scale, *digits),
        Value::Text(bytes) => text(out, bytes),
        Value::Binary(bytes) => {
            out.push('"');
            STANDARD.encode_string(bytes, out);
            out.push('"');
        }
        Value::Timestamp(seconds) => out.push_str(&seconds.to_string()),
        Value::Void | Value::Table(_) | Value::Array(_) => out.push_str("null"),
    }
}

fn decimal(out: &mut String, scale: u8, digits: u32) {
    let scale = usize::from(scale);
    // At least one digit stays before the point.
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, part) = digits.split_at(digits.len() - scale);
    out.push_str(whole);
    if !part.is_empty() {
        out.push('.');
        out.push_str(part);
    }
}

fn text(out: &mut String, bytes: &[u8]) {
    out.push_str(&serde_json::Value::from(String::from_utf8_lossy(bytes)).to_string());
}
