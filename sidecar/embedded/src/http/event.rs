use axum::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;
use lockstep_model::{PropertiesBuilder, Text};
use serde::Deserialize;

use super::refusal::Refusal;
use crate::NewMessage;

/// The header that names the ordering key.
const KEY: &str = "lockstep-key";
/// Headers that become properties of the rest of their name.
const PROPERTY: &str = "lockstep-property-";
/// CloudEvents attributes in binary mode (HTTP protocol binding 3.1), kept as properties of the whole name.
const ATTRIBUTE: &str = "ce-";
/// The CloudEvents partitioning extension: the ordering key of an event.
const PARTITION_KEY: &str = "ce-partitionkey";
/// Attributes that CloudEvents 1.0 requires.
const REQUIRED: [&str; 3] = ["ce-id", "ce-source", "ce-type"];

/// What is read of an event in structured mode; the body is kept untouched.
#[derive(Debug, Deserialize)]
struct Structured {
    specversion: Option<String>,
    id: Option<String>,
    source: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    partitionkey: Option<String>,
}

/// The message that a request publishes.
pub(super) fn message(headers: &HeaderMap, body: Bytes) -> Result<NewMessage, Refusal> {
    let content_type = headers.get(header::CONTENT_TYPE).map(text).transpose()?;
    let mut properties = PropertiesBuilder::default();
    for (name, value) in headers {
        if name.as_str().starts_with(ATTRIBUTE) {
            properties.push(name.as_str().as_bytes(), &percent_decoded(value));
        } else if let Some(property) = name.as_str().strip_prefix(PROPERTY) {
            properties.push(property.as_bytes(), value.as_bytes());
        }
    }
    let event_key = match media_type(content_type.as_ref()).as_str() {
        "application/cloudevents+json" => structured_key(&body)?,
        "application/cloudevents-batch+json" => {
            return Err(Refusal::unsupported(
                "event batches are not supported; publish the events one by one",
            ));
        }
        other if other.starts_with("application/cloudevents") => {
            return Err(Refusal::unsupported("only the JSON format of CloudEvents is supported"));
        }
        _ => binary_key(headers)?,
    };
    let key = headers.get(KEY).map(text).transpose()?.or(event_key).filter(|key| !key.is_empty());
    Ok(NewMessage { key, content_type, subject: None, properties: properties.build(), body })
}

fn text(value: &HeaderValue) -> Result<Text, Refusal> {
    Text::from_utf8(Bytes::copy_from_slice(value.as_bytes()))
        .map_err(|_| Refusal::bad("a header is not UTF-8; encode Lockstep-Key and Content-Type as UTF-8"))
}

fn media_type(content_type: Option<&Text>) -> String {
    let whole = content_type.map(Text::as_str).unwrap_or_default();
    whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn binary_key(headers: &HeaderMap) -> Result<Option<Text>, Refusal> {
    if headers.contains_key("ce-specversion") {
        for name in REQUIRED {
            if headers.get(name).is_none_or(HeaderValue::is_empty) {
                return Err(Refusal::bad(format!("the event has no {name} header; CloudEvents requires it")));
            }
        }
    }
    let Some(key) = headers.get(PARTITION_KEY) else { return Ok(None) };
    Text::from_utf8(Bytes::from(percent_decoded(key)))
        .map(Some)
        .map_err(|_| Refusal::bad("ce-partitionkey is not UTF-8 after percent-decoding"))
}

fn structured_key(body: &[u8]) -> Result<Option<Text>, Refusal> {
    let event: Structured = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("the body is no CloudEvent in JSON: {error}")))?;
    let required = [
        ("specversion", &event.specversion),
        ("id", &event.id),
        ("source", &event.source),
        ("type", &event.kind),
    ];
    for (name, value) in required {
        if value.as_ref().is_none_or(String::is_empty) {
            return Err(Refusal::bad(format!("the event has no '{name}'; CloudEvents requires it")));
        }
    }
    Ok(event.partitionkey.map(Text::from))
}

/// A header's value decoded once, as the HTTP binding of CloudEvents asks; a lone percent sign stays.
fn percent_decoded(value: &HeaderValue) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = behind.first_chunk::<2>().filter(|_| *first == b'%');
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match byte {
            // from_str_radix takes a sign, which is no hex digit.
            Some(byte) if behind.first() != Some(&b'+') => {
                decoded.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            Some(_) | None => {
                decoded.push(*first);
                rest = behind;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_are_decoded_once() {
        let decoded = |value: &str| percent_decoded(&HeaderValue::from_str(value).unwrap());
        assert_eq!(decoded("a%20b%2520"), b"a b%20");
        assert_eq!(decoded("100%"), b"100%");
        assert_eq!(decoded("%+1%zz%4"), b"%+1%zz%4");
    }
}
