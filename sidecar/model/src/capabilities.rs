/// What a source can do. The core plans by this, never by a broker's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// What keeps other consumers away from a queue.
    pub ownership: Ownership,
    /// How finished deliveries are told to the broker.
    pub settlement: Settlement,
    /// Who moves a message to the dead-letter queue.
    pub dead_letter: DeadLetterBy,
    /// Whether a fetch may start at any position after the cursor, also again at one fetched before (a log).
    pub reread: bool,
    /// How many deliveries of one queue may be held unsettled; 1 where the broker keeps order only so. `None` = as
    /// many as the buffer takes.
    pub lookahead: Option<u32>,
    /// Whether the broker gives deliveries back in order when the queue is released (closing a channel).
    pub release_keeps_order: bool,
}

/// What keeps other consumers away from a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// A lock with a lifetime that must be renewed; it is advisory, so its holder fences itself.
    Lock,
    /// The broker hands the queue to one consumer at a time.
    ExclusiveConsumer,
    /// No other consumer can exist (a local broker).
    Sole,
}

/// How finished deliveries are told to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// A cursor: everything before it is finished (a log).
    Cumulative,
    /// One by one.
    PerDelivery,
}

/// Who moves a message to the dead-letter queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterBy {
    /// The adapter can do it, by whatever means its broker has.
    Broker,
    /// There is none: `DeadLetter` is refused at start.
    Unsupported,
}
