//! The ActiveMQ adapter, for Classic and Artemis over OpenWire.
//!
//! This crate owns everything that is ActiveMQ's: the client, ownership of queues, settlement, and what brokers say of
//! themselves. It knows nothing of the engine and of HTTP callbacks.

mod adapter;
mod check;
mod client;
mod config;
mod consumer;
mod keeper;
mod message;
mod problem;
mod reader;
mod settler;
mod shared;
mod unsettled;
mod view;

pub use adapter::ActiveMq;
pub use check::check;
pub use client::{Credentials, Endpoint};
pub use config::{Config, CredentialsSource, KeySource, Mode, Ordering, PrefetchPlan, Queue};
pub use keeper::ActiveKeeper;
pub use lockstep_tls::TlsFiles;
pub use problem::reason;
pub use reader::ActiveReader;
pub use settler::ActiveSettler;
