//! Messages of AMQP as deliveries.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use lockstep_model::{
    Delivery, Epoch, Identity, KeyHash, Message, Position, PropertiesBuilder, QueueId, QueueName, Text,
    Undecodable,
};

use crate::{
    amqp::{BodyState, Field, RawDelivery, RawProperties, Table, TableError, Value},
    config::KeySource,
};

/// Counts how often a quorum queue handed the message over before (from 4.3 on: how often that failed).
const DELIVERY_COUNT: &[u8] = b"x-delivery-count";
/// A CloudEvent's id, as its bindings write it.
const EVENT_IDS: [&[u8]; 3] = [b"cloudEvents_id", b"cloudEvents:id", b"ce-id"];
/// Nested headers are shown as JSON of at most so many bytes: more fits into no request.
const JSON_MOST: usize = 16 * 1024;

/// Properties of AMQP that stand among the message's own, under names that no header has by accident.
const SHOWN: [(Field, &[u8]); 7] = [
    (Field::ContentEncoding, b"amqp-content-encoding"),
    (Field::CorrelationId, b"amqp-correlation-id"),
    (Field::ReplyTo, b"amqp-reply-to"),
    (Field::Expiration, b"amqp-expiration"),
    (Field::Type, b"amqp-type"),
    (Field::UserId, b"amqp-user-id"),
    (Field::AppId, b"amqp-app-id"),
];

/// What a message is read against.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) queue: QueueId,
    pub(crate) name: &'a QueueName,
    pub(crate) epoch: Epoch,
    pub(crate) key: &'a KeySource,
}

/// What came, as a delivery. A message whose properties can't be read is one too, in its place: its body and what is wrong.
pub(crate) fn delivery(context: &Context<'_>, raw: RawDelivery) -> Delivery {
    let position = Position(raw.tag.get());
    let (body, too_large) = match raw.body {
        BodyState::Whole(body) => (body, None),
        BodyState::Stub { size } => (Bytes::new(), Some(size)),
    };
    let mut message = Message { subject: text(raw.routing_key.clone()), ..Message::default() };
    let mut delivery = Delivery {
        queue: context.queue,
        position,
        identity: Identity::None,
        key: None,
        redeliveries: u32::from(raw.redelivered),
        message: Message::default(),
        undecodable: None,
    };
    let read = match (&raw.properties, too_large) {
        (_, Some(size)) => Err(format!("with {size} bytes it is larger than any that is kept")),
        (Err(bad), None) => Err(bad.defect.to_string()),
        (Ok(properties), None) => headers(properties).map_err(|error| error.to_string()),
    };
    if let Ok(properties) = &raw.properties {
        of_properties(properties, &mut message, &mut delivery);
    }
    match read {
        Ok(headers) => {
            let mut builder = PropertiesBuilder::default();
            if let Some(headers) = &headers {
                of_headers(context, headers, &mut message, &mut delivery, &mut builder);
            }
            show(raw.properties.as_ref().ok(), &raw.exchange, &mut builder);
            message.properties = builder.build();
            message.body = body;
        }
        Err(reason) => delivery.undecodable = Some(Undecodable { raw: body, reason: Arc::from(reason) }),
    }
    if *context.key == KeySource::RoutingKey && !raw.routing_key.is_empty() {
        delivery.key = Some(KeyHash::of(&raw.routing_key));
        message.key = message.subject.clone();
    }
    if message.id.is_empty() {
        message.id = Text::from(format!("{}-{}-{position}", context.name, context.epoch));
        message.id_synthetic = true;
    }
    delivery.message = message;
    delivery
}

/// The headers, once they were looked through.
fn headers(properties: &RawProperties) -> Result<Option<Table>, TableError> {
    let headers = properties.headers();
    headers.as_ref().map_or(Ok(()), Table::check)?;
    Ok(headers)
}

fn of_properties(properties: &RawProperties, message: &mut Message, delivery: &mut Delivery) {
    if let Some(id) = properties.message_id().filter(|id| !id.is_empty()).and_then(text) {
        delivery.identity = Identity::Unique(Bytes::copy_from_slice(id.as_bytes()));
        message.id = id;
    }
    message.content_type = properties.content_type().filter(|kind| !kind.is_empty()).and_then(text);
    message.born_ms = properties
        .timestamp()
        .and_then(|seconds| i64::try_from(seconds).ok())
        .and_then(|seconds| seconds.checked_mul(1000));
}

/// What the headers say of the message, and they themselves, in one pass.
fn of_headers(
    context: &Context<'_>,
    headers: &Table,
    message: &mut Message,
    delivery: &mut Delivery,
    builder: &mut PropertiesBuilder,
) {
    for (name, value) in headers.entries().map_while(Result::ok) {
        let shown = rendered(&value);
        builder.push(&name, &shown);
        if name == DELIVERY_COUNT {
            let count = value.as_int().map_or(0, |count| u32::try_from(count.max(0)).unwrap_or(u32::MAX));
            delivery.redeliveries = delivery.redeliveries.max(count);
        } else if message.id.is_empty() && EVENT_IDS.contains(&&*name) {
            message.id = value.as_text().cloned().and_then(text).unwrap_or_default();
        }
        if let KeySource::Header(wanted) = context.key
            && *wanted.as_bytes() == *name
            && delivery.key.is_none()
        {
            delivery.key = (!shown.is_empty()).then(|| KeyHash::of(&shown));
            message.key = text(shown).filter(|key| !key.is_empty());
        }
    }
}

/// Properties of AMQP that stand among the message's own.
fn show(properties: Option<&RawProperties>, exchange: &[u8], builder: &mut PropertiesBuilder) {
    for (field, content) in properties.into_iter().flat_map(RawProperties::iter) {
        if field == Field::Priority {
            let priority = content.first().copied().unwrap_or_default();
            builder.push(b"amqp-priority", priority.to_string().as_bytes());
        } else if let Some((_, name)) = SHOWN.iter().find(|(shown, _)| *shown == field) {
            builder.push(name, &content);
        }
    }
    if !exchange.is_empty() {
        builder.push(b"amqp-exchange", exchange);
    }
}

/// A header's value as bytes: texts and binaries as they are, numbers in decimals, tables and arrays as JSON.
fn rendered(value: &Value) -> Bytes {
    match value {
        Value::Text(bytes) | Value::Binary(bytes) => bytes.clone(),
        Value::Bool(value) => Bytes::from_static(if *value { b"true" } else { b"false" }),
        Value::Int(number) => Bytes::from(number.to_string()),
        Value::Uint(number) => Bytes::from(number.to_string()),
        Value::Timestamp(seconds) => Bytes::from(seconds.to_string()),
        Value::Float(number) => Bytes::from(number.to_string()),
        Value::Void => Bytes::new(),
        Value::Decimal { .. } => value.json(JSON_MOST).map(Bytes::from).unwrap_or_default(),
        // As it came it is as long, so that it counts as dropped where it does not fit.
        Value::Table(table) => table.json(JSON_MOST).map_or_else(|_| table.raw().clone(), Bytes::from),
        Value::Array(array) => value.json(JSON_MOST).map_or_else(|_| array.raw().clone(), Bytes::from),
    }
}

fn text(bytes: Bytes) -> Option<Text> {
    Text::from_utf8(bytes).ok()
}
