//! The headers that nearly every request has, put into a map once: a copy whose values are replaced costs a fraction of a
//! map filled name by name.

use std::ops::Range;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::names;

/// Room in the map's index for headers beyond the template's, so that a request's properties seldom make it be built anew. The
/// list of headers has none in a copy, and grows once, by doubling.
const ROOM: usize = 8;

/// A header whose value differs between requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Queue,
    ContentType,
    ContentLength,
    WebhookId,
    WebhookTimestamp,
    MessageId,
    Position,
    Attempt,
    MaxAttempts,
    Deadline,
    LeaseDeadline,
    LeaseEpoch,
    CeSource,
    CeId,
    CeSubject,
    CeTime,
    CeSequence,
    CeDeliveryAttempt,
}

/// Of every request.
const EVERY: [Field; 12] = [
    Field::Queue,
    Field::ContentType,
    Field::ContentLength,
    Field::WebhookId,
    Field::WebhookTimestamp,
    Field::MessageId,
    Field::Position,
    Field::Attempt,
    Field::MaxAttempts,
    Field::Deadline,
    Field::LeaseDeadline,
    Field::LeaseEpoch,
];

/// Of messages that become CloudEvents only here.
const ATTRIBUTES: [Field; 6] = [
    Field::CeSource,
    Field::CeId,
    Field::CeSubject,
    Field::CeTime,
    Field::CeSequence,
    Field::CeDeliveryAttempt,
];

/// Headers to copy.
#[derive(Debug)]
pub(super) struct Template {
    headers: HeaderMap,
    /// What stands at each place of the map; `None` is constant.
    fields: Vec<Option<Field>>,
}

/// The values of one request's fields.
#[derive(Debug, Default)]
pub(super) struct Values([Option<Value>; EVERY.len() + ATTRIBUTES.len()]);

#[derive(Debug)]
enum Value {
    Ready(HeaderValue),
    /// Where it lies in the request's buffer.
    Written(Range<usize>),
}

impl Field {
    fn name(self) -> HeaderName {
        match self {
            Self::Queue => names::QUEUE,
            Self::ContentType => header::CONTENT_TYPE,
            Self::ContentLength => header::CONTENT_LENGTH,
            Self::WebhookId => names::WEBHOOK_ID,
            Self::WebhookTimestamp => names::WEBHOOK_TIMESTAMP,
            Self::MessageId => names::MESSAGE_ID,
            Self::Position => names::POSITION,
            Self::Attempt => names::ATTEMPT,
            Self::MaxAttempts => names::MAX_ATTEMPTS,
            Self::Deadline => names::DEADLINE,
            Self::LeaseDeadline => names::LEASE_DEADLINE,
            Self::LeaseEpoch => names::LEASE_EPOCH,
            Self::CeSource => names::CE_SOURCE,
            Self::CeId => names::CE_ID,
            Self::CeSubject => names::CE_SUBJECT,
            Self::CeTime => names::CE_TIME,
            Self::CeSequence => names::CE_SEQUENCE,
            Self::CeDeliveryAttempt => names::CE_DELIVERYATTEMPT,
        }
    }
}

impl Values {
    pub(super) fn ready(&mut self, field: Field, value: HeaderValue) {
        self.set(field, Value::Ready(value));
    }

    pub(super) fn written(&mut self, field: Field, range: Range<usize>) {
        self.set(field, Value::Written(range));
    }

    fn set(&mut self, field: Field, value: Value) {
        if let Some(place) = self.0.get_mut(field as usize) {
            *place = Some(value);
        }
    }

    fn take(&mut self, field: Field, bytes: &Bytes) -> Option<HeaderValue> {
        match self.0.get_mut(field as usize)?.take()? {
            Value::Ready(value) => Some(value),
            Value::Written(range) => header_value(bytes, range),
        }
    }
}

impl Template {
    /// Of requests with these constant headers, without attributes.
    pub(super) fn bare(constant: &[(HeaderName, HeaderValue)]) -> Self {
        Self::new(constant, &EVERY)
    }

    /// Of requests with these constant headers, with the attributes of a plain message.
    pub(super) fn with_attributes(constant: &[(HeaderName, HeaderValue)]) -> Self {
        let fields: Vec<_> = EVERY.into_iter().chain(ATTRIBUTES).collect();
        Self::new(constant, &fields)
    }

    fn new(constant: &[(HeaderName, HeaderValue)], fields: &[Field]) -> Self {
        let mut headers = HeaderMap::with_capacity(constant.len() + fields.len() + ROOM);
        for (name, value) in constant {
            headers.insert(name.clone(), value.clone());
        }
        for field in fields {
            headers.insert(field.name(), HeaderValue::from_static(""));
        }
        // The order of a map is its own affair, but a copy has the same.
        let field = |name: &HeaderName| fields.iter().copied().find(|field| field.name() == *name);
        let fields = headers.keys().map(field).collect();
        Self { headers, fields }
    }

    /// The headers of one request. Fields without a value are left out.
    pub(super) fn fill(&self, mut values: Values, bytes: &Bytes) -> HeaderMap {
        let mut headers = self.headers.clone();
        let mut absent = Vec::new();
        for (place, field) in headers.values_mut().zip(&self.fields) {
            let Some(field) = *field else { continue };
            match values.take(field, bytes) {
                Some(value) => *place = value,
                None => absent.push(field),
            }
        }
        for field in absent {
            headers.remove(field.name());
        }
        headers
    }
}

/// A value that lies in the buffer: printable ASCII, so it is never refused.
pub(super) fn header_value(bytes: &Bytes, range: Range<usize>) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(bytes.slice(range)).ok()
}
