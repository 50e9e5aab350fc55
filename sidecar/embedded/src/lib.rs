//! A durable local broker: several queues in one redb file, filled by `POST /publish` or in process, read through the
//! same adapter traits as any other broker. For `dev`, `demo` and tests; it is not offered in the resource.
//!
//! A publish is answered only when it is on disk, so `kill -9` at any moment loses no acknowledged message. One
//! consumer at a time owns all queues.

mod embedded;
mod error;
mod halves;
mod http;
mod record;
mod store;
mod writer;

pub use embedded::{Embedded, NewMessage, Options, Published};
pub use error::{OpenError, StoreError};
pub use halves::{EmbeddedBroker, EmbeddedKeeper, EmbeddedReader, EmbeddedSettler};
