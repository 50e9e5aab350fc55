//! A thin OpenWire client: what a consumer and a look at a queue need, and nothing else.
//!
//! A connection is one task that reads and writes; what it knows is one value without I/O behind one lock, which callers hold
//! only to append to the outgoing bytes or to take from an inbox. So acknowledgements leave in the order in which they were
//! made, many in a write. Each end is one typed error; nothing is recovered or repeated here.

mod answer;
mod budget;
mod config;
mod connection;
mod consumer;
mod core;
mod delivery;
mod dial;
mod driver;
mod error;
mod frames;
mod handshake;
mod incoming;
mod shared;
mod wire;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use answer::Answer;
pub(crate) use budget::Budget;
pub(crate) use config::OpenConfig;
pub use config::{Credentials, Endpoint};
pub(crate) use connection::{BrokerFacts, Connection, Product};
pub(crate) use consumer::{Ack, AckVerdict, Consumer, Deliveries, Outgoing, Subscription};
pub(crate) use delivery::{DeliveryEvent, Dispatch, Undecodable};
pub(crate) use error::{ClientError, Exception};

/// The broker answers a question within this time, or it counts as not answered.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(5);
