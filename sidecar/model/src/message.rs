use std::sync::Arc;

use bytes::Bytes;

use crate::{Identity, KeyHash, Position, Properties, QueueId, Text};

/// A queue's name as people know it, for example `orders/broker-a/3`.
pub type QueueName = Arc<str>;

/// What a producer wrote: it never changes.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// The message's id: the same on every delivery.
    pub id: Text,
    /// Whether the id was made up because the producer and the broker gave none.
    pub id_synthetic: bool,
    /// The content, untouched.
    pub body: Bytes,
    /// The ordering key: message group, sharding key, routing key or a chosen header.
    pub key: Option<Text>,
    /// What the message is about: tag, routing key or JMS type.
    pub subject: Option<Text>,
    /// When the producer made it, in Unix milliseconds.
    pub born_ms: Option<i64>,
    /// When the broker stored it, in Unix milliseconds.
    pub stored_ms: Option<i64>,
    /// The content type that the producer named.
    pub content_type: Option<Text>,
    /// What else the producer and the broker say of it.
    pub properties: Properties,
}

/// One handing-over of a message to us by the broker.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The queue it came from.
    pub queue: QueueId,
    /// Where it stands in the queue.
    pub position: Position,
    /// What it is the same as when it comes again.
    pub identity: Identity,
    /// The hash of `message.key`, by the source's ordering setting; `None` for a message without a key.
    pub key: Option<KeyHash>,
    /// How often the broker handed it over before, as far as the broker knows.
    pub redeliveries: u32,
    /// The message, empty but for what could be read when it is undecodable.
    pub message: Message,
    /// Set when the stored bytes could not be decoded.
    pub undecodable: Option<Undecodable>,
}

/// A stored message that can't be decoded: never skipped silently.
#[derive(Debug, Clone)]
pub struct Undecodable {
    /// The stored bytes.
    pub raw: Bytes,
    /// What is wrong with them.
    pub reason: Arc<str>,
}

impl Delivery {
    /// Bytes that count against the buffer: body and properties as received.
    pub fn size(&self) -> usize {
        let raw = self.undecodable.as_ref().map_or(0, |undecodable| undecodable.raw.len());
        let properties: usize = self.message.properties.iter().map(|(n, v)| n.len() + v.len()).sum();
        self.message.body.len() + properties + raw
    }
}

impl KeyHash {
    /// FNV-1a of the key's bytes: stable over processes and versions.
    pub fn of(key: &[u8]) -> Self {
        let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash)
    }
}
