//! The queues of a group by their full name.

use std::{fmt, sync::Arc};

/// One message queue. Ordered as Java orders queues before it shares them out: topic, broker name, number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueKey {
    /// The topic.
    pub(crate) topic: Arc<str>,
    /// The broker's name, spelt as the route spells it: locks are kept under it.
    pub(crate) broker: Arc<str>,
    /// The queue's number on that broker.
    pub(crate) id: i32,
}

impl fmt::Display for QueueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.topic, self.broker, self.id)
    }
}
