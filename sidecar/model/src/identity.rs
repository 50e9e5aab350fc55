use std::fmt;

use bytes::Bytes;

/// A queue, by a small number that stays the same for the life of the process.
///
/// The adapter gives each queue name one number, also when the queue goes and comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

/// One ownership of a queue. It rises with each acquisition: the acquisition time in Unix milliseconds, raised above
/// the last one known. Work of an older epoch is never settled as if it were current.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

/// A place in a queue: an offset in a log, or a delivery's number on a channel. Rises along the queue within an epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// The next place.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A hash of a message's ordering key. Two keys with one hash share a lane, which keeps order and costs parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u64);

/// What makes a delivery the same as an earlier one: the ground on which a repeated delivery may be suppressed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// An id that is unique in the whole queue for ever.
    Unique(Bytes),
    /// A place in a log together with what proves that it is still the same message there.
    Position {
        /// The offset in the queue.
        offset: u64,
        /// When the broker stored it, in Unix milliseconds.
        stored_ms: i64,
        /// Its place in the broker's physical log.
        log_offset: i64,
    },
    /// Two deliveries can't be told apart: never suppressed.
    None,
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
