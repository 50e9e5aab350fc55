//! One lane: an ordered line of deliveries of which only the head is ever attempted.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use lockstep_model::{Identity, KeyHash, Moment, Position};

use crate::{AttemptId, ByHand, Hold, Incoming, OrderingMode};

/// Which lane of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaneKey {
    /// The queue's own lane: all of it (`PerQueue`), or its messages without a key (`PerKey`).
    Whole,
    /// The lane of one key.
    Key(KeyHash),
    /// The lane of one delivery (`Unordered`).
    One(Position),
}

impl LaneKey {
    pub(crate) fn of(mode: OrderingMode, key: Option<KeyHash>, position: Position) -> Self {
        match mode {
            OrderingMode::PerQueue => Self::Whole,
            OrderingMode::PerKey => key.map_or(Self::Whole, Self::Key),
            OrderingMode::Unordered => Self::One(position),
        }
    }
}

/// A delivery that waits for its final verdict.
#[derive(Debug)]
pub(crate) struct Held<P> {
    pub(crate) position: Position,
    pub(crate) bytes: usize,
    pub(crate) identity: Identity,
    pub(crate) redelivered: bool,
    pub(crate) undecodable: bool,
    pub(crate) received: Moment,
    pub(crate) payload: P,
}

impl<P> Held<P> {
    pub(crate) fn new(incoming: Incoming<P>, received: Moment) -> Self {
        Self {
            position: incoming.position,
            bytes: incoming.bytes,
            identity: incoming.identity,
            redelivered: incoming.redeliveries > 0,
            undecodable: incoming.undecodable,
            received,
            payload: incoming.payload,
        }
    }
}

/// Why a head waits for a moment, which decides what may end the wait early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A spent attempt, or a snooze.
    Later,
    /// The application could not be reached: its health ends the wait.
    Unreachable,
    /// The endpoint's fault: the breaker's closing ends the wait.
    Misconfigured,
    /// `Block`: a change of the policy ends the wait.
    Blocked,
    /// A storm is assumed: its end ends the wait.
    Storm,
}

/// What a lane does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneState {
    /// It has no head, or the head was not looked at yet.
    Idle,
    /// The head may be attempted (unless an orphan still keeps the lane).
    Ready,
    /// The head waits for a moment.
    Waiting(Why),
    /// The head is attempted.
    Running(AttemptId),
    /// The head's dead letter is being written.
    Settling,
    /// The head waits for a person or for a change of settings.
    Stuck,
}

/// What is known of a lane's head; all zero for a fresh one.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// Attempts spent.
    pub(crate) attempts: u32,
    /// Tries, spent or not: the backoff grows with them.
    pub(crate) tries: u32,
    /// Total snooze.
    pub(crate) snoozed: Duration,
    /// Since when it is the head.
    pub(crate) since: Moment,
    /// It left the buffer: an attempt was started.
    pub(crate) started: bool,
    /// The engine's count of `Done` at its first `Misconfigured`.
    pub(crate) misconfigured_at: Option<u64>,
    /// Why it is reported as blocked.
    pub(crate) hold: Option<Hold>,
    /// A person's command that waits for the running attempt.
    pub(crate) by_hand: Option<ByHand>,
}

/// A lane.
#[derive(Debug)]
pub(crate) struct Lane<P> {
    pub(crate) waiting: VecDeque<Held<P>>,
    pub(crate) state: LaneState,
    pub(crate) head: Head,
    /// Positions that were dropped for want of space and are fetched again, all behind `waiting`.
    pub(crate) unread: BTreeSet<Position>,
}

impl<P> Lane<P> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            state: LaneState::Idle,
            head: Head::default(),
            unread: BTreeSet::new(),
        }
    }

    /// Whether the head does not move by itself at once, so that what is behind it only takes space.
    pub(crate) fn is_blocked(&self) -> bool {
        match self.state {
            LaneState::Waiting(_) | LaneState::Settling | LaneState::Stuck => true,
            LaneState::Running(_) => self.head.tries > 0,
            LaneState::Idle | LaneState::Ready => false,
        }
    }
}
