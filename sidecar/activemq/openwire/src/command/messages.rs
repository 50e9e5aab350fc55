//! Commands that go with messages: asked for, handed over, settled.

use crate::{
    ConsumerId, DecodeError, Destination, EncodeError, Message, MessageId, ProducerId, Text, Throwable,
    TransactionId,
    field::{Field, structure},
    reader::Reader,
    writer::Writer,
};

structure! {
    /// Gives a producer room.
    ProducerAck {
        /// Which.
        producer: Option<ProducerId>,
        /// Bytes.
        size: i32,
    }
}

structure! {
    /// Asks for one message, which comes as a [`MessageDispatch`], or one without a message.
    MessagePull {
        /// For whom.
        consumer: ConsumerId,
        /// From where.
        destination: Option<Destination>,
        /// How long to wait in milliseconds; 0 = for ever, -1 = not at all.
        timeout: i64,
        /// The one of that correlation id.
        correlation: Option<Text>,
        /// The one of that id.
        id: Option<MessageId>,
    }
}

structure! {
    /// Hands a message over.
    MessageDispatch {
        /// To whom.
        consumer: ConsumerId,
        /// From where; `None` without a message.
        destination: Option<Destination>,
        /// The message; `None` = there is none, as the answer to a pull.
        message: Option<Message>,
        /// How often it was handed over before.
        redeliveries: i32,
    }
}

/// What became of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AckType {
    /// They have arrived, and stay.
    Delivered,
    /// They are for the dead-letter queue.
    Poison,
    /// They are done.
    #[default]
    Standard,
    /// They were tried and are tried again.
    Redelivered,
    /// The last one is done.
    Individual,
    /// They do not match a subscription's selector.
    Unmatched,
    /// They have expired.
    Expired,
}

impl Field for AckType {
    fn read(from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        Ok(match from.u8(what)? {
            0 => Self::Delivered,
            1 => Self::Poison,
            2 => Self::Standard,
            3 => Self::Redelivered,
            4 => Self::Individual,
            5 => Self::Unmatched,
            6 => Self::Expired,
            kind => return Err(DecodeError::Type { what, kind }),
        })
    }

    fn write(&self, to: &mut Writer<'_>, _: &'static str) -> Result<(), EncodeError> {
        to.u8(match self {
            Self::Delivered => 0,
            Self::Poison => 1,
            Self::Standard => 2,
            Self::Redelivered => 3,
            Self::Individual => 4,
            Self::Unmatched => 5,
            Self::Expired => 6,
        });
        Ok(())
    }
}

structure! {
    /// Says what became of messages.
    MessageAck {
        /// From where they came.
        destination: Option<Destination>,
        /// In which transaction that is said.
        transaction: Option<TransactionId>,
        /// Who had them.
        consumer: ConsumerId,
        /// What became of them.
        kind: AckType,
        /// The first; `None` = the oldest that is out.
        first: Option<MessageId>,
        /// The last.
        last: Option<MessageId>,
        /// How many. Classic refuses another number than are out between them.
        count: i32,
        /// Why they are for the dead-letter queue.
        cause: Option<Throwable>,
    }
}
