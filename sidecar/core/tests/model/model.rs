//! The reference: what the design says, kept as plain lists. It is told every input before the engine is, and every
//! output after; `allowed` judges single outputs and `owed` what is missing once the engine waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use lockstep_core::{
    AttemptId, AttemptResult, ByHand, Config, Failure, FetchId, Hold, Input, OrderingMode, RunState,
    WhenExhausted, limits,
};
use lockstep_model::{Epoch, Identity, Moment, Position, QueueId, Settlement as Style};

use crate::verdict::{Verdict, verdict};

pub(crate) type Check = Result<(), String>;

/// An ordered line: by key, by queue (`None`), or by the delivery itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    Queue,
    Key(u64),
    One(u64),
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    Done,
    DeadLettered,
    Skipped,
    Released,
}

/// A settlement's state at the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settling {
    No,
    Asked(lockstep_core::Settlement),
    Failed(Moment, lockstep_core::Settlement),
    Confirmed,
}

/// One position of one ownership, since its last move.
#[derive(Debug, Clone)]
pub(crate) struct Rec {
    pub(crate) lane: Lane,
    pub(crate) identity: Identity,
    pub(crate) undecodable: bool,
    pub(crate) redelivered: bool,
    /// Not a message of this group: passed over.
    pub(crate) filtered: bool,
    /// The serial numbers under which it was handed over.
    pub(crate) serials: Vec<u64>,
    pub(crate) fate: Fate,
    pub(crate) settling: Settling,
    pub(crate) done_at: Moment,
    /// Attempts that may have been spent so far: more than one number only where the design leaves it open.
    pub(crate) spent: BTreeSet<u32>,
    pub(crate) started: u32,
    pub(crate) ended_at: Moment,
    pub(crate) last: Option<Verdict>,
    /// The policy in force when it reached its end: a later change does not undo it.
    pub(crate) decided: Option<WhenExhausted>,
    /// How many messages were done then.
    pub(crate) decided_after: u64,
    pub(crate) not_before: Moment,
    pub(crate) snoozed: Duration,
    /// How many messages were done when it was first answered `Misconfigured`, and whether it was answered otherwise since.
    pub(crate) misconfigured: Option<(u64, bool)>,
    pub(crate) by_hand: Option<ByHand>,
    pub(crate) holds: BTreeSet<Hold>,
}

/// One ownership.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    pub(crate) epoch: Epoch,
    pub(crate) deadline: Option<Moment>,
    pub(crate) doubtful: bool,
    pub(crate) revoking: bool,
    pub(crate) revoke_by: Option<Moment>,
    pub(crate) released: bool,
    /// Given back only to be taken again, before the broker's acknowledgement timeout.
    pub(crate) rewound: bool,
    pub(crate) settle_within: Option<Duration>,
    pub(crate) since: Moment,
    /// Where it began or was moved to.
    pub(crate) base: u64,
    pub(crate) recs: BTreeMap<u64, Rec>,
    /// Behind the last position that fetches covered.
    pub(crate) covered: u64,
    pub(crate) confirmed: u64,
    pub(crate) commit: Option<u64>,
    /// One sent before the last move and not answered.
    pub(crate) old_commit: Option<u64>,
    /// Settlements likewise.
    pub(crate) old_settles: Vec<u64>,
    pub(crate) committed_most: u64,
    pub(crate) commit_failed: Option<Moment>,
    pub(crate) commit_ended: Moment,
    pub(crate) fetch: Option<(FetchId, u32)>,
    pub(crate) fetch_ended: Moment,
    /// Retention overtook unread messages and the policy is `Stop`.
    pub(crate) stopped: bool,
    /// What was finished then.
    pub(crate) stopped_at: u64,
    pub(crate) highest_started: Option<u64>,
}

