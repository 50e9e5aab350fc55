//! Queues that the broker gives to one consumer at a time: who takes which, when, and for how long.
//!
//! A lease keeper's task for brokers whose consumers are the owners of their queues. A broker is what implements
//! [`Sessions`]; [`keeper`] starts the task.

mod owners;
mod pace;
mod report;
mod sessions;

pub use owners::Owners;
pub use pace::Pace;
pub use report::Report;
pub use sessions::{
    Failure, Held, Later, Looked, Meaning, NotConnected, Opened, Order, Pulse, Sessions, Settings,
};

/// Keeps session and leases. Dropped, it ends its task and with it the connection.
pub type Keeper = lockstep_broker::TaskKeeper;

/// Starts the task on the current runtime.
pub fn keeper<S: Sessions>(
    sessions: std::sync::Arc<S>,
    reports: tokio::sync::mpsc::UnboundedReceiver<Report>,
) -> Keeper {
    Keeper::start(|_wishes, _outbox| async move {
        drop((sessions, reports));
    })
}
