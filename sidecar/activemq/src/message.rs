//! Messages of ActiveMQ as deliveries.

mod json;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use lockstep_model::{
    Delivery, Identity, KeyHash, Message, Position, Properties, PropertiesBuilder, QueueId, Text, Undecodable,
};
use lockstep_openwire::{
    Body, Destination, Fields, INFLATED_MOST, Map, Message as Stored, Text as WireText, Value, body,
};

use crate::{
    client::{Dispatch, Undecodable as Unread},
    config::KeySource,
};

/// A message group, as JMS names it.
const GROUP: &[u8] = b"JMSXGroupID";
/// Properties that name the content's type: as STOMP's, Java's and HTTP's users write it, and as the connectors for AMQP do.
const CONTENT_TYPES: [&[u8]; 4] = [b"content-type", b"contentType", b"Content-Type", b"JMS_AMQP_ContentType"];

const TEXT: Text = Text::from_static("text/plain; charset=utf-8");
const JSON: Text = Text::from_static("application/json");
const JAVA: Text = Text::from_static("application/x-java-serialized-object");

/// What a message is read against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) queue: QueueId,
    pub(crate) key: &'a KeySource,
    /// Bytes that a compressed content may become.
    pub(crate) most: usize,
}

/// What came, as a delivery. A message that can't be read is one too, in its place: what there is of it and what is wrong.
pub(crate) fn delivery(context: Context<'_>, position: Position, dispatch: Dispatch) -> Delivery {
    let id = Text::from(dispatch.id.to_string());
    let mut delivery = Delivery {
        queue: context.queue,
        position,
        identity: Identity::Unique(Bytes::copy_from_slice(id.as_bytes())),
        key: None,
        redeliveries: dispatch.redeliveries,
        message: Message { id, ..Message::default() },
        undecodable: None,
    };
    let stored = match dispatch.message {
        Ok(stored) => stored,
        Err(unread) => {
            delivery.undecodable = Some(Undecodable { raw: Bytes::new(), reason: why(&unread) });
            return delivery;
        }
    };
    let fields = &stored.fields;
    let message = &mut delivery.message;
    message.subject = fields.subject.as_ref().and_then(text);
    message.born_ms = Some(fields.timestamp).filter(|at| *at > 0);
    message.stored_ms = Some(fields.stored).filter(|at| *at > 0);
    let read = stored.properties().and_then(|map| {
        let most = context.most.min(INFLATED_MOST);
        Ok((map, body(&stored, most)?))
    });
    let (map, body) = match read {
        Ok((map, body)) => (map, Some(body)),
        Err(error) => {
            let raw = fields.content.clone().unwrap_or_default();
            delivery.undecodable = Some(Undecodable { raw, reason: Arc::from(error.to_string()) });
            (Map::new(), None)
        }
    };
    message.properties = properties(&stored, &map);
    if let Some(body) = body {
        let (content, kind) = content(body);
        message.body = content;
        // What is written as JSON here is JSON, whatever its producer says of it.
        let named = || named_type(&message.properties);
        message.content_type = if kind == Some(JSON) { kind } else { named().or(kind) };
    }
    let name = match context.key {
        KeySource::Native => GROUP,
        KeySource::Property(name) => name.as_bytes(),
    };
    if let Some(key) = message.properties.get_bytes(name).filter(|key| !key.is_empty()) {
        delivery.key = Some(KeyHash::of(&key));
        message.key = Text::from_utf8(key).ok();
    }
    delivery
}

/// Why there is no more of a message than its id.
fn why(unread: &Unread) -> Arc<str> {
    match unread {
        Unread::Oversize { size } => {
            Arc::from(format!("with {size} bytes it is larger than any that is read"))
        }
        Unread::Malformed { reason } => Arc::clone(reason),
    }
}