/// One attempt in flight.
#[derive(Debug, Clone)]
pub(crate) struct Att {
    pub(crate) id: AttemptId,
    pub(crate) queue: QueueId,
    pub(crate) epoch: Epoch,
    pub(crate) lane: Lane,
    pub(crate) position: u64,
    pub(crate) orphan: bool,
    pub(crate) cancelled: bool,
    pub(crate) probe: bool,
}

/// What the design allows and asks for.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) config: Config,
    pub(crate) now: Moment,
    pub(crate) own: BTreeMap<QueueId, Own>,
    /// Ownerships that ended by their deadline and were not given back: that may still be told.
    pub(crate) expired: BTreeSet<(QueueId, Epoch)>,
    /// The last ownership of each queue.
    pub(crate) epochs: BTreeMap<QueueId, Epoch>,
    pub(crate) running: Vec<Att>,
    pub(crate) last_attempt: Option<AttemptId>,
    /// The log of each queue as the broker has it, by position.
    pub(crate) logs: BTreeMap<QueueId, Vec<Rec>>,
    pub(crate) carried: BTreeMap<(QueueId, Identity), BTreeSet<u32>>,
    /// What was spent when a queue was rewound, to be taken again: that is never forgotten.
    pub(crate) kept: BTreeMap<(QueueId, Identity), BTreeSet<u32>>,
    pub(crate) restored: BTreeMap<(QueueId, Identity), u32>,
    pub(crate) saved: BTreeMap<(QueueId, Identity), u32>,
    /// 2xx known whose settlement is not (one-by-one brokers).
    pub(crate) known: BTreeSet<(QueueId, Identity)>,
    /// What the last attempt came to, and whether its ownership was over.
    pub(crate) last_end: Option<(Verdict, bool)>,
    pub(crate) healthy: bool,
    pub(crate) ill_since: Moment,
    pub(crate) member: bool,
    pub(crate) leaving: bool,
    pub(crate) held: bool,
    pub(crate) drain: Option<Moment>,
    pub(crate) finished: bool,
    pub(crate) pause: Moment,
    pub(crate) limit: (u32, u32),
    pub(crate) done: u64,
    /// Distinct messages answered `Misconfigured` since the last verdict that closes the breaker.
    pub(crate) misconfigured: BTreeSet<(QueueId, Identity)>,
    /// The same if late successes do not count.
    pub(crate) blamed_most: BTreeSet<(QueueId, u64, Epoch)>,
    pub(crate) breaker_told: bool,
    pub(crate) storm_told: bool,
    /// Dead letters and skips in a row.
    pub(crate) row: u32,
    /// The same at most: late successes do not count, and what reached its end counts before it left.
    pub(crate) row_most: u32,
    pub(crate) row_of: BTreeSet<(QueueId, Identity)>,
    pub(crate) reconfigured_at: Moment,
    /// The longest backoff in force so far.
    pub(crate) longest_wait: Duration,
}

impl Model {
    pub(crate) fn new(config: Config) -> Self {
        let limit = (1, 1);
        let longest_wait = Duration::from_secs(2).max(limits::PROBE_LONGEST);
        Self {
            config,
            now: Moment::ZERO,
            own: BTreeMap::new(),
            expired: BTreeSet::new(),
            epochs: BTreeMap::new(),
            running: Vec::new(),
            last_attempt: None,
            logs: BTreeMap::new(),
            carried: BTreeMap::new(),
            kept: BTreeMap::new(),
            restored: BTreeMap::new(),
            saved: BTreeMap::new(),
            known: BTreeSet::new(),
            last_end: None,
            healthy: false,
            ill_since: Moment::ZERO,
            member: false,
            leaving: false,
            held: false,
            drain: None,
            finished: false,
            pause: Moment::ZERO,
            limit,
            done: 0,
            misconfigured: BTreeSet::new(),
            blamed_most: BTreeSet::new(),
            breaker_told: false,
            storm_told: false,
            row: 0,
            row_most: 0,
            row_of: BTreeSet::new(),
            reconfigured_at: Moment::ZERO,
            longest_wait,
        }
    }

