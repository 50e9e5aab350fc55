//! A thin AMQP 0-9-1 client: what a consumer and a confirmed publisher need, and nothing else.
//!
//! A connection is one task that reads and writes; what it knows is one value without I/O behind one lock, which callers
//! hold only to append to the outgoing bytes or to take from an inbox. So acknowledgements leave in the order in which
//! they were made, many in a write, and nothing is allocated for one. Each end is one typed error; nothing is recovered
//! or repeated here.

mod budget;
mod channel;
mod codec;
mod config;
mod connection;
mod core;
mod delivery;
mod dial;
mod driver;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod handshake;
mod outbox;
mod shared;

#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

pub use budget::{Budget, Reservation};
pub use channel::{Channel, Confirm, Confirmation, Deliveries, QueueInfo};
pub use codec::{
    Array, BadProperties, Entries, Field, Fields, HeaderDefect, Malformed, Properties, RawProperties, Table,
    TableError, Value,
};
pub use config::{Credentials, Endpoint, OpenConfig};
pub use connection::{Connection, ServerInfo};
pub use delivery::{BodyState, DeliveryEvent, RawDelivery};
pub use error::{AmqpError, Close};
pub use lockstep_tls::TlsFiles;

pub(crate) use dial::dial;

/// The broker answers a question within this time, or it counts as not answered.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);
