//! The RocketMQ adapter: classic pull under queue locks, with an own thin remoting client.
//!
//! This crate owns everything that is RocketMQ's: framing, routes, membership, allocation, locks, positions, pulls,
//! commits and dead letters. It knows nothing of the engine and of HTTP.

mod adapter;
mod allocate;
mod check;
pub mod codec;
mod config;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod keeper;
mod leases;
mod position;
mod problem;
pub mod protocol;
mod queue;
mod reader;
pub mod remoting;
mod settler;
mod shared;

pub use adapter::RocketMq;
pub use check::check;
pub use config::{Config, Filter, KeySource, StartPosition, Subscription};
pub use keeper::RocketKeeper;
pub use problem::reason;
pub use reader::RocketReader;
pub use settler::RocketSettler;
pub use shared::Stats;