    pub(crate) fn log(&self) -> bool {
        self.config.capabilities.settlement == Style::Cumulative
    }

    pub(crate) fn lane(&self, position: u64, key: Option<u64>) -> Lane {
        match (self.config.mode, key) {
            (OrderingMode::Unordered, _) => Lane::One(position),
            (OrderingMode::PerKey, Some(key)) => Lane::Key(key),
            (OrderingMode::PerKey, None) | (OrderingMode::PerQueue, _) => Lane::Queue,
        }
    }

    pub(crate) fn ill_too_long(&self) -> bool {
        !self.healthy && self.now >= self.ill_since + self.config.hand_over
    }

    pub(crate) fn paused(&self) -> bool {
        self.config.state == RunState::Paused
    }

    /// The first position that is not finished.
    pub(crate) fn prefix(own: &Own) -> u64 {
        let open = own.recs.iter().find(|(_, rec)| !rec.filtered && rec.fate == Fate::Open);
        open.map_or(own.covered, |(position, _)| (*position).min(own.covered))
    }

    /// An ownership ends: what runs becomes an orphan, what was spent is remembered.
    fn end(&mut self, queue: QueueId) {
        let Some(own) = self.own.remove(&queue) else { return };
        self.orphan(queue);
        self.kept.retain(|(of, _), _| *of != queue);
        for rec in own.recs.values().filter(|rec| own.rewound && rec.started > 0 && rec.fate == Fate::Open) {
            self.kept.insert((queue, rec.identity.clone()), rec.spent.clone());
        }
        self.carry(queue, &own);
    }

    fn orphan(&mut self, queue: QueueId) {
        for att in self.running.iter_mut().filter(|att| att.queue == queue) {
            att.orphan = true;
        }
    }

    fn carry(&mut self, queue: QueueId, own: &Own) {
        for rec in own.recs.values().filter(|rec| rec.identity != Identity::None && !rec.serials.is_empty()) {
            self.carried.entry((queue, rec.identity.clone())).or_default().extend(&rec.spent);
        }
    }

    /// A new line of positions from `base` on, as after an acquisition or a move.
    fn line(&self, queue: QueueId, base: u64) -> BTreeMap<u64, Rec> {
        let log = self.logs.get(&queue).map(Vec::as_slice).unwrap_or_default();
        let line = log.iter().zip(0_u64..).filter(|(_, position)| *position >= base);
        line.map(|(rec, position)| (position, self.fresh(queue, rec.clone()))).collect()
    }

    /// What may have been spent on a message before: what is remembered, or nothing.
    pub(crate) fn fresh(&self, queue: QueueId, mut rec: Rec) -> Rec {
        let id = (queue, rec.identity.clone());
        rec.spent = self.carried.get(&id).cloned().unwrap_or_default();
        rec.spent.insert(0);
        if let Some(kept) = self.kept.get(&id).filter(|_| id.1 != Identity::None) {
            rec.spent = kept.clone();
            return rec;
        }
        if let (Some(attempts), false) = (self.restored.get(&id), self.carried.contains_key(&id)) {
            rec.spent = BTreeSet::from([*attempts]);
        }
        rec
    }

    /// A message was published to a log.
    pub(crate) fn published(&mut self, queue: QueueId, rec: Rec) {
        let log = self.logs.entry(queue).or_default();
        let position = log.len() as u64;
        log.push(rec.clone());
        if let Some(own) = self.own.get_mut(&queue) {
            own.recs.insert(position, rec);
        }
    }

