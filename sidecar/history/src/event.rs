use std::sync::Arc;

/// One thing that happened. Times are microseconds on one clock for the whole history; names are free text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The broker holds a message that must be delivered.
    Published {
        /// The queue.
        queue: Arc<str>,
        /// Where it stands in the queue.
        position: u64,
        /// The ordering key.
        key: Option<Arc<str>>,
    },
    /// The application received a request.
    Start {
        /// When.
        at: u64,
        /// The request's name: unique in the history.
        post: Arc<str>,
        /// The message's queue.
        queue: Arc<str>,
        /// The message's place in the queue.
        position: u64,
        /// The attempt that the request said it is, from 1.
        attempt: u32,
        /// Who sent it.
        consumer: Arc<str>,
        /// The ownership under which it was sent; `None` when the sender has no such notion.
        epoch: Option<u64>,
    },
    /// The application finished with a request. To be written before the answer is, so that no answer is unrecorded.
    End {
        /// When.
        at: u64,
        /// The request's name.
        post: Arc<str>,
        /// How it ended.
        outcome: Outcome,
    },
    /// The broker was seen to hold this committed position.
    Commit {
        /// When it was seen.
        at: u64,
        /// The queue.
        queue: Arc<str>,
        /// The next position to be read.
        position: u64,
    },
    /// A message got a final verdict other than a 2xx.
    Final {
        /// When it was seen.
        at: u64,
        /// The queue.
        queue: Arc<str>,
        /// The message's place.
        position: u64,
        /// Which verdict.
        how: How,
    },
    /// Something was broken on purpose, and what that may cost.
    Fault {
        /// When.
        at: u64,
        /// What was done.
        name: Arc<str>,
        /// The queue that it may touch; `None` means all.
        queue: Option<Arc<str>>,
        /// How many duplicates it may cost in each queue.
        duplicates: u64,
        /// How many requests may overlap with another owner's in each line.
        overlaps: u64,
    },
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The application answered with this status.
    Answered(u16),
    /// There was no whole answer: either side closed, reset or died.
    Broken,
}

impl Outcome {
    /// Whether the message is done.
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Answered(200..=299))
    }
}

/// A final verdict other than a 2xx.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It went to the dead-letter queue.
    DeadLetter,
    /// It was skipped on request.
    Skip,
}
