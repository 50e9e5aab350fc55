//! stub
use lockstep_model::QueueId;
/// What the other halves and the consumers' own tasks tell the keeper.
#[derive(Debug)]
pub(crate) enum Report {
    /// A consumer ended.
    Ended { queue: QueueId, channel: u64, end: crate::consumer::End },
    /// What is out has to come anew.
    Rewind { queue: QueueId, channel: u64 },
}
