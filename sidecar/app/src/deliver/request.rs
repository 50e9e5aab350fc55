//! From a delivery to a request: headers in one pass, the body as it lies in the receive buffer.

use std::{borrow::Cow, io::Write as _, ops::Range, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use lockstep_contract::Format;
use lockstep_model::{Delivery, Identity};
use sha2::{Digest as _, Sha256};

use super::{
    AttemptRequest, escape, event, names,
    settings::{Prepared, QueueParts},
    signing,
    template::{Field, Template, Values, header_value},
};

/// Property headers together: names, values and four bytes each for colon, space and line end.
const PROPERTY_BYTES: usize = 6 * 1024;

/// Property headers at most.
const PROPERTY_COUNT: usize = 64;

/// A longer id is replaced by its SHA-256, so that three headers with it stay small.
const ID_BYTES: usize = 256;

/// A subject, key or content type longer than this is left out and counted as dropped.
pub(super) const ATTRIBUTE_BYTES: usize = 1024;

/// When an attempt is made, on the wall clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Now, in Unix milliseconds.
    pub(super) now_ms: u64,
    /// The timeout's end, in Unix milliseconds.
    pub(super) deadline_ms: u64,
    /// The lease's end, in Unix milliseconds.
    pub(super) lease_deadline_ms: Option<u64>,
}

/// A request, ready to be sent.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What a message says of itself, judged once for every header that depends on it.
pub(super) struct Subject<'a> {
    pub(super) request: &'a AttemptRequest,
    pub(super) delivery: &'a Delivery,
    pub(super) queue: Arc<QueueParts>,
    pub(super) id: Cow<'a, [u8]>,
    /// It came as a CloudEvent: `Binary` in its properties, `Structured` in its body.
    pub(super) origin: Origin,
}

/// How a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Plain,
    Binary,
    Structured,
}

/// Header values that depend on the message, collected in one buffer.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    values: Values,
    /// Headers beyond those of the template.
    entries: Vec<(HeaderName, Range<usize>)>,
    /// Header bytes and count spent of the property budget.
    spent: (usize, usize),
    dropped: usize,
}

/// Makes the request of one attempt. Made again for a repeat, it is the same.
pub(super) fn render(prepared: &Prepared, request: &AttemptRequest, times: Times) -> Rendered {
    let delivery = &*request.delivery;
    let named_type = event::named_type(&delivery.message);
    let subject = Subject {
        request,
        delivery,
        queue: prepared.queue(delivery.queue, &request.queue_name),
        id: bounded_id(delivery.message.id.as_bytes()),
        origin: event::origin(&delivery.message, named_type),
    };
    let mut writer = Writer { bytes: Vec::with_capacity(512), ..Writer::default() };
    let own_type = named_type.and_then(media_type);
    if own_type.is_none() && named_type.is_some() {
        writer.dropped += 1;
    }
    let mut content_type = own_type.unwrap_or_else(|| prepared.content_type.clone());
    let mut body = delivery.message.body.clone();
    let mut template = &prepared.bare;
    match (prepared.format, subject.origin) {
        (Format::CloudEventsBinary, Origin::Plain) => {
            template = &prepared.with_attributes;
            event::plain(&subject, &mut writer);
        }
        (Format::CloudEventsBinary, Origin::Binary) => event::passed_on(&subject, &mut writer),
        (Format::CloudEventsStructured, Origin::Plain | Origin::Binary) => {
            body = event::structured(prepared, &subject, &content_type);
            content_type = event::STRUCTURED_TYPE;
        }
        (Format::CloudEventsBinary | Format::CloudEventsStructured, Origin::Structured)
        | (Format::Raw, Origin::Plain | Origin::Binary | Origin::Structured) => {}
    }
    writer.ready(Field::ContentType, content_type);
    own_headers(prepared, &subject, times, &body, &mut writer);
    properties(prepared, &subject, &mut writer);
    Rendered { headers: writer.finish(template), body }
}

/// What every attempt carries in every format.
fn own_headers(prepared: &Prepared, subject: &Subject<'_>, times: Times, body: &Bytes, writer: &mut Writer) {
    let request = subject.request;
    writer.ready(Field::Queue, subject.queue.queue_header.clone());
    writer.number(Field::ContentLength, u64::try_from(body.len()).unwrap_or(u64::MAX));
    let webhook_id = writer.field(Field::WebhookId, |out| webhook_id(subject, out));
    let timestamp = writer.number(Field::WebhookTimestamp, times.now_ms / 1000);
    if !prepared.keys.is_empty() {
        let part = |range| writer.bytes.get::<Range<usize>>(range).unwrap_or_default();
        let signature = signing::signature(&prepared.keys, part(webhook_id), part(timestamp), body);
        writer.put(names::WEBHOOK_SIGNATURE, |out| out.extend_from_slice(signature.as_bytes()));
    }
    writer.field(Field::MessageId, |out| escape::value(out, &subject.id));
    writer.number(Field::Position, subject.delivery.position.0);
    writer.number(Field::Attempt, u64::from(request.number));
    writer.number(Field::MaxAttempts, u64::from(request.max_attempts));
    writer.number(Field::Deadline, times.deadline_ms);
    if let Some(lease) = times.lease_deadline_ms {
        writer.number(Field::LeaseDeadline, lease);
    }
    writer.number(Field::LeaseEpoch, request.epoch.0);
}

