//! The lease-keeping half: membership, allocation, locks and their renewal. One task does it all, and waits for
//! nothing but its own short requests.

mod driver;
mod jobs;
mod links;
mod machine;
mod membership;
mod questions;
mod topology;

use std::sync::Arc;

use lockstep_broker::TaskKeeper;
use tokio::sync::mpsc;

use self::driver::Driver;
use crate::{remoting::Event, shared::Shared};

/// Keeps the membership and the leases. Dropped, it ends its task; locks then run out at the brokers.
pub type RocketKeeper = TaskKeeper;

/// Starts the task on the current runtime.
pub(crate) fn start(shared: Arc<Shared>, events: mpsc::Receiver<Event>) -> RocketKeeper {
    TaskKeeper::start(|wishes, outbox| Driver::new(shared, outbox).run(wishes, events))
}
