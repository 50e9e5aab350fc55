//! The RocketMQ adapter: classic pull under queue locks, with an own thin remoting client.
//!
//! This crate owns everything that is RocketMQ's: framing, routes, membership, allocation, locks, positions, pulls,
//! commits and dead letters. It knows nothing of the engine and of HTTP.

mod allocate;
pub mod codec;
mod keeper;
mod problem;
pub mod protocol;
mod queue;
pub mod remoting;

pub use problem::reason;
