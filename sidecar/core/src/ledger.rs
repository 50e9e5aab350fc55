//! Shadow records of debug and test builds: what went in and what came out, kept apart from the engine's own state, and
//! the judgement of the invariants on them.

mod checks;
mod inputs;

pub(crate) use checks::Gates;

use std::collections::BTreeMap;

use lockstep_model::{Epoch, Identity, Moment, Position, QueueId, Settlement::PerDelivery};

use crate::{
    AttemptId, Config, Event, FetchId, Output, Settlement,
    invariants::{Invariant, Violation},
    lane::LaneKey,
};

/// What the last result of a delivery says about its next attempt's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charge {
    Free,
    Spent,
    Either,
}

#[derive(Debug)]
struct Record {
    lane: LaneKey,
    bytes: usize,
    identity: Identity,
    redelivered: bool,
    /// The engine holds it in a lane.
    held: bool,
    started: bool,
    number: Option<u32>,
    charge: Charge,
    done: bool,
    dead: bool,
    skipped: bool,
    /// It may be attempted beyond the limit: it is held, or the settings changed.
    blocked: bool,
    ended: bool,
    /// Unanswered.
    sent: Option<Settlement>,
    /// A settlement was sent at least once.
    settled: bool,
}

impl Record {
    fn is_final(&self) -> bool {
        self.done || self.dead || self.skipped
    }
}

#[derive(Debug)]
struct Owned {
    epoch: Epoch,
    deadline: Option<Moment>,
    doubtful: bool,
    /// It is revoked.
    leaving: bool,
    /// The engine gives it back of its own accord.
    given_up: bool,
    released: bool,
    stopped: bool,
    next: Position,
    asked: Option<(FetchId, Position)>,
    committing: Option<Position>,
    records: BTreeMap<Position, Record>,
}

#[derive(Debug)]
struct Attempted {
    queue: QueueId,
    epoch: Epoch,
    lane: LaneKey,
    position: Position,
    /// No other ownership and no move since it started.
    valid: bool,
    cancelled: bool,
}

/// The records.
#[derive(Debug)]
pub(crate) struct Ledger {
    now: Moment,
    config: Config,
    owned: BTreeMap<QueueId, Owned>,
    attempts: BTreeMap<AttemptId, Attempted>,
    busy: BTreeMap<(QueueId, LaneKey), AttemptId>,
    /// 2xx seen of deliveries with a unique identity.
    done: BTreeMap<(QueueId, Identity), ()>,
    drain: Option<Moment>,
    finished: bool,
    pub(crate) violation: Option<Violation>,
}

