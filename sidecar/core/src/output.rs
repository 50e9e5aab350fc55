use std::time::Duration;

use lockstep_model::{Epoch, Identity, Moment, Position, QueueId};

use crate::{FetchId, TransportFailure};

/// Numbers an attempt for the life of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u64);

/// What the shell has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output<P> {
    /// Join the broker group.
    JoinGroup,
    /// Leave the broker group; queues still held are released one by one.
    LeaveGroup,
    /// Ask for deliveries.
    Fetch {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
        /// To be returned with the answer.
        fetch: FetchId,
        /// The first position wanted.
        from: Position,
        /// How many at most.
        count: u32,
        /// How many bytes about.
        bytes: usize,
    },
    /// Drop a fetch; no answer is expected any more.
    CancelFetch {
        /// The queue.
        queue: QueueId,
        /// The fetch.
        fetch: FetchId,
    },
    /// POST deliveries of one lane (one today).
    Attempt {
        /// To be returned with the results.
        attempt: AttemptId,
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
        /// The deliveries, in order, never empty.
        deliveries: Vec<P>,
        /// 1 for the first attempt.
        number: u32,
        /// Do not start it after this moment.
        not_after: Option<Moment>,
        /// The lease's end as known now.
        lease_deadline: Option<Moment>,
        /// How long it may take.
        timeout: Duration,
    },
    /// Abort an attempt; its `AttemptEnded` (cancelled, or what it had become) is still expected.
    CancelAttempt {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Settle one delivery.
    Settle {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
        /// The delivery.
        position: Position,
        /// What was handed in with it.
        payload: P,
        /// What to do.
        settlement: Settlement,
        /// Attempts spent on it.
        attempts: u32,
        /// Do not write it after this moment.
        not_after: Option<Moment>,
    },
    /// Move the cursor.
    Commit {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
        /// Everything before it is finished.
        position: Position,
        /// Identity of the delivery before it, `None` when unknown.
        last: Identity,
        /// Do not write it after this moment.
        not_after: Option<Moment>,
    },
    /// Give a queue back.
    ReleaseQueue {
        /// The queue.
        queue: QueueId,
        /// The ownership.
        epoch: Epoch,
    },
    /// Keep in the state folder: attempts spent on a lane's head. `attempts` 0 forgets it.
    SaveAttempts {
        /// The queue.
        queue: QueueId,
        /// The delivery.
        identity: Identity,
        /// Attempts spent.
        attempts: u32,
    },
    /// Keep in the state folder: messages dead-lettered or skipped in a row ([`crate::Input::StormRestored`]).
    SaveStorm {
        /// How many; 0 forgets it.
        in_row: u32,
    },
    /// Something worth a log line, a metric or a condition. Never needed for correctness.
    Event(Event),
    /// Nothing to do until the next input, or until this moment (then send `Tick`).
    Wait(Option<Moment>),
    /// A drain is over: everything is released and the group is left, or the deadline came.
    Finished,
}

/// The engine's side of [`Output::Settle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// It is done.
    Accept,
    /// Give it back unstarted.
    Release,
    /// Move it to the dead-letter queue.
    DeadLetter,
}

/// One attempt's end, for metrics and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptNotice {
    /// 2xx.
    Done,
    /// Try again, attempt spent.
    Again,
    /// Later at the application's wish, no attempt spent.
    Snoozed,
    /// The message's fault.
    Never,
    /// The endpoint's fault.
    Misconfigured,
    /// The application could not be reached.
    Unreachable,
    /// We cancelled it.
    Cancelled,
    /// It ended after its ownership: ignored.
    Late,
}

/// Why a lane's head waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// Attempts are spent and the policy is `Block`.
    Exhausted,
    /// The stored message can't be decoded.
    Undecodable,
    /// The application called the message impossible and the policy is `Block`.
    Rejected,
    /// The dead letter could not be written.
    DeadLetterFailed,
    /// A dead-letter storm is assumed.
    DeadLetterStorm,
    /// It is the oldest for longer than `blocked_age`.
    Age,
}

/// Something worth a log line, a metric or a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An attempt ended.
    AttemptEnded {
        /// The queue.
        queue: QueueId,
        /// The delivery.
        position: Position,
        /// What came of it.
        notice: AttemptNotice,
        /// Attempts spent on the delivery.
        attempts: u32,
        /// The status, if there was an answer.
        status: Option<u16>,
        /// The failure, if there was none.
        failure: Option<TransportFailure>,
    },
    /// A delivery was not attempted because its 2xx is known already.
    Suppressed {
        /// The queue.
        queue: QueueId,
        /// The delivery.
        position: Position,
    },
    /// A lane's head is held.
    Blocked {
        /// The queue.
        queue: QueueId,
        /// The delivery.
        position: Position,
        /// Why.
        hold: Hold,
        /// Attempts spent.
        attempts: u32,
    },
    /// A held head moved on.
    Unblocked {
        /// The queue.
        queue: QueueId,
        /// The delivery.
        position: Position,
    },
    /// A message was dead-lettered and the broker confirmed it.
    DeadLettered {
        /// The queue.
        queue: QueueId,
        /// The delivery.
        position: Position,
        /// By a person's command.
        by_hand: bool,
    },
    /// A message was skipped.
    Skipped {
        /// The queue.
        queue: QueueId,
        /// The delivery.
        position: Position,
        /// By a person's command.
        by_hand: bool,
    },
    /// Retention or a reset moved the position.
    Moved {
        /// The queue.
        queue: QueueId,
        /// The cursor before.
        from: Position,
        /// The cursor now.
        to: Position,
        /// By an operator's reset; otherwise unread messages may be lost.
        reset: bool,
    },
    /// The misconfiguration breaker opened or closed.
    Breaker {
        /// Whether it is open.
        open: bool,
    },
    /// The dead-letter storm guard opened or closed.
    Storm {
        /// Whether it is open.
        open: bool,
    },
    /// The whole endpoint pauses until then, or goes on.
    EndpointPaused {
        /// Until when; `None` when it goes on.
        until: Option<Moment>,
    },
    /// A lease ended with deliveries unfinished.
    Abandoned {
        /// The queue.
        queue: QueueId,
        /// How many.
        deliveries: u32,
    },
    /// An input came too late or twice and was dropped.
    Stale {
        /// The queue, if it names one.
        queue: Option<QueueId>,
        /// A fixed word for what it was.
        what: &'static str,
    },
    /// A by-hand command found no such head.
    ByHandRefused {
        /// The queue.
        queue: QueueId,
        /// The position asked for.
        position: Position,
    },
}
