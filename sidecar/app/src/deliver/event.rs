//! CloudEvents 1.0: a message's attributes as headers or as a JSON document, and the way through for messages that
//! already are CloudEvents.

use std::io::Write as _;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use lockstep_model::Message;

use super::{
    escape, names,
    request::{Origin, Subject, Writer, number, padded},
    settings::Prepared,
    template::Field,
};

/// The content type of the JSON format.
pub(super) const STRUCTURED_TYPE: HeaderValue =
    HeaderValue::from_static("application/cloudevents+json; charset=utf-8");

/// JSON nested deeper stands in a document as base64: a parser's limit must not hide the attributes.
const JSON_DEPTH: usize = 100;

/// How the bindings mark an attribute in a property's name: RocketMQ, RabbitMQ and HTTP, AMQP 1.0 (two forms).
const PREFIXES: [&[u8]; 4] = [b"CE_", b"ce-", b"cloudEvents:", b"cloudEvents_"];

/// Padded so, positions of one source compare as text: as many digits as the largest position has.
const SEQUENCE_DIGITS: usize = 20;

/// Attribute names should have no more than 20 characters; more are let through up to here.
const NAME_BYTES: usize = 64;

/// The attribute that a property holds: its name is lower-case letters and digits, its value UTF-8.
pub(super) fn attribute<'a>(name: &'a [u8], value: &[u8]) -> Option<&'a str> {
    let name = PREFIXES.iter().find_map(|prefix| name.strip_prefix(*prefix))?;
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if name.is_empty()
        || name.len() > NAME_BYTES
        || !name.iter().all(plain)
        || std::str::from_utf8(value).is_err()
    {
        return None;
    }
    std::str::from_utf8(name).ok()
}

fn attributes(message: &Message) -> impl Iterator<Item = (&str, &str)> {
    message
        .properties
        .iter()
        .filter_map(|(name, value)| Some((attribute(name, value)?, std::str::from_utf8(value).ok()?)))
}

/// The content type is told by the `Content-Type` header and by no attribute header.
fn is_content_type(attribute: &str) -> bool {
    matches!(attribute, "contenttype" | "datacontenttype")
}

/// The content type that the producer named, whatever it is.
pub(super) fn named_type(message: &Message) -> Option<&str> {
    message
        .content_type
        .as_deref()
        .or_else(|| attributes(message).find(|(name, _)| is_content_type(name)).map(|(_, value)| value))
}

/// Whether the message already is a CloudEvent.
pub(super) fn origin(message: &Message, named_type: Option<&str>) -> Origin {
    let structured = b"application/cloudevents";
    let starts = |text: &str| {
        text.trim_start()
            .as_bytes()
            .get(..structured.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(structured))
    };
    if named_type.is_some_and(starts) {
        Origin::Structured
    } else if attributes(message).any(|(name, _)| name == "specversion") {
        Origin::Binary
    } else {
        Origin::Plain
    }
}

/// The attributes that the producer gave, as `ce-` headers; only required ones that are missing are added.
pub(super) fn passed_on(subject: &Subject<'_>, writer: &mut Writer) {
    let mut header = String::with_capacity(NAME_BYTES);
    for (name, value) in attributes(&subject.delivery.message).filter(|(name, _)| !is_content_type(name)) {
        header.clear();
        header.push_str(names::CE_PREFIX);
        header.push_str(name);
        writer.producer(header.as_bytes(), value.as_bytes());
    }
    let mut missing = |name: HeaderName, value: &[u8]| {
        if !writer.has(&name) {
            writer.put(name, |out| escape::value(out, value));
        }
    };
    missing(names::CE_SPECVERSION, b"1.0");
    missing(names::CE_TYPE, names::DEFAULT_TYPE.as_bytes());
    missing(names::CE_SOURCE, subject.queue.source.as_bytes());
    missing(names::CE_ID, &subject.id);
}

/// The attributes of a plain message as `ce-` headers, beside those that are constant.
pub(super) fn plain(subject: &Subject<'_>, writer: &mut Writer) {
    let message = &subject.delivery.message;
    writer.ready(Field::CeSource, subject.queue.source_header.clone());
    writer.field(Field::CeId, |out| escape::value(out, &subject.id));
    if let Some(text) = message.subject.as_deref().filter(|text| writer.fits(text.as_bytes())) {
        writer.field(Field::CeSubject, |out| escape::value(out, text.as_bytes()));
    }
    if let Some(key) = message.key.as_deref().filter(|key| writer.fits(key.as_bytes())) {
        writer.put(names::CE_PARTITIONKEY, |out| escape::value(out, key.as_bytes()));
    }
    if let Some(time) = born(message) {
        writer.field(Field::CeTime, |out| rfc3339(out, time));
    }
    if message.id_synthetic {
        writer.put(names::CE_IDSYNTHETIC, |out| out.extend_from_slice(b"true"));
    }
    writer.field(Field::CeSequence, |out| padded(out, subject.delivery.position.0, SEQUENCE_DIGITS));
    writer.number(Field::CeDeliveryAttempt, u64::from(subject.request.number));
}