    /// Takes one input, before the engine does.
    pub(crate) fn input(&mut self, now: Moment, input: &Input<u64>) {
        self.now = self.now.max(now);
        let over = |own: &Own| own.deadline.is_some_and(|deadline| deadline <= self.now);
        let over: Vec<_> = self.own.iter().filter(|(_, own)| over(own)).map(|(queue, _)| *queue).collect();
        for queue in over {
            if let Some(own) = self.own.get(&queue).filter(|own| !own.released) {
                self.expired.insert((queue, own.epoch));
            }
            self.end(queue);
        }
        if let Input::QueueAcquired { queue, epoch, deadline, cursor, settle_within } = input
            && self.epochs.get(queue).is_none_or(|last| last < epoch)
            && !self.finished
        {
            self.end(*queue);
            self.acquired(*queue, *epoch, *deadline, cursor.0, *settle_within);
        }
        self.lease_input(input);
        self.broker_input(input);
        self.other_input(input);
    }

    fn acquired(
        &mut self,
        queue: QueueId,
        epoch: Epoch,
        deadline: Option<Moment>,
        base: u64,
        settle_within: Option<Duration>,
    ) {
        self.epochs.insert(queue, epoch);
        let own = Own {
            epoch,
            deadline,
            doubtful: false,
            revoking: false,
            revoke_by: None,
            released: false,
            rewound: false,
            settle_within,
            since: self.now,
            base,
            recs: self.line(queue, base),
            covered: base,
            confirmed: base,
            commit: None,
            old_commit: None,
            old_settles: Vec::new(),
            committed_most: base,
            commit_failed: None,
            commit_ended: self.now,
            fetch: None,
            fetch_ended: self.now,
            stopped: false,
            stopped_at: base,
            highest_started: None,
        };
        self.own.insert(queue, own);
    }

    fn owned(&mut self, queue: QueueId, epoch: Epoch) -> Option<&mut Own> {
        self.own.get_mut(&queue).filter(|own| own.epoch == epoch)
    }

    fn lease_input(&mut self, input: &Input<u64>) {
        let now = self.now;
        if let Input::LeaseRenewed { queue, epoch, deadline } = input
            && let Some(own) = self.owned(*queue, *epoch)
        {
            (own.deadline, own.doubtful) = (*deadline, false);
        }
        if let Input::LeaseDoubtful { queue, epoch } = input
            && let Some(own) = self.owned(*queue, *epoch)
        {
            own.doubtful = true;
        }
        if let Input::QueueRevoking { queue, epoch, deadline } = input
            && let Some(own) = self.owned(*queue, *epoch)
        {
            // Asked twice, the earlier end holds.
            own.revoking = true;
            own.revoke_by = own.revoke_by.into_iter().chain(*deadline).min();
        }
        if let Input::RevocationCancelled { queue, epoch } = input
            && let Some(own) = self.owned(*queue, *epoch)
        {
            (own.revoking, own.revoke_by) = (false, None);
            own.fetch_ended = own.fetch_ended.max(now);
        }
        if let Input::QueueLost { queue, epoch } | Input::Released { queue, epoch } = input
            && self.owned(*queue, *epoch).is_some()
        {
            self.end(*queue);
        }
        if let Input::PositionMoved { queue, epoch, to, reset } = input
            && self.owned(*queue, *epoch).is_some_and(|own| !own.released)
        {
            self.moved(*queue, to.0, *reset);
        }
    }

    fn moved(&mut self, queue: QueueId, to: u64, reset: bool) {
        self.orphan(queue);
        let stop = self.config.on_data_loss == lockstep_core::DataLossPolicy::Stop;
        let Some(mut own) = self.own.remove(&queue) else { return };
        self.carry(queue, &own);
        let line = self.line(queue, to);
        let from = if own.stopped { own.stopped_at } else { Self::prefix(&own) };
        own.stopped = !reset && stop && to > from;
        own.stopped_at = from;
        let asked = own.recs.iter().filter(|(_, rec)| matches!(rec.settling, Settling::Asked(_)));
        own.old_settles.extend(asked.map(|(position, _)| *position));
        own.recs = line;
        own.old_commit = own.commit.take().or(own.old_commit);
        own.commit_failed = Some(self.now);
        own.fetch_ended = self.now;
        own.highest_started = None;
        (own.base, own.covered, own.confirmed) = (to, to, to);
        // A stopped queue stays where it is until it goes on.
        own.committed_most = if own.stopped { from.min(own.committed_most) } else { to };
        self.own.insert(queue, own);
    }

