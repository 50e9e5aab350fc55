//! Stored messages as deliveries.

use std::sync::Arc;

use bytes::Bytes;
use lockstep_model::{Delivery, Identity, KeyHash, Message, Position, QueueId, Text, Undecodable};

use crate::{
    codec::{Bad, BodyLimits, Entry, Stored, StoredMessages},
    config::KeySource,
    protocol::SubscriptionData,
};

/// The producer's id of a message.
const UNIQUE_KEY: &[u8] = b"UNIQ_KEY";
/// The tag.
const TAGS: &[u8] = b"TAGS";
/// The message group of 5.x, which is the sharding key of older clients.
const SHARDING_KEY: &[u8] = b"__SHARDINGKEY";
/// RocketMQ has no property of its own for it; these are what producers write.
const CONTENT_TYPES: [&[u8]; 3] = [b"content-type", b"Content-Type", b"contentType"];

/// What a pull's body is read against.
pub(crate) struct Context<'a> {
    pub(crate) queue: QueueId,
    pub(crate) from: Position,
    /// Where the broker says to go on.
    pub(crate) next: Position,
    /// Behind the queue's last message.
    pub(crate) most: Position,
    pub(crate) bytes: usize,
    pub(crate) limits: &'a BodyLimits,
    pub(crate) key: &'a KeySource,
    pub(crate) subscription: Option<&'a SubscriptionData>,
}

/// What a pull brought.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) next: Position,
}

/// Decodes a pull's body: what does not carry a wanted tag is left out, what can't be decoded stays in its place, and
/// what is more than the bytes asked for is left for the next fetch.
///
/// # Errors
/// Positions that do not rise from `from` on: the answer is not to be trusted.
pub(crate) fn deliveries(context: &Context<'_>, body: Bytes) -> Result<Taken, String> {
    let mut deliveries = Vec::new();
    let mut least = context.from;
    // Messages lie before the place to go on at; one that claims another place would take the cursor there.
    let rising = |offset, least| rising(offset, least, context.next);
    let mut bytes = 0_usize;
    let whole = body.clone();
    let mut entries = StoredMessages::new(body);
    while let Some(entry) = entries.next() {
        let delivery = match entry {
            Ok(Entry::Stored(stored)) if !wanted(context, &stored) => {
                least = rising(stored.offset, least)?.next();
                continue;
            }
            Ok(Entry::Stored(stored)) => {
                let position = rising(stored.offset, least)?;
                plain(context, position, *stored)
            }
            Ok(Entry::Bad(bad)) => {
                let position = bad_place(context, &bad, least, &entries)?;
                undecodable(context, position, *bad)
            }
            Err(error) => {
                // What follows can't be told apart: it stands as one undecodable message, and its successors are
                // fetched again when it is out of the way.
                surplus(context, least)?;
                let raw = whole.slice(error.at.min(whole.len())..);
                deliveries.push(broken(context, least, raw, Arc::from(error.to_string())));
                return Ok(Taken { deliveries, next: least.next() });
            }
        };
        bytes += delivery.size();
        if bytes > context.bytes && !deliveries.is_empty() {
            return Ok(Taken { next: delivery.position, deliveries });
        }
        least = delivery.position.next();
        deliveries.push(delivery);
    }
    Ok(Taken { deliveries, next: context.next.min(context.most).max(least) })
}

fn rising(offset: i64, least: Position, next: Position) -> Result<Position, String> {
    let position = u64::try_from(offset).map(Position).map_err(|_| format!("a message at {offset}"))?;
    if position < least {
        Err(format!("a message at {offset} where {least} was due"))
    } else if position >= next {
        Err(format!("a message at {offset} before {next}"))
    } else {
        Ok(position)
    }
}

