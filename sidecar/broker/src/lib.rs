//! What every broker adapter offers the runtime, in three halves that cannot block each other: reading, settling and
//! lease keeping. An adapter knows nothing of the core.

mod clock;
#[cfg(feature = "testing")]
pub mod conformance;
mod error;
#[cfg(feature = "testing")]
pub mod memory;
mod outbox;
mod queues;
mod traits;
#[cfg(feature = "testing")]
pub mod unreliable;

pub use clock::Clock;
pub use error::{BrokerError, Certainty, Class, Problem};
pub use outbox::Outbox;
pub use queues::{EpochClock, QueueTable};
pub use traits::{
    Broker, Commit, FetchRequest, Fetched, LeaseEvent, LeaseKeeper, Reader, Settle, Settlement, Settler,
    SourceState,
};