    fn broker_input(&mut self, input: &Input<u64>) {
        let now = self.now;
        if let Input::FetchFailed { queue, epoch, fetch } = input
            && let Some(own) = self.owned(*queue, *epoch)
            && own.fetch.is_some_and(|(id, _)| id == *fetch)
        {
            (own.fetch, own.fetch_ended) = (None, now);
        }
        if let Input::Fetched { queue, epoch, fetch, deliveries, next } = input
            && self.owned(*queue, *epoch).is_some_and(|own| own.fetch.is_some_and(|(id, _)| id == *fetch))
        {
            self.fetched(*queue, deliveries, *next);
        }
        if let Input::Committed { queue, epoch, position, result } = input
            && let Some(own) = self.owned(*queue, *epoch)
            && (own.commit == Some(position.0) || own.old_commit == Some(position.0))
        {
            own.commit_ended = now;
            let old = own.old_commit.take_if(|old| *old == position.0).is_some();
            own.commit_failed = result.err().map(|failure| Self::again_at(now, failure));
            if !old {
                own.commit = None;
            }
            if !old && result.is_ok() {
                own.confirmed = position.0;
            }
        }
        if let Input::Settled { queue, epoch, position, result } = input {
            self.settled(*queue, *epoch, position.0, *result);
        }
    }

    /// When a failed operation is repeated at the latest.
    fn again_at(now: Moment, failure: Failure) -> Moment {
        let wait =
            if failure == Failure::Permanent { limits::REPEAT_PERMANENT } else { limits::REPEAT_LONGEST };
        now + wait
    }

    fn fetched(&mut self, queue: QueueId, deliveries: &[lockstep_core::Incoming<u64>], next: Position) {
        let (now, log) = (self.now, self.log());
        for delivery in deliveries {
            let lane = self.lane(delivery.position.0, delivery.key.map(|key| key.0));
            let rec = self.fresh(queue, Rec::new(lane, delivery));
            // One whose attempts were spent before ends as soon as it comes.
            self.row_most += u32::from(self.spent(&rec, false));
            let Some(own) = self.own.get_mut(&queue) else { return };
            if log && delivery.position.0 < own.base {
                continue;
            }
            own.recs.entry(delivery.position.0).or_insert(rec).serials.push(delivery.payload);
            own.covered = own.covered.max(delivery.position.0 + 1);
        }
        let Some(own) = self.own.get_mut(&queue) else { return };
        (own.fetch, own.fetch_ended) = (None, now);
        own.covered = own.covered.max(next.0);
    }

    fn settled(&mut self, queue: QueueId, epoch: Epoch, position: u64, result: Result<(), Failure>) {
        let now = self.now;
        let Some(own) = self.owned(queue, epoch) else { return };
        // The same message at the same place: the first answer counts, whichever it is to.
        let asked = own.recs.get(&position).is_some_and(|rec| matches!(rec.settling, Settling::Asked(_)));
        if let (false, Some(old)) = (asked, own.old_settles.iter().position(|old| *old == position)) {
            own.old_settles.remove(old);
            return;
        }
        let Some(rec) = own.recs.get_mut(&position) else { return };
        let Settling::Asked(settlement) = rec.settling else { return };
        if let Err(failure) = result {
            rec.settling = Settling::Failed(Self::again_at(now, failure), settlement);
            return;
        }
        rec.settling = Settling::Confirmed;
        if settlement == lockstep_core::Settlement::DeadLetter {
            rec.fate = Fate::DeadLettered;
            rec.done_at = now;
        }
        let id = (queue, rec.identity.clone());
        self.known.remove(&id);
    }