/// The message's properties, as many as fit.
fn properties(prepared: &Prepared, subject: &Subject<'_>, writer: &mut Writer) {
    let as_attributes = prepared.format != Format::Raw && subject.origin == Origin::Binary;
    for (name, value) in subject.delivery.message.properties.iter() {
        if hidden(prepared.hidden, name) || (as_attributes && event::attribute(name, value).is_some()) {
            continue;
        }
        writer.property(name, value);
    }
    if writer.dropped > 0 {
        let dropped = u64::try_from(writer.dropped).unwrap_or(u64::MAX);
        writer.put(names::PROPERTIES_DROPPED, |out| number(out, dropped));
    }
}

fn hidden(hidden: &[&str], name: &[u8]) -> bool {
    hidden.iter().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix.as_bytes()),
        None => name == entry.as_bytes(),
    })
}

/// `<authority>/<queue>/<place>/<id>`: the same for each delivery of one message, another for every other. The place is
/// the offset in a log, where ids may repeat, and `-` elsewhere, where a delivery's number changes with each delivery.
fn webhook_id(subject: &Subject<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&subject.queue.id_prefix);
    match &subject.delivery.identity {
        Identity::Position { offset, .. } => {
            number(out, *offset);
            out.push(b'/');
            escape::component(out, &subject.id);
        }
        Identity::Unique(unique) => {
            out.extend_from_slice(b"-/");
            escape::component(out, &bounded_id(unique));
        }
        Identity::None => {
            out.extend_from_slice(b"-/");
            escape::component(out, &subject.id);
        }
    }
}

fn bounded_id(id: &[u8]) -> Cow<'_, [u8]> {
    if id.len() <= ID_BYTES {
        return Cow::Borrowed(id);
    }
    let mut out = b"sha256-".to_vec();
    for byte in Sha256::digest(id) {
        // Writing to a Vec can't fail.
        let _ = write!(out, "{byte:02x}");
    }
    Cow::Owned(out)
}

/// A media type as a header value: printable ASCII that looks like `type/subtype`, of bounded length.
pub(super) fn media_type(text: &str) -> Option<HeaderValue> {
    let text = text.trim();
    let printable = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
    if !printable || text.len() > ATTRIBUTE_BYTES || !text.contains('/') {
        return None;
    }
    HeaderValue::from_str(text).ok()
}

/// Decimal digits, without the formatting machinery that a dozen numbers a request would pay for.
pub(super) fn number(out: &mut Vec<u8>, number: u64) {
    padded(out, number, 1);
}

/// Decimal digits with leading zeros, at least `width` of them, 20 at most.
pub(super) fn padded(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        if number == 0 && used >= width {
            break;
        }
        // A digit is below ten.
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        used += 1;
    }
    out.extend_from_slice(digits.get(digits.len() - used..).unwrap_or_default());
}

impl Writer {
    /// Adds a header whose value `write` appends: printable ASCII.
    pub(super) fn put(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) {
        let range = self.write(write);
        self.entries.push((name, range));
    }

    /// As [`Writer::put`], for a header of the template.
    pub(super) fn field(&mut self, field: Field, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        let range = self.write(write);
        self.values.written(field, range.clone());
        range
    }

    pub(super) fn number(&mut self, field: Field, value: u64) -> Range<usize> {
        self.field(field, |out| number(out, value))
    }

    /// Gives a header of the template a value made before.
    pub(super) fn ready(&mut self, field: Field, value: HeaderValue) {
        self.values.ready(field, value);
    }

    fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        start..self.bytes.len()
    }

    /// Whether a producer's text is short enough for an attribute of ours; one that is not counts as dropped.
    pub(super) fn fits(&mut self, value: &[u8]) -> bool {
        let fits = escape::value_len(value) <= ATTRIBUTE_BYTES;
        self.dropped += usize::from(!fits);
        fits
    }

    /// Adds a property under `Lockstep-Property-`, if it fits the budget.
    fn property(&mut self, name: &[u8], value: &[u8]) {
        if name.is_empty() || self.spent.1 >= PROPERTY_COUNT {
            self.dropped += 1;
            return;
        }
        // Lengths first, so that a name of megabytes is never written only to be thrown away.
        let size = names::PROPERTY_PREFIX.len() + escape::name_len(name);
        if size > PROPERTY_BYTES {
            self.dropped += 1;
            return;
        }
        let mut text = Vec::with_capacity(size);
        text.extend_from_slice(names::PROPERTY_PREFIX.as_bytes());
        escape::name(&mut text, name);
        self.producer(&text, value);
    }

    /// Adds a header named by the producer, if it is the first of its name and fits the budget.
    pub(super) fn producer(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + escape::value_len(value) + 4;
        let fits = self.spent.1 < PROPERTY_COUNT && self.spent.0 + size <= PROPERTY_BYTES;
        let name = if fits { HeaderName::from_bytes(name).ok() } else { None };
        match name.filter(|name| self.entries.iter().all(|(other, _)| other != name)) {
            Some(name) => {
                self.spent = (self.spent.0 + size, self.spent.1 + 1);
                self.put(name, |out| escape::value(out, value));
            }
            None => self.dropped += 1,
        }
    }

    /// Whether a header of that name was added.
    pub(super) fn has(&self, name: &HeaderName) -> bool {
        self.entries.iter().any(|(other, _)| other == name)
    }

    fn finish(self, template: &Template) -> HeaderMap {
        let bytes = Bytes::from(self.bytes);
        let mut headers = template.fill(self.values, &bytes);
        for (name, range) in self.entries {
            if let Some(value) = header_value(&bytes, range) {
                headers.insert(name, value);
            }
        }
        headers
    }
}