/// The place of a message that can't be decoded. One that can't be read, or makes no sense with that of its successor,
/// is the first that it can be.
fn bad_place(
    context: &Context<'_>,
    bad: &Bad,
    least: Position,
    rest: &StoredMessages,
) -> Result<Position, String> {
    surplus(context, least)?;
    let read = bad.offset.and_then(|offset| rising(offset, least, context.next).ok());
    let behind = match rest.clone().next() {
        Some(Ok(Entry::Stored(next))) => u64::try_from(next.offset).ok().map(Position),
        Some(Ok(Entry::Bad(_)) | Err(_)) | None => None,
    };
    Ok(read.filter(|place| behind.is_none_or(|behind| *place < behind)).unwrap_or(least))
}

/// What has no place before the one to go on at must not take that of a message that is still to come.
fn surplus(context: &Context<'_>, least: Position) -> Result<(), String> {
    if least < context.next { Ok(()) } else { Err(format!("more than fits before {}", context.next)) }
}

fn wanted(context: &Context<'_>, stored: &Stored) -> bool {
    let tag = stored.properties.get(TAGS).and_then(|tag| std::str::from_utf8(tag).ok());
    context.subscription.is_none_or(|subscription| subscription.matches(tag))
}

fn text(stored: &Stored, name: &[u8]) -> Option<Text> {
    Text::from_utf8(stored.properties.get_bytes(name)?).ok()
}

/// The message with its plain body, or with its body as stored when that can't be had: everything else of it can.
fn plain(context: &Context<'_>, position: Position, mut stored: Stored) -> Delivery {
    match stored.plain_body(context.limits) {
        Ok(body) => {
            stored.body = body;
            delivery(context, position, stored)
        }
        Err(error) => {
            let raw = std::mem::take(&mut stored.body);
            let undecodable = Some(Undecodable { raw, reason: Arc::from(error.to_string()) });
            Delivery { undecodable, ..delivery(context, position, stored) }
        }
    }
}

fn delivery(context: &Context<'_>, position: Position, stored: Stored) -> Delivery {
    let key = match context.key {
        KeySource::Native => stored.properties.get_bytes(SHARDING_KEY),
        KeySource::Property(name) => stored.properties.get_bytes(name.as_bytes()),
    };
    let id = text(&stored, UNIQUE_KEY).unwrap_or_else(|| Text::from(stored.id().to_string()));
    Delivery {
        queue: context.queue,
        position,
        identity: Identity::Position {
            offset: position.0,
            stored_ms: stored.stored_ms,
            log_offset: stored.log_offset,
        },
        key: key.as_deref().map(KeyHash::of),
        redeliveries: u32::try_from(stored.reconsume_times).unwrap_or(0),
        message: Message {
            id,
            id_synthetic: false,
            key: key.and_then(|key| Text::from_utf8(key).ok()),
            subject: text(&stored, TAGS),
            born_ms: Some(stored.born_ms),
            stored_ms: Some(stored.stored_ms),
            content_type: CONTENT_TYPES.iter().find_map(|name| text(&stored, name)),
            body: stored.body,
            properties: stored.properties,
        },
        undecodable: None,
    }
}

fn undecodable(context: &Context<'_>, position: Position, bad: Bad) -> Delivery {
    let identity = match (bad.stored_ms, bad.log_offset) {
        (Some(stored_ms), Some(log_offset)) => {
            Identity::Position { offset: position.0, stored_ms, log_offset }
        }
        (Some(_) | None, _) => Identity::None,
    };
    let stored_ms = bad.stored_ms;
    let mut delivery = broken(context, position, bad.raw, Arc::from(bad.reason.to_string()));
    (delivery.identity, delivery.message.stored_ms) = (identity, stored_ms);
    delivery
}

fn broken(context: &Context<'_>, position: Position, raw: Bytes, reason: Arc<str>) -> Delivery {
    let id = Text::from(format!("undecodable-{}-{position}", context.queue.0));
    Delivery {
        queue: context.queue,
        position,
        identity: Identity::None,
        key: None,
        redeliveries: 0,
        message: Message { id, id_synthetic: true, ..Message::default() },
        undecodable: Some(Undecodable { raw, reason }),
    }
}