    fn other_input(&mut self, input: &Input<u64>) {
        if let Input::AttemptEnded { attempt, results } = input
            && let (Some(index), [result]) =
                (self.running.iter().position(|att| att.id == *attempt), results.as_slice())
        {
            let att = self.running.remove(index);
            self.ended(&att, result);
        }
        if matches!(input, Input::Left) {
            self.leaving = false;
        }
        if let Input::HealthChanged { healthy } = input {
            if self.healthy && !healthy {
                self.ill_since = self.now;
            }
            if !self.healthy && *healthy {
                self.pause = Moment::ZERO;
            }
            self.healthy = *healthy;
        }
        if let Input::Reconfigured(config) = input {
            self.reconfigure(config);
        }
        if let Input::DispatchHeld(held) = input {
            self.held = *held;
        }
        if let Input::DrainRequested { deadline } = input {
            self.drain = Some(self.drain.map_or(*deadline, |earlier| earlier.min(*deadline)));
        }
        if let Input::ByHand { queue, position, action } = input
            && let Some(rec) = self.own.get_mut(queue).and_then(|own| own.recs.get_mut(&position.0))
        {
            rec.by_hand = Some(*action);
        }
        if let Input::AttemptsRestored { queue, identity, attempts } = input {
            self.restored.insert((*queue, identity.clone()), *attempts);
            self.saved.insert((*queue, identity.clone()), *attempts);
        }
        if let Input::StormRestored { in_row } = input {
            (self.row, self.row_most) = (*in_row, *in_row);
        }
    }

    fn reconfigure(&mut self, config: &Config) {
        let going_on = config.on_data_loss == lockstep_core::DataLossPolicy::Continue;
        for own in self.own.values_mut() {
            own.stopped &= !going_on;
            // What waits by an old setting may be judged again.
            for rec in own.recs.values_mut() {
                rec.not_before = rec.not_before.min(self.now + config.retry_after_max);
            }
        }
        self.pause = self.pause.min(self.now + config.retry_after_max);
        self.limit.0 = self.limit.0.min(config.max_in_flight);
        self.limit.1 = self.limit.1.min(config.max_in_flight);
        self.reconfigured_at = self.now;
        self.config = config.clone();
    }

    fn ended(&mut self, att: &Att, result: &AttemptResult) {
        let verdict = verdict(&self.config, result);
        self.adapt(att, result, verdict);
        self.last_end = Some((verdict, att.orphan));
        let closes = !matches!(verdict, Verdict::Misconfigured | Verdict::Unreachable);
        let open = self.misconfigured.len() >= limits::BREAKER_MESSAGES;
        if verdict == Verdict::Done || (closes && open) {
            self.misconfigured.clear();
        }
        if verdict == Verdict::Done && !att.orphan {
            self.row_most = 0;
            self.blamed_most.clear();
        }
        if verdict == Verdict::Done {
            self.row = 0;
            self.row_of.clear();
        }
        if att.orphan {
            return;
        }
        let (now, done, cap) = (self.now, self.done, self.config.retry_after_max);
        let (max, policy) = (self.config.max_attempts, self.config.when_exhausted);
        if verdict == Verdict::Misconfigured {
            let rec = self.own.get(&att.queue).and_then(|own| own.recs.get(&att.position));
            let identity = rec.map(|rec| rec.identity.clone()).filter(|identity| *identity != Identity::None);
            self.misconfigured.extend(identity.map(|identity| (att.queue, identity)));
            self.blamed_most.insert((att.queue, att.position, att.epoch));
        }
        let open = self.misconfigured.len() >= limits::BREAKER_MESSAGES || self.breaker_told;
        self.done += u64::from(verdict == Verdict::Done);
        let Some(rec) = self.owned(att.queue, att.epoch).and_then(|own| own.recs.get_mut(&att.position))
        else {
            return;
        };
        rec.ended_at = now;
        rec.last = Some(verdict);
        rec.not_before = now;
        if verdict == Verdict::Done {
            rec.fate = Fate::Done;
            rec.done_at = now;
            let id = (att.queue, rec.identity.clone());
            self.known.insert(id);
            return;
        }
        if open && let Some((_, otherwise)) = &mut rec.misconfigured {
            // While the breaker is open it is the endpoint's fault more than the message's.
            *otherwise = true;
        }
        let pause = rec.judge(verdict, now, done, cap);
        let spent = max > 0 && rec.spent.last().is_some_and(|spent| *spent >= max);
        let over = spent || matches!(verdict, Verdict::Never | Verdict::DeadLetter | Verdict::Skip);
        rec.decided = over.then_some(policy);
        rec.decided_after = done;
        self.row_most += u32::from(over);
        if let Some(pause) = pause {
            self.pause = self.pause.max(now + pause);
        }
    }

