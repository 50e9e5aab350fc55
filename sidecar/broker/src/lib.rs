//! What every broker adapter offers the runtime, in three halves that cannot block each other: reading, settling and
//! lease keeping. An adapter knows nothing of the core.

mod clock;
#[cfg(feature = "testing")]
pub mod conformance;
mod error;
mod finding;
mod keeper;
#[cfg(feature = "testing")]
pub mod memory;
mod outbox;
mod problems;
mod queues;
pub mod reason;
mod traits;
#[cfg(feature = "testing")]
pub mod unreliable;

pub use clock::Clock;
pub use error::{BrokerError, Certainty, Class, Problem, refusal};
pub use finding::{Finding, Severity};
pub use keeper::{TaskKeeper, Wish};
pub use outbox::Outbox;
pub use problems::Problems;
pub use queues::{EpochClock, QueueTable};
pub use traits::{
    Broker, Commit, FetchRequest, Fetched, LeaseEvent, LeaseKeeper, Reader, Settle, Settlement, Settler,
    SourceState,
};
