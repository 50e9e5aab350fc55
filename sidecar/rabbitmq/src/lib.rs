//! The RabbitMQ adapter, with an own AMQP 0-9-1 client.
//!
//! This crate owns everything that is RabbitMQ's: the protocol, sessions, ownership of queues, settlement and dead
//! letters. It knows nothing of the engine and of HTTP callbacks.

mod adapter;
pub mod amqp;
mod check;
mod config;
mod consumer;
mod dead_letter;
mod declaration;
mod keeper;
mod management;
mod message;
mod problem;
mod reader;
mod settler;
mod shared;
mod unsettled;

pub use adapter::RabbitMq;
pub use amqp::{Credentials, Endpoint, TlsFiles};
pub use check::check;
pub use config::{Config, CredentialsSource, DeadLetter, KeySource, Ordering, PrefetchPlan};
pub use keeper::RabbitKeeper;
pub use problem::reason;
pub use reader::RabbitReader;
pub use settler::RabbitSettler;