fn born(message: &Message) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(message.born_ms?).ok()
}

/// As jiff displays it, at a fraction of the price.
pub(super) fn rfc3339(out: &mut Vec<u8>, time: jiff::Timestamp) {
    let date = jiff::tz::Offset::UTC.to_datetime(time);
    let millis = u64::try_from(date.subsec_nanosecond() / 1_000_000).unwrap_or_default();
    let parts = [
        (date.year(), 4, b"-"),
        (i16::from(date.month()), 2, b"-"),
        (i16::from(date.day()), 2, b"T"),
        (i16::from(date.hour()), 2, b":"),
        (i16::from(date.minute()), 2, b":"),
        (i16::from(date.second()), 2, if millis == 0 { b"Z" } else { b"." }),
    ];
    if date.year() < 0 {
        // Writing to a Vec can't fail.
        return drop(write!(out, "{time}"));
    }
    for (number, width, then) in parts {
        padded(out, u64::try_from(number).unwrap_or_default(), width);
        out.extend_from_slice(then);
    }
    if millis > 0 {
        padded(out, millis, 3);
        while out.last() == Some(&b'0') {
            out.pop();
        }
        out.push(b'Z');
    }
}

/// The CloudEvents JSON document of a message. The one place where a body is copied.
pub(super) fn structured(prepared: &Prepared, subject: &Subject<'_>, content_type: &HeaderValue) -> Bytes {
    let message = &subject.delivery.message;
    let body = &message.body;
    let content_type = content_type.to_str().unwrap_or_default();
    let as_json = is_json(content_type) && is_json_text(body);
    let room = if as_json { body.len() } else { body.len() / 3 * 4 + 4 };
    let mut json = Json { out: Vec::with_capacity(room + 1024) };
    json.out.push(b'{');
    let mut seen = Vec::new();
    if subject.origin == Origin::Binary {
        for (name, value) in attributes(message).filter(|(name, _)| !is_content_type(name)) {
            // The producer can't smuggle in a second body; a repeated attribute counts once.
            if !matches!(name, "data" | "database64") && !seen.contains(&name) {
                json.member(name, value);
                seen.push(name);
            }
        }
    } else {
        plain_members(prepared, subject, &mut json);
    }
    let id = String::from_utf8_lossy(&subject.id);
    let required = [
        ("specversion", "1.0"),
        ("type", names::DEFAULT_TYPE),
        ("source", subject.queue.source.as_str()),
        ("id", &*id),
    ];
    for (name, value) in required {
        if !seen.contains(&name) {
            json.member(name, value);
        }
    }
    json.member("datacontenttype", content_type);
    if as_json {
        json.name("data");
        json.out.extend_from_slice(body);
    } else if !body.is_empty() {
        json.name("data_base64");
        json.out.push(b'"');
        let start = json.out.len();
        json.out.resize(start + body.len().div_ceil(3) * 4, b'=');
        let written = json.out.get_mut(start..).map(|room| STANDARD.encode_slice(body, room));
        debug_assert!(matches!(written, Some(Ok(_))), "base64 of the body must fit the room made for it");
        json.out.push(b'"');
    }
    json.out.push(b'}');
    Bytes::from(json.out)
}

fn plain_members(prepared: &Prepared, subject: &Subject<'_>, json: &mut Json) {
    let message = &subject.delivery.message;
    if let Some(text) = message.subject.as_deref().filter(|text| !text.is_empty()) {
        json.member("subject", text);
    }
    if let Some(key) = message.key.as_deref().filter(|key| !key.is_empty()) {
        json.member("partitionkey", key);
    }
    if let Some(time) = born(message) {
        json.member("time", &time.to_string());
    }
    if message.id_synthetic {
        json.name("idsynthetic");
        json.out.extend_from_slice(b"true");
    }
    json.member("sequence", &format!("{:0SEQUENCE_DIGITS$}", subject.delivery.position.0));
    json.name("deliveryattempt");
    number(&mut json.out, u64::from(subject.request.number));
    json.member("consumergroup", &prepared.consumer_group);
}

/// `application/json`, `text/json` or any `+json` type, whatever its parameters.
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let ends = |suffix: &str| {
        let start = essence.len().saturating_sub(suffix.len());
        essence.as_bytes().get(start..).is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
    };
    ends("/json") || ends("+json")
}

/// Valid JSON in valid UTF-8 that can stand inside a JSON document as it is.
fn is_json_text(body: &[u8]) -> bool {
    let valid = |text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    std::str::from_utf8(body).is_ok_and(valid) && depth(body) <= JSON_DEPTH
}

/// How deep valid JSON is nested.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

struct Json {
    out: Vec<u8>,
}

impl Json {
    fn name(&mut self, name: &str) {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        self.string(name);
        self.out.push(b':');
    }

    fn member(&mut self, name: &str, value: &str) {
        self.name(name);
        self.string(value);
    }

    fn string(&mut self, text: &str) {
        // Writing a string to a Vec can't fail.
        let written = serde_json::to_writer(&mut self.out, text);
        debug_assert!(written.is_ok(), "a string must be writable as JSON");
    }
}
