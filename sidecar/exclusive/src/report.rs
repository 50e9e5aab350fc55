use lockstep_model::QueueId;

/// What the other halves tell the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// What is out of a queue has to come anew: the ownership of that consumer is to be given back and taken again.
    Rewind {
        /// The queue.
        queue: QueueId,
        /// The consumer's number.
        number: u64,
    },
}