    /// The adaptive limit: what it is at least and at most.
    fn adapt(&mut self, att: &Att, result: &AttemptResult, verdict: Verdict) {
        let most = self.config.max_in_flight;
        let status = if let AttemptResult::Answered(answer) = result { answer.status } else { 0 };
        let late = matches!(result, AttemptResult::Failed(lockstep_core::TransportFailure::TimedOut));
        if verdict == Verdict::Done {
            self.limit.1 = self.limit.1.saturating_mul(2).min(most);
            if !att.orphan {
                self.limit.0 = self.limit.0.saturating_mul(2).min(most);
            }
        } else if late || matches!(status, 429 | 503) {
            self.limit.0 = (self.limit.0 / 2).max(1);
            if !att.orphan && matches!(verdict, Verdict::Again | Verdict::Pause(_)) {
                self.limit.1 = (self.limit.1 / 2).max(1);
            }
        }
    }
}

impl Rec {
    pub(crate) fn new(lane: Lane, delivery: &lockstep_core::Incoming<u64>) -> Self {
        Self {
            lane,
            identity: delivery.identity.clone(),
            undecodable: delivery.undecodable,
            redelivered: delivery.redeliveries > 0,
            filtered: false,
            serials: Vec::new(),
            fate: Fate::Open,
            settling: Settling::No,
            done_at: Moment::ZERO,
            spent: BTreeSet::new(),
            started: 0,
            ended_at: Moment::ZERO,
            last: None,
            decided: None,
            decided_after: 0,
            not_before: Moment::ZERO,
            snoozed: Duration::ZERO,
            misconfigured: None,
            by_hand: None,
            holds: BTreeSet::new(),
        }
    }

    /// What an outcome other than `Done` costs, and how long the endpoint pauses for it.
    fn judge(&mut self, verdict: Verdict, now: Moment, done: u64, cap: Duration) -> Option<Duration> {
        let plus: BTreeSet<u32> = self.spent.iter().map(|spent| spent + 1).collect();
        if let (Some((_, otherwise)), true) = (&mut self.misconfigured, verdict != Verdict::Misconfigured) {
            *otherwise = true;
        }
        match verdict {
            Verdict::Done | Verdict::Unreachable => None,
            Verdict::Again | Verdict::Never | Verdict::DeadLetter | Verdict::Skip => {
                self.spent = plus;
                None
            }
            Verdict::Pause(wait) | Verdict::Snooze(wait) => {
                let wait = wait.min(cap);
                let total = cap * limits::SNOOZE_CAPS;
                let (before, after) = (self.snoozed, self.snoozed + wait.max(limits::SNOOZE_LEAST));
                self.snoozed = after;
                let free = after <= total;
                if before >= total {
                    self.spent = plus;
                } else if !free {
                    self.spent.extend(plus);
                }
                let snooze = matches!(verdict, Verdict::Snooze(_));
                if free && snooze {
                    self.not_before = now + wait;
                }
                (free && !snooze).then_some(wait)
            }
            Verdict::Misconfigured => {
                let (first, otherwise) = *self.misconfigured.get_or_insert((done, false));
                if otherwise {
                    self.spent.extend(plus);
                } else if done > first {
                    self.spent = plus;
                }
                None
            }
        }
    }
}
