use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use lockstep_model::{Message, Position, QueueId};
use serde::{Deserialize, Serialize};

use super::{Server, refusal::Refusal};
use crate::record;

/// Messages in one answer by default and at most.
const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;
/// Stored bytes in one answer (one message may be larger).
const ANSWER_BYTES: usize = 4 << 20;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    queues: Vec<QueueStatus>,
    dead_letters: u64,
    consumer: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

#[derive(Debug, Serialize)]
struct QueueStatus {
    name: String,
    start: u64,
    committed: u64,
    end: u64,
    unfinished: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Page {
    queue: Option<String>,
    from: Option<u64>,
    limit: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(super) struct Messages {
    queue: String,
    messages: Vec<MessageView>,
    next: u64,
    end: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeadLetters {
    dead_letters: Vec<DeadLetterView>,
    next: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeadLetterView {
    id: u64,
    queue: String,
    attempts: u32,
    dead_since_ms: u64,
    message: MessageView,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageView {
    position: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_ms: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undecodable: Option<String>,
}

pub(super) async fn status(State(server): State<Arc<Server>>) -> Result<Json<Status>, Refusal> {
    let inner = server.broker.inner();
    let bounds = inner.store.queues();
    let queues = inner.store.names().iter().zip(bounds).map(|(name, queue)| QueueStatus {
        name: name.as_ref().to_owned(),
        start: queue.start,
        committed: queue.committed,
        end: queue.end,
        unfinished: queue.end.saturating_sub(queue.committed),
    });
    Ok(Json(Status {
        queues: queues.collect(),
        dead_letters: inner.store.dead_letter_count()?,
        consumer: inner.sessions().consumed(),
        failure: inner.signals.failure().map(|failure| failure.to_string()),
    }))
}

pub(super) async fn messages(
    State(server): State<Arc<Server>>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Messages>, Refusal> {
    let page = parsed(page)?;
    let queue = server.queue(page.queue.as_deref().unwrap_or("0"))?;
    let store = &server.broker.inner().store;
    let from = page.from.unwrap_or(store.queue(queue)?.start);
    let read = store.read(queue, from, page.count(), ANSWER_BYTES)?;
    let messages = read.deliveries.iter().map(|delivery| {
        let raw = delivery.undecodable.as_ref().map(|undecodable| (&undecodable.raw, &*undecodable.reason));
        MessageView::new(delivery.position, &delivery.message, raw)
    });
    Ok(Json(Messages {
        queue: server.queue_name(queue),
        messages: messages.collect(),
        next: read.next.0,
        end: read.end.0,
    }))
}

pub(super) async fn dead_letters(
    State(server): State<Arc<Server>>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<DeadLetters>, Refusal> {
    let page = parsed(page)?;
    let from = page.from.unwrap_or(0);
    let letters = server.broker.inner().store.dead_letters(from, page.count() as usize, ANSWER_BYTES)?;
    let next = letters.last().map_or(from, |letter| letter.id + 1);
    let views = letters.iter().map(|letter| DeadLetterView {
        id: letter.id,
        queue: server.queue_name(letter.queue),
        attempts: letter.attempts,
        dead_since_ms: letter.at_ms,
        message: match record::decode(&letter.record) {
            Ok(message) => MessageView::new(letter.position, &message, None),
            Err(reason) => {
                MessageView::new(letter.position, &Message::default(), Some((&letter.record, reason)))
            }
        },
    });
    Ok(Json(DeadLetters { dead_letters: views.collect(), next }))
}

fn parsed(page: Result<Query<Page>, QueryRejection>) -> Result<Page, Refusal> {
    let Query(page) = page.map_err(|error| Refusal::bad(format!("the query can't be read: {error}")))?;
    if page.count() == 0 || page.count() > LIMIT_MAX {
        return Err(Refusal::bad(format!("limit must be from 1 to {LIMIT_MAX}")));
    }
    Ok(page)
}

impl Page {
    fn count(&self) -> u32 {
        self.limit.unwrap_or(LIMIT_DEFAULT)
    }
}

impl Server {
    /// A queue by its name or number.
    fn queue(&self, asked: &str) -> Result<QueueId, Refusal> {
        let names = self.broker.inner().store.names();
        let by_name = names.iter().position(|name| name.as_ref() == asked);
        let number = by_name.or_else(|| asked.parse::<usize>().ok()).filter(|number| *number < names.len());
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.map(QueueId).ok_or_else(|| Refusal::no_queue(asked))
    }

    fn queue_name(&self, queue: QueueId) -> String {
        let names = self.broker.inner().store.names();
        names.get(queue.0 as usize).map(|name| name.as_ref().to_owned()).unwrap_or_default()
    }
}

impl MessageView {
    fn new(position: Position, message: &Message, raw: Option<(&Bytes, &str)>) -> Self {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let bytes = raw.map_or(&message.body, |(raw, _)| raw);
        let text = std::str::from_utf8(bytes).ok().map(str::to_owned);
        Self {
            position: position.0,
            id: message.id.as_str().to_owned(),
            key: message.key.as_ref().map(|key| key.as_str().to_owned()),
            content_type: message.content_type.as_ref().map(|kind| kind.as_str().to_owned()),
            stored_ms: message.stored_ms,
            properties: message.properties.iter().map(|(n, v)| (lossy(n), lossy(v))).collect(),
            body_base64: text.is_none().then(|| STANDARD.encode(bytes)),
            body: text,
            undecodable: raw.map(|(_, reason)| reason.to_owned()),
        }
    }
}
