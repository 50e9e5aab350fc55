//! Plain types that the core and the adapters share. No behaviour beyond construction and access; no I/O, no clock.

mod capabilities;
mod identity;
mod message;
mod properties;
mod text;
mod time;

pub use capabilities::{Capabilities, DeadLetterBy, Ownership, Settlement};
pub use identity::{Epoch, Identity, KeyHash, Position, QueueId};
pub use message::{Delivery, Message, QueueName, Undecodable};
pub use properties::{Properties, PropertiesBuilder, Span};
pub use text::{NotUtf8, Text};
pub use time::Moment;
