//! OpenWire, the protocol of Apache ActiveMQ, as Classic 5.9 and later and Artemis speak it: commands, messages and their
//! bodies. A codec without I/O.
//!
//! Versions 10 to 12 in loose encoding without cache, as both sides agree on when one of them asks for it. In what a
//! consumer or producer needs, these versions do not differ. Type numbers and the order of fields are those of Classic's
//! marshallers of version 12.
//!
//! A frame is its size in bytes as four bytes, big endian, then a command. [`encode`] writes whole frames, [`decode`] takes one
//! without its size. Nothing is copied: texts, ids and contents are slices of the frame. Every length is checked against what
//! is there before anything is allocated, and class names are nothing but text.
//!
//! ```
//! use bytes::BytesMut;
//! use lockstep_openwire::{Command, decode, encode};
//!
//! let mut out = BytesMut::new();
//! encode(&mut out, 7, true, &Command::KeepAlive).unwrap();
//! let frame = decode(out.split_off(4).freeze()).unwrap();
//! assert_eq!((frame.number, frame.answer, frame.command), (7, true, Command::KeepAlive));
//! ```

mod body;
mod command;
mod error;
mod field;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod ids;
mod inflate;
mod message;
mod reader;
#[cfg(test)]
mod tests;
mod text;
mod value;
mod wire_format;
mod writer;

pub use body::{Body, INFLATED_MOST, body};
pub use command::{
    AckType, BrokerInfo, Command, ConnectionControl, ConnectionError, ConnectionInfo, ConsumerControl,
    ConsumerInfo, DestinationInfo, Frame, MessageAck, MessageDispatch, MessagePull, Operation, ProducerAck,
    ProducerInfo, RemoveInfo, RemoveSubscriptionInfo, Removed, Response, decode, encode,
};
pub use error::{DecodeError, EncodeError};
pub use ids::{
    BrokerId, ConnectionId, ConsumerId, Destination, DestinationKind, LocalTransactionId, MessageId,
    ProducerId, SessionId, Throwable, TransactionId, XaTransactionId,
};
pub use message::{About, Blob, DispatchStart, Fields, Kind, Message};
pub use text::Text;
pub use value::{DEPTH_MOST, Map, VALUES_MOST, Value, read_map, read_values, write_map};
pub use wire_format::{VERSION_LEAST, VERSION_MOST, WireFormatInfo};
