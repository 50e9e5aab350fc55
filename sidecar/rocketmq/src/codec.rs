//! Bytes to types and back: frames, headers, stored messages, the JSON that brokers write, and signatures.
//!
//! Nothing here does I/O. Every length is checked against what is there before it is used, so memory stays
//! proportional to the input whatever a peer sends.

mod acl;
mod binary_header;
mod command;
mod compression;
mod frame;
mod json_header;
pub mod lenient;
mod message_id;
mod properties;
mod stored;
mod take;

pub use acl::Credentials;
pub use command::{Command, Fields, HeaderEncoding, Language, VERSION};
pub use compression::{BodyLimits, DecompressError};
pub(crate) use frame::missing;
pub use frame::{FrameError, MAX_FRAME, MAX_HEADER, decode, encode};
pub use message_id::{MessageId, java_hash};
pub use properties::{parse_properties, write_properties};
pub use stored::{Bad, BadReason, BatchError, Entry, Host, MIN_STORED, Stored, StoredMessages, sys_flag};

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "what tests make is small")]
pub(crate) mod tests;
