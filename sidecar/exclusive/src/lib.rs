//! Queues that the broker gives to one consumer at a time: who takes which, when, and for how long.
//!
//! A lease keeper's task for brokers whose consumers are the owners of their queues. A broker is what implements
//! [`Sessions`]; [`keeper`] starts the task.

mod backoff;
mod driver;
mod machine;
mod owners;
mod pace;
mod report;
mod sessions;

use std::sync::Arc;

use tokio::sync::mpsc;

use driver::Driver;
pub use driver::jitter;
pub use owners::Owners;
pub use pace::Pace;
pub use report::Report;
pub use sessions::{
    Failure, Held, Later, Looked, Meaning, NotConnected, Opened, Order, Pulse, Sessions, Settings,
};

/// Keeps session and leases. Dropped, it ends its task and with it the connection.
pub type Keeper = lockstep_broker::TaskKeeper;

/// Starts the task on the current runtime.
pub fn keeper<S: Sessions>(sessions: Arc<S>, reports: mpsc::UnboundedReceiver<Report>) -> Keeper {
    Keeper::start(|wishes, outbox| Driver::new(sessions, outbox).run(wishes, reports))
}
