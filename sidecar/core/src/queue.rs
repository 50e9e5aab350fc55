//! What the engine knows of one queue under one ownership.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use lockstep_model::{Epoch, Identity, Moment, Position};

use crate::{
    FetchId, Settlement,
    cursor::Cursor,
    lane::{Lane, LaneKey},
};

/// How an ownership goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is ours.
    Owned,
    /// It is given back as soon as it is idle, or at the deadline.
    Releasing {
        /// Who wants it so.
        why: Leave,
        /// The latest moment.
        deadline: Option<Moment>,
    },
    /// `ReleaseQueue` was sent: nothing happens any more until the answer.
    Released,
}

/// Why a queue is given back. A later one overrules an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leave {
    /// It comes back at once: the broker's acknowledgement timeout would end it otherwise.
    Rewind,
    /// It goes to another member.
    Revoked,
    /// The group is left.
    Group,
}

/// The committed side of the cursor.
#[derive(Debug)]
pub(crate) struct CommitState {
    /// What the broker confirmed.
    pub(crate) confirmed: Position,
    /// [`Cursor::passed`] at that confirmation.
    pub(crate) confirmed_passed: u64,
    /// The unanswered commit: its position and [`Cursor::passed`].
    pub(crate) in_flight: Option<(Position, u64)>,
    /// The position moved since the unanswered commit was sent, so its answer says nothing.
    pub(crate) overtaken: bool,
    /// The cursor must be told again although it was confirmed.
    pub(crate) again: bool,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// No commit before.
    pub(crate) not_before: Moment,
    /// Since when a delivery is finished that no commit carried.
    pub(crate) since: Option<Moment>,
    /// When the last commit of gaps alone was sent.
    pub(crate) gap_at: Option<Moment>,
}

impl CommitState {
    pub(crate) fn new(confirmed: Position) -> Self {
        Self {
            confirmed,
            confirmed_passed: 0,
            in_flight: None,
            overtaken: false,
            again: false,
            failures: 0,
            not_before: Moment::ZERO,
            since: None,
            gap_at: None,
        }
    }
}

/// An unanswered fetch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) id: FetchId,
    pub(crate) from: Position,
    pub(crate) count: u32,
    pub(crate) at: Moment,
}

/// The reading side.
#[derive(Debug)]
pub(crate) struct FetchState {
    /// The position behind everything seen.
    pub(crate) next: Position,
    pub(crate) asked: Option<Asked>,
    pub(crate) failures: u32,
    /// Fetches in a row that came back at once with nothing.
    pub(crate) futile: u32,
    pub(crate) not_before: Moment,
    /// Seen but dropped for want of space, with their lanes.
    pub(crate) unread: BTreeMap<Position, LaneKey>,
    /// Those of them whose lane moves again.
    pub(crate) wanted: BTreeSet<Position>,
}

/// A settlement that the broker has not confirmed.
#[derive(Debug)]
pub(crate) struct Settling<P> {
    pub(crate) payload: P,
    pub(crate) identity: Identity,
    pub(crate) settlement: Settlement,
    pub(crate) attempts: u32,
    pub(crate) by_hand: bool,
    /// The lane whose head it still is (a dead letter).
    pub(crate) lane: Option<LaneKey>,
    /// Sent and not answered.
    pub(crate) sent: bool,
    pub(crate) failures: u32,
    pub(crate) not_before: Moment,
}

/// One queue under one ownership.
#[derive(Debug)]
pub(crate) struct Queue<P> {
    pub(crate) epoch: Epoch,
    pub(crate) deadline: Option<Moment>,
    pub(crate) settle_within: Option<Duration>,
    pub(crate) phase: Phase,
    pub(crate) doubtful: bool,
    /// Retention overtook unread messages and the policy is `Stop`: where to go on.
    pub(crate) stopped: Option<Position>,
    pub(crate) lanes: BTreeMap<LaneKey, Lane<P>>,
    /// Every held delivery.
    pub(crate) pending: BTreeMap<Position, LaneKey>,
    /// Lanes whose head may be attempted, by its position.
    pub(crate) ready: BTreeSet<(Position, LaneKey)>,
    /// This queue's place in the engine's line of queues, if it stands there.
    pub(crate) ticket: Option<u64>,
    /// Lanes that are blocked and hold more than their head.
    pub(crate) fat: BTreeSet<LaneKey>,
    /// Deliveries never attempted.
    pub(crate) buffered: u32,
    /// Bytes of all held deliveries.
    pub(crate) bytes: usize,
    /// Attempts of this ownership that run.
    pub(crate) running: u32,
    pub(crate) highest_started: Option<Position>,
    /// The last head that probed an open breaker, so that probes rotate over lanes.
    pub(crate) probed: Option<Position>,
    pub(crate) cursor: Cursor,
    pub(crate) commit: CommitState,
    pub(crate) fetch: FetchState,
    pub(crate) settling: BTreeMap<Position, Settling<P>>,
    /// Entries of `settling` that no lane waits for.
    pub(crate) accepting: usize,
}

impl<P> Queue<P> {
    pub(crate) fn new(
        epoch: Epoch,
        deadline: Option<Moment>,
        cursor: Position,
        settle_within: Option<Duration>,
    ) -> Self {
        Self {
            epoch,
            deadline,
            settle_within,
            phase: Phase::Owned,
            doubtful: false,
            stopped: None,
            lanes: BTreeMap::new(),
            pending: BTreeMap::new(),
            ready: BTreeSet::new(),
            ticket: None,
            fat: BTreeSet::new(),
            buffered: 0,
            bytes: 0,
            running: 0,
            highest_started: None,
            probed: None,
            cursor: Cursor::new(cursor),
            commit: CommitState::new(cursor),
            fetch: FetchState {
                next: cursor,
                asked: None,
                failures: 0,
                futile: 0,
                not_before: Moment::ZERO,
                unread: BTreeMap::new(),
                wanted: BTreeSet::new(),
            },
            settling: BTreeMap::new(),
            accepting: 0,
        }
    }

    /// Deliveries that were fetched and that the broker does not know to be finished: what a crash would repeat.
    pub(crate) fn outstanding(&self) -> usize {
        self.pending
            .len()
            .saturating_add(self.fetch.unread.len())
            .saturating_add(self.cursor.ahead())
            .saturating_add(usize::try_from(self.unconfirmed()).unwrap_or(usize::MAX))
    }

    /// Deliveries that the broker does not know to be finished although they are.
    pub(crate) fn unconfirmed(&self) -> u64 {
        self.cursor
            .passed()
            .saturating_sub(self.commit.confirmed_passed)
            .saturating_add(self.accepting as u64)
    }

    /// Keeps `fat` true after a lane changed.
    pub(crate) fn weigh(&mut self, key: LaneKey) {
        let fat = self.lanes.get(&key).is_some_and(|lane| lane.is_blocked() && lane.waiting.len() > 1);
        if fat {
            self.fat.insert(key);
        } else {
            self.fat.remove(&key);
        }
    }
}
