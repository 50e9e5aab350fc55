//! What the tests of running processes share.
//!
//! Everything here works with threads and blocking sockets, so that it can't be held up by the runtime under test, and
//! panics with a sentence when the test can't go on.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test tool that can't go on must say so and stop the test"
)]

pub mod activemq;
pub mod app;
pub mod behaviour;
pub mod brokers;
pub mod collector;
pub mod http;
pub mod overlaps;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod rabbitmq;
pub mod random;
pub mod recording;
pub mod rocketmq;
pub mod runner;
pub mod sidecar;
pub mod stage;
pub mod strange;
pub mod time;