/// The content's bytes, and their type where the kind of message says it.
fn content(body: Body) -> (Bytes, Option<Text>) {
    match body {
        Body::None => (Bytes::new(), None),
        Body::Text(text) => (text.utf8(), Some(TEXT)),
        Body::Bytes(bytes) => (bytes, None),
        Body::Map(map) => (Bytes::from(json::of_map(&map)), Some(JSON)),
        Body::Stream(values) => (Bytes::from(json::of_list(&values)), Some(JSON)),
        Body::Object(bytes) => (bytes, Some(JAVA)),
        Body::Blob(blob) => {
            let value = |text: Option<WireText>| text.map_or(Value::Null, Value::Text);
            let map = vec![
                (WireText::from("url"), value(blob.url)),
                (WireText::from("mime"), value(blob.media_type)),
            ];
            (Bytes::from(json::of_map(&map)), Some(JSON))
        }
    }
}

fn named_type(properties: &Properties) -> Option<Text> {
    let named = CONTENT_TYPES.iter().find_map(|name| properties.get_bytes(name));
    named.filter(|kind| !kind.is_empty()).and_then(|kind| Text::from_utf8(kind).ok())
}

/// What JMS says of the message under its names, then the producer's own properties.
fn properties(stored: &Stored, map: &Map) -> Properties {
    let mut builder = PropertiesBuilder::default();
    headers(&stored.fields, &mut builder);
    for (name, value) in map {
        builder.push(&name.utf8(), &shown(value));
    }
    builder.build()
}

fn headers(fields: &Fields, builder: &mut PropertiesBuilder) {
    let mut destination = |name: &[u8], destination: &Option<Destination>| {
        if let Some(destination) = destination {
            builder.push(name, destination.to_string().as_bytes());
        }
    };
    destination(b"JMSDestination", &fields.destination);
    destination(b"JMSReplyTo", &fields.reply_to);
    destination(b"originalDestination", &fields.original_destination);
    let mut text = |name: &[u8], text: &Option<WireText>| {
        if let Some(text) = text {
            builder.push(name, &text.utf8());
        }
    };
    text(b"JMSCorrelationID", &fields.correlation);
    text(b"JMSXUserID", &fields.user);
    text(GROUP, &fields.group);
    if fields.group.is_some() {
        builder.push(b"JMSXGroupSeq", fields.group_sequence.to_string().as_bytes());
    }
    if fields.first_of_group {
        builder.push(b"JMSXGroupFirstForConsumer", b"true");
    }
    builder.push(b"JMSPriority", fields.priority.to_string().as_bytes());
    let mode: &[u8] = if fields.persistent { b"PERSISTENT" } else { b"NON_PERSISTENT" };
    builder.push(b"JMSDeliveryMode", mode);
    if fields.expiration > 0 {
        builder.push(b"JMSExpiration", fields.expiration.to_string().as_bytes());
    }
}

/// A property's value as bytes: texts and bytes as they are, numbers in decimals, maps and lists as JSON.
fn shown(value: &Value) -> Bytes {
    match value {
        Value::Null => Bytes::new(),
        Value::Bool(value) => Bytes::from_static(if *value { b"true" } else { b"false" }),
        Value::Byte(number) => Bytes::from(number.to_string()),
        Value::Char(unit) => Bytes::from(String::from_utf16_lossy(&[*unit])),
        Value::Short(number) => Bytes::from(number.to_string()),
        Value::Int(number) => Bytes::from(number.to_string()),
        Value::Long(number) => Bytes::from(number.to_string()),
        Value::Double(number) => Bytes::from(number.to_string()),
        Value::Float(number) => Bytes::from(number.to_string()),
        Value::Text(text) => text.utf8(),
        Value::Bytes(bytes) => bytes.clone(),
        Value::Map(map) => Bytes::from(json::of_map(map)),
        Value::List(list) => Bytes::from(json::of_list(list)),
    }
}

fn text(text: &WireText) -> Option<Text> {
    Text::from_utf8(text.utf8()).ok()
}
