//! Stands in until lockstep-openwire has them.

/// A queue or topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// By its name.
    Queue(String),
    /// By its name.
    Topic(String),
    /// By its name.
    TempQueue(String),
}

/// A message's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageId {
    /// The broker's number.
    pub(crate) broker_sequence: i64,
}

/// A message.
#[derive(Debug, Clone)]
pub(crate) struct Message {}
