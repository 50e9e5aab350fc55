use std::sync::Arc;

use lockstep_openwire::{Destination, Message, MessageId};

use super::ClientError;

/// What comes to a consumer, in the broker's order.
#[derive(Debug)]
pub(crate) enum DeliveryEvent {
    /// A message.
    Message(Dispatch),
    /// There was none for as long as was to be waited: nothing is asked for any more.
    Nothing,
    /// The broker wants the consumer to end; it removes it a moment later. Until then its messages can be settled.
    Cancelled,
    /// The consumer ended. What had come and was not taken is dropped, since it goes back to the queue. Said again each
    /// time.
    Closed(ClientError),
}

/// A message as it came.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    /// Where it comes from; of a pattern the queue itself.
    pub(crate) destination: Destination,
    /// Which it is; goes back as it is to settle it.
    pub(crate) id: MessageId,
    /// How often it was with a consumer that ended before it was settled.
    pub(crate) redeliveries: u32,
    /// The message, its parts slices of what was read.
    pub(crate) message: Result<Box<Message>, Undecodable>,
}

/// Why there is no more of a message than its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Undecodable {
    /// Its frame is longer than is read whole.
    Oversize {
        /// Of the frame, in bytes.
        size: u64,
    },
    /// Its frame holds what can't be read.
    Malformed {
        /// What is wrong with it.
        reason: Arc<str>,
    },
}
