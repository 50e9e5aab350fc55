use lockstep_broker::EpochClock;
use lockstep_model::{Epoch, Moment};

use crate::Pace;

/// What happened to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// The group was joined (true) or is being left.
    Joined(bool),
    /// Whether the queue is ours to take; `None` = there is no such word.
    Hinted(Option<bool>),
    /// A connection stands (true) or was lost.
    Connected(bool),
    /// A consumer consumes; `sent` is when the last question was sent that the broker answered.
    Opened { number: u64, sent: Moment },
    /// Somebody else has come to consume the queue before a consumer did; nothing is left of it.
    Taken { number: u64 },
    /// A consumer could not be made to consume; nothing is left of it.
    Refused { number: u64, pace: Pace },
    /// A look at the queue's consumers, asked for at `sent`, was answered, or not. `starved` = messages are ready, and none
    /// came to us who have room for them.
    Looked { number: u64, sent: Moment, consumers: Option<u32>, starved: bool },
    /// A consumer came to an end. `open` = the consumer only.
    Ended { number: u64, open: bool, pace: Pace },
    /// A consumer is closed, as asked.
    Closed { number: u64 },
    /// The consumers of a queue that we don't consume were counted, or not.
    Counted(Result<u32, Pace>),
    /// The ownership is given back.
    Release(Epoch),
    /// What is out has to be given back and taken anew.
    Rewind,
    /// Time passed.
    Tick,
}

/// What to do, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Open a consumer and consume; [`Input::Opened`], [`Input::Taken`] or [`Input::Refused`] follows. `contested` = others
    /// may do the same at the same moment.
    Open { number: u64, contested: bool },
    /// Count the queue's consumers on a consumer; [`Input::Looked`] follows.
    Look { number: u64 },
    /// Close a consumer; [`Input::Closed`] follows.
    Close { number: u64 },
    /// Count the consumers of a queue without a consumer; [`Input::Counted`] follows.
    Count,
    /// The queue is ours from now on, through this consumer.
    Acquired { number: u64, epoch: Epoch, deadline: Moment },
    /// It is so for longer.
    Renewed { epoch: Epoch, deadline: Moment },
    /// It may be.
    Doubtful { epoch: Epoch },
    /// It should be given back.
    Revoking { epoch: Epoch },
    /// It stays after all.
    RevocationCancelled { epoch: Epoch },
    /// It is not ours any more.
    Lost { epoch: Epoch },
    /// It was given back.
    Released { epoch: Epoch },
}

/// What a step may use.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: Moment,
    pub(crate) epochs: &'a mut EpochClock,
    /// Any number, for backoff.
    pub(crate) jitter: u16,
    pub(crate) commands: &'a mut Vec<Command>,
}
