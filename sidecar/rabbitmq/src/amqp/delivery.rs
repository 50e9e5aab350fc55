use std::num::NonZeroU64;

use bytes::Bytes;

use super::{AmqpError, BadProperties, RawProperties};

/// What comes to a consumer, in the broker's order.
#[derive(Debug)]
pub enum DeliveryEvent {
    /// A message.
    Message(RawDelivery),
    /// The broker ended the consumer: its queue is gone, or its acknowledgement timeout ran out. The channel is open
    /// still, and so are its unsettled deliveries.
    Cancelled,
    /// The channel ended. What was buffered of it is dropped, since it goes back to the queue. Said again each time.
    Closed(AmqpError),
}

/// A message as it came, its parts slices of what was read.
#[derive(Debug)]
pub struct RawDelivery {
    /// Counts the deliveries of this channel from 1; it means nothing on another.
    pub tag: NonZeroU64,
    /// Whether it was handed to somebody before, which does not say that anybody worked on it.
    pub redelivered: bool,
    /// Where it was published; UTF-8 by rule, but no broker checks it.
    pub exchange: Bytes,
    /// As it was published; UTF-8 by rule, but no broker checks it.
    pub routing_key: Bytes,
    /// Its properties, or what can't be read as such.
    pub properties: Result<RawProperties, BadProperties>,
    /// Its body.
    pub body: BodyState,
}

/// A body, or what is left of one that there was no room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyState {
    /// All of it.
    Whole(Bytes),
    /// It did not fit into the budget: read and dropped. The delivery is unsettled and can be had again only by giving
    /// it back.
    Stub {
        /// What it takes of the budget, in bytes: its body and its properties.
        size: u64,
    },
}

impl BodyState {
    /// Bytes of the body; of a dropped one what it takes of the budget.
    pub fn size(&self) -> u64 {
        match self {
            Self::Whole(body) => body.len() as u64,
            Self::Stub { size } => *size,
        }
    }
}