impl Ledger {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            now: Moment::ZERO,
            config,
            owned: BTreeMap::new(),
            attempts: BTreeMap::new(),
            busy: BTreeMap::new(),
            done: BTreeMap::new(),
            drain: None,
            finished: false,
            violation: None,
        }
    }

    fn broken(&mut self, invariant: Invariant, what: String) {
        self.violation.get_or_insert(Violation { invariant, what });
    }

    /// The engine put a delivery into a lane.
    pub(crate) fn held(&mut self, queue: QueueId, position: Position) {
        let record = self.owned.get_mut(&queue).and_then(|owned| owned.records.get_mut(&position));
        match record {
            Some(record) if !record.held && !record.ended => record.held = true,
            Some(_) | None => {
                self.broken(Invariant::I6, format!("{position:?} is held twice or was never delivered"));
            }
        }
    }

    /// The engine dropped a delivery to read it again.
    pub(crate) fn shed(&mut self, queue: QueueId, position: Position) {
        if let Some(record) = self.owned.get_mut(&queue).and_then(|owned| owned.records.get_mut(&position)) {
            record.held = false;
        }
    }

    /// The engine took a delivery out of its lane for good.
    pub(crate) fn ended(&mut self, queue: QueueId, position: Position) {
        let record = self.owned.get_mut(&queue).and_then(|owned| owned.records.get_mut(&position));
        match record {
            Some(record) if record.held && !record.ended => {
                record.ended = true;
                record.held = false;
                if record.dead && self.config.capabilities.settlement == PerDelivery {
                    self.forget(queue, position);
                }
            }
            Some(_) | None => self.broken(Invariant::I6, format!("{position:?} ended twice")),
        }
    }

    fn forget(&mut self, queue: QueueId, position: Position) {
        if let Some(owned) = self.owned.get_mut(&queue) {
            owned.records.remove(&position);
        }
    }

    /// The engine emptied a queue. `deliveries` is what it says it abandoned.
    pub(crate) fn emptied(&mut self, queue: QueueId, deliveries: u32) {
        for attempt in self.attempts.values_mut().filter(|attempt| attempt.queue == queue) {
            attempt.valid = false;
        }
        let Some(owned) = self.owned.get_mut(&queue) else { return };
        let held = owned.records.values().filter(|record| record.held).count();
        owned.records.clear();
        owned.committing = None;
        if held != deliveries as usize {
            self.broken(Invariant::I6, format!("{deliveries} of {held} deliveries were abandoned"));
        }
    }

    /// The queue goes on at another position.
    pub(crate) fn moved(&mut self, queue: QueueId, to: Position) {
        if let Some(owned) = self.owned.get_mut(&queue) {
            owned.next = to;
            owned.stopped = false;
        }
    }

    /// An attempt starts.
    pub(crate) fn attempt(&mut self, attempt: AttemptId, queue: QueueId, position: Position, number: u32) {
        let Some(epoch) = self.live(queue, "attempted") else { return };
        self.check_reserve(queue);
        let policy_blocks = self.config.when_exhausted == crate::WhenExhausted::Block;
        let most = self.config.max_attempts;
        let Some(owned) = self.owned.get_mut(&queue) else { return };
        let Some(record) = owned.records.get_mut(&position).filter(|record| record.held) else {
            self.broken(Invariant::I6, format!("{position:?} is attempted and not held"));
            return;
        };
        let lane = record.lane;
        record.started = true;
        let blocked = record.blocked;
        let expected = match (record.number, record.charge) {
            (None, _) => true,
            (Some(last), Charge::Free) => number == last,
            (Some(last), Charge::Spent) => number == last.saturating_add(1),
            (Some(last), Charge::Either) => number == last || number == last.saturating_add(1),
        };
        let last = record.number.replace(number);
        if !expected {
            self.broken(Invariant::I7, format!("{position:?} is attempted as {number} after {last:?}"));
        }
        if most > 0 && number > most && !blocked && !policy_blocks {
            self.broken(Invariant::I7, format!("{position:?} is attempted beyond the limit"));
        }
        if let Some(other) = self.busy.insert((queue, lane), attempt) {
            self.broken(Invariant::I1, format!("{attempt:?} and {other:?} run in {lane:?} of {queue:?}"));
        }
        let valid = true;
        self.attempts.insert(attempt, Attempted { queue, epoch, lane, position, valid, cancelled: false });
    }

    /// Whether the queue is owned and its lease not over.
    fn live(&mut self, queue: QueueId, what: &str) -> Option<Epoch> {
        let owned = self.owned.get(&queue);
        let live = owned
            .filter(|owned| !owned.released && owned.deadline.is_none_or(|deadline| self.now < deadline))
            .map(|owned| owned.epoch);
        if live.is_none() {
            self.broken(Invariant::I4, format!("{queue:?} is {what} without a lease"));
        }
        live
    }

    pub(crate) fn output<P>(&mut self, output: &Output<P>) {
        match output {
            Output::Fetch { queue, fetch, from, count, .. } => self.fetch(*queue, *fetch, *from, *count),
            Output::CancelFetch { queue, .. } => {
                if let Some(owned) = self.owned.get_mut(queue) {
                    owned.asked = None;
                }
            }
            Output::CancelAttempt { attempt } => {
                if let Some(attempt) = self.attempts.get_mut(attempt) {
                    attempt.cancelled = true;
                }
            }
            Output::Settle { queue, epoch, position, settlement, .. } => {
                self.settle(*queue, *epoch, *position, *settlement);
            }
            Output::Commit { queue, epoch, position, .. } => self.commit(*queue, *epoch, *position),
            Output::ReleaseQueue { queue, .. } => {
                if let Some(owned) = self.owned.get_mut(queue) {
                    owned.released = true;
                }
            }
            Output::Finished => {
                if std::mem::replace(&mut self.finished, true) {
                    self.broken(Invariant::I8, "finished twice".to_owned());
                }
            }
            Output::Event(event) => self.event(event),
            Output::JoinGroup
            | Output::LeaveGroup
            | Output::Attempt { .. }
            | Output::SaveAttempts { .. }
            | Output::SaveStorm { .. }
            | Output::Wait(_) => {}
        }
    }

    fn event(&mut self, event: &Event) {
        let Self { owned, done, .. } = self;
        match event {
            Event::Blocked { queue, position, .. } => {
                if let Some(record) = record(owned, *queue, *position) {
                    record.blocked = true;
                }
            }
            Event::Skipped { queue, position, .. } => {
                if let Some(record) = record(owned, *queue, *position) {
                    record.skipped = true;
                }
            }
            // Known from an earlier handing-over, so far as this ledger saw that one done.
            Event::Suppressed { queue, position } => {
                if let Some(record) = record(owned, *queue, *position) {
                    let known = done.contains_key(&(*queue, record.identity.clone()));
                    record.done = record.redelivered && known;
                }
            }
            Event::AttemptEnded { .. }
            | Event::Unblocked { .. }
            | Event::DeadLettered { .. }
            | Event::Moved { .. }
            | Event::Breaker { .. }
            | Event::Storm { .. }
            | Event::EndpointPaused { .. }
            | Event::Abandoned { .. }
            | Event::Stale { .. }
            | Event::ByHandRefused { .. } => {}
        }
    }
}

fn record(owned: &mut BTreeMap<QueueId, Owned>, queue: QueueId, position: Position) -> Option<&mut Record> {
    owned.get_mut(&queue)?.records.get_mut(&position)
}
