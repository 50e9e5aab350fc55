//! The ActiveMQ adapter, for Classic and Artemis over OpenWire.
//!
//! This crate owns everything that is ActiveMQ's: the client, ownership of queues, settlement, and what brokers say of
//! themselves. It knows nothing of the engine and of HTTP callbacks.

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

pub use client::{Credentials, Endpoint};
pub use config::{Config, CredentialsSource, KeySource, Mode, Ordering, PrefetchPlan, Queue};
pub use lockstep_tls::TlsFiles;
