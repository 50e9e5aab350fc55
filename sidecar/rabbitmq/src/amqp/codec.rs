//! Bytes to types and back: frames, the methods that we use, properties and field tables.
//!
//! Nothing here does I/O or recurses on input. Every length is checked against what is there before it is used, so
//! memory stays proportional to the input whatever a peer sends.

mod call;
mod fields;
mod frame;
mod method;
mod properties;
mod render;
mod reply;
mod table;
mod take;

use thiserror::Error;

pub use fields::Fields;
pub use properties::{BadProperties, Field, HeaderDefect, Properties, RawProperties};
pub use table::{Array, Entries, Table, TableError, Value};

pub(super) use call::{Call, ConnectionCall, PROTOCOL_HEADER};
pub(super) use frame::{FRAME_LEAST, Frame, FrameReader, Kind, OVERHEAD, frame, frame_ends};
pub(super) use method::{
    Answer, BASIC, ChannelMethod, Closed, ConnectionMethod, ContentHead, ContentMethod, Method,
};
pub(super) use reply::Reply;

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "what tests make is small")]
pub(super) mod tests;

/// What makes a connection unusable: after it nothing that follows can be trusted, so the connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The peer answered with the protocol header of what it speaks, or with nothing of the kind.
    #[error("the answer does not begin like AMQP 0-9-1")]
    Protocol,
    /// A frame of a type that there is not.
    #[error("frame type {0} is unknown")]
    FrameType(u8),
    /// Longer than what was agreed on.
    #[error("a frame of {size} bytes is longer than the agreed {most}")]
    FrameSize {
        /// Announced.
        size: u32,
        /// Agreed.
        most: u32,
    },
    /// A frame does not end with 0xCE.
    #[error("a frame ends with {0:#04x} instead of 0xce")]
    FrameEnd(u8),
    /// A method ends inside one of its arguments.
    #[error("method {class}.{method} is cut short")]
    Method {
        /// Its class.
        class: u16,
        /// Its number there.
        method: u16,
    },
    /// A method that no broker sends to a client like this one.
    #[error("method {class}.{method} is unexpected")]
    Unexpected {
        /// Its class.
        class: u16,
        /// Its number there.
        method: u16,
    },
    /// A frame of content where none is due, or none where one is.
    #[error("a {0} is out of place")]
    Order(&'static str),
    /// More content than its header announced.
    #[error("a body is longer than announced")]
    BodyLength,
    /// A frame for a channel that is not open.
    #[error("a frame for channel {0}, which is not open")]
    Channel(u16),
    /// A delivery tag of 0 or out of order.
    #[error("delivery tag {tag} after {last}")]
    Tag {
        /// Seen.
        tag: u64,
        /// The one before.
        last: u64,
    },
    /// More deliveries than the prefetch allows.
    #[error("more than {most} deliveries without an acknowledgement")]
    Prefetch {
        /// The prefetch of all consumers of the channel.
        most: usize,
    },
}

/// A broker's words for people: bounded, and readable whatever the bytes are.
pub(super) fn text_of(bytes: &[u8]) -> String {
    const MOST: usize = 512;
    let shown = bytes.get(..MOST).unwrap_or(bytes);
    String::from_utf8_lossy(shown).chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
