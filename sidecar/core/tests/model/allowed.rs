//! Whether the design allows an output now.

use lockstep_core::{
    AttemptId, AttemptNotice, ByHand, Engine, Event, FetchId, Hold, OrderingMode, Output, Settlement,
    UndecodablePolicy, WhenExhausted, limits,
};
use lockstep_model::{Epoch, Identity, Moment, Position, QueueId, Settlement as Style};

use crate::{
    model::{Att, Check, Fate, Model, Own, Rec, Settling},
    verdict::Verdict,
};

macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(format!($($what)+));
        }
    };
}
pub(crate) use ensure;

/// What an `Attempt` says.
struct Start {
    attempt: AttemptId,
    queue: QueueId,
    epoch: Epoch,
    payload: u64,
    number: u32,
}

impl Model {
    /// Judges one output and takes it as done.
    pub(crate) fn output(&mut self, output: &Output<u64>, engine: &Engine<u64>) -> Check {
        if self.finished {
            let quiet = matches!(output, Output::Wait(_) | Output::Event(_));
            ensure!(quiet, "I8: something follows Finished");
        }
        match output {
            Output::JoinGroup => self.join(),
            Output::LeaveGroup => self.leave(),
            Output::Fetch { queue, epoch, fetch, from, count, bytes } => {
                ensure!(*bytes > 0, "I5: a fetch of no bytes");
                self.fetch(*queue, *epoch, *fetch, from.0, *count, engine)
            }
            Output::CancelFetch { queue, fetch } => self.cancel_fetch(*queue, *fetch),
            Output::Attempt {
                attempt,
                queue,
                epoch,
                deliveries,
                number,
                not_after,
                lease_deadline,
                timeout,
            } => {
                let [payload] = deliveries.as_slice() else { return Err("not one delivery".to_owned()) };
                ensure!(*timeout == self.config.timeout, "the timeout is {timeout:?}");
                let deadline = self.own.get(queue).and_then(|own| own.deadline);
                ensure!(*lease_deadline == deadline, "the lease ends at {deadline:?}");
                ensure!(in_time(*not_after, deadline), "I9: it may start until {not_after:?}");
                let (attempt, queue, epoch, number) = (*attempt, *queue, *epoch, *number);
                self.attempt(&Start { attempt, queue, epoch, payload: *payload, number })
            }
            Output::CancelAttempt { attempt } => self.cancel(*attempt),
            Output::Settle { queue, epoch, position, payload, settlement, not_after, .. } => {
                let deadline = self.own.get(queue).and_then(|own| own.deadline);
                ensure!(in_time(*not_after, deadline), "I9: settled until {not_after:?}");
                self.settle(*queue, *epoch, position.0, *payload, *settlement)
            }
            Output::Commit { queue, epoch, position, last, not_after } => {
                let deadline = self.own.get(queue).and_then(|own| own.deadline);
                ensure!(in_time(*not_after, deadline), "I9: committed until {not_after:?}");
                self.commit(*queue, *epoch, *position, last)
            }
            Output::ReleaseQueue { queue, epoch } => self.release(*queue, *epoch),
            Output::SaveAttempts { queue, identity, attempts } => {
                self.saved.insert((*queue, identity.clone()), *attempts);
                Ok(())
            }
            Output::SaveStorm { .. } => Ok(()),
            Output::Event(event) => self.event(event),
            Output::Wait(wake) => {
                ensure!(wake.is_none_or(|wake| wake > self.now), "it waits for the past");
                Ok(())
            }
            Output::Finished => self.finish(),
        }
    }

    /// The ownership under which something may be done now.
    fn live(&self, queue: QueueId, epoch: Epoch) -> Result<&Own, String> {
        let own = self.own.get(&queue).filter(|own| own.epoch == epoch);
        let own = own.ok_or_else(|| format!("I4: {queue:?} is not owned under {epoch:?}"))?;
        ensure!(!own.released, "I4: {queue:?} is given back");
        Ok(own)
    }

    fn join(&mut self) -> Check {
        ensure!(self.healthy, "joined without health");
        ensure!(!self.member && !self.leaving, "joined twice");
        ensure!(!self.paused(), "joined though paused");
        ensure!(self.drain.is_none(), "joined while draining");
        self.member = true;
        Ok(())
    }

    fn leave(&mut self) -> Check {
        ensure!(self.member, "left without having joined");
        let reason = self.paused() || self.drain.is_some() || self.ill_too_long();
        ensure!(reason, "left for no reason");
        (self.member, self.leaving) = (false, true);
        Ok(())
    }

    fn finish(&mut self) -> Check {
        let drain = self.drain.ok_or("finished without a drain")?;
        let clean = self.own.is_empty() && !self.member && !self.leaving;
        ensure!(clean || self.now >= drain, "I8: finished before everything was given back");
        self.finished = true;
        Ok(())
    }

    /// Deliveries that the engine holds and has not attempted.
    fn buffered(own: &Own, queue: QueueId, engine: &Engine<u64>) -> usize {
        let held = |(position, _): &(&u64, &Rec)| engine.payload(queue, Position(**position)).is_some();
        own.recs.iter().filter(|(_, rec)| rec.started == 0 && rec.fate == Fate::Open).filter(held).count()
    }

    fn fetch(
        &mut self,
        queue: QueueId,
        epoch: Epoch,
        id: FetchId,
        from: u64,
        count: u32,
        engine: &Engine<u64>,
    ) -> Check {
        ensure!(self.drain.is_none(), "I8: fetched while draining");
        ensure!(self.member && !self.paused(), "fetched without being a member");
        let config = &self.config;
        let own = self.live(queue, epoch)?;
        ensure!(!own.revoking, "fetched from a revoked queue");
        ensure!(own.fetch.is_none(), "two fetches at once");
        ensure!(!own.stopped, "fetched beyond lost messages");
        ensure!((1..=limits::FETCH_MOST).contains(&count), "I5: a fetch of {count}");
        let whole: usize = self.own.iter().map(|(queue, own)| Self::buffered(own, *queue, engine)).sum();
        let held = Self::buffered(own, queue, engine);
        let share = (config.buffer_count as usize / self.own.len()).max(1);
        let (most, asked) = (config.buffer_count as usize, count as usize);
        ensure!(held + asked <= share, "I5: {held} held, {asked} asked for, its share is {share}");
        ensure!(whole < most || held == 0, "I5: {whole} of {most} held and still fetched");
        if let (Some(most), false) = (config.capabilities.lookahead, config.capabilities.reread) {
            let open = own.recs.values().filter(|rec| !rec.serials.is_empty() && rec.unsettled()).count();
            ensure!(
                open + count as usize <= most as usize,
                "{open} unsettled, {count} asked for, {most} allowed"
            );
        }
        if self.log() {
            let ahead = own.recs.range(from..).next().is_none_or(|(_, rec)| rec.fate == Fate::Open);
            ensure!(ahead, "fetches the finished position {from} again");
            if config.mode != OrderingMode::PerQueue {
                let span = u64::from(config.span);
                let between = own.recs.range(Self::prefix(own).min(from)..from);
                let between = between.filter(|(_, rec)| !rec.filtered).count() as u64;
                ensure!(between <= span, "I5: fetches at {from}, {between} ahead: beyond the span");
            }
        }
        if let Some(own) = self.own.get_mut(&queue) {
            own.fetch = Some((id, count));
        }
        Ok(())
    }

    fn cancel_fetch(&mut self, queue: QueueId, id: FetchId) -> Check {
        if let Some(own) = self.own.get_mut(&queue)
            && own.fetch.is_some_and(|(fetch, _)| fetch == id)
        {
            (own.fetch, own.fetch_ended) = (None, self.now);
        }
        Ok(())
    }

    /// Finished deliveries that the broker has not confirmed: what a crash repeats.
    pub(crate) fn unconfirmed(&self, own: &Own) -> usize {
        let from = if self.log() { own.confirmed } else { 0 };
        let finished =
            own.recs.range(from..).filter(|(_, rec)| !matches!(rec.fate, Fate::Open | Fate::Released));
        finished.filter(|(_, rec)| self.log() || rec.settling != Settling::Confirmed).count()
    }

    /// Whether only holes may be closed in that queue: no new work is taken on.
    pub(crate) fn winding_down(&self, own: &Own) -> bool {
        own.revoking || self.drain.is_some() || self.paused() || self.held || !self.member
    }

    fn attempt(&mut self, start: &Start) -> Check {
        let Start { attempt, queue, epoch, payload, number } = *start;
        ensure!(self.last_attempt.is_none_or(|last| last < attempt), "attempts are not numbered upwards");
        let own = self.live(queue, epoch)?;
        let found = own.recs.iter().find(|(_, rec)| rec.serials.contains(&payload));
        let (position, rec) = found.ok_or("it was never handed over in this ownership")?;
        let (position, lane) = (*position, rec.lane);
        self.gates(own, position, rec)?;
        self.order(own, queue, position, rec)?;
        self.number(queue, rec, number)?;
        self.policy(rec)?;
        ensure!((self.running.len() as u32) < self.limit.1, "over the limit of {}", self.limit.1);
        // Where each delivery is settled at once, the queue's share is the bound.
        if self.config.mode == OrderingMode::PerQueue && self.log() {
            let done = self.unconfirmed(own);
            ensure!((done as u64) < limits::UNCONFIRMED_MOST, "{done} unconfirmed");
        }
        let probe = self.misconfigured.len() >= limits::BREAKER_MESSAGES;
        if probe {
            ensure!(!self.running.iter().any(|att| att.probe), "two probes at once");
        }
        let (orphan, cancelled) = (false, false);
        self.running.push(Att { id: attempt, queue, epoch, lane, position, orphan, cancelled, probe });
        self.last_attempt = Some(attempt);
        if let Some(own) = self.own.get_mut(&queue) {
            own.highest_started = own.highest_started.max(Some(position));
            if let Some(rec) = own.recs.get_mut(&position) {
                rec.started += 1;
                rec.spent.retain(|spent| spent + 1 == number);
            }
        }
        Ok(())
    }

    fn gates(&self, own: &Own, position: u64, rec: &Rec) -> Check {
        ensure!(!own.doubtful, "attempted under doubt");
        ensure!(self.healthy, "attempted without health");
        ensure!(!own.stopped, "attempted beyond lost messages");
        ensure!(self.config.quiet_until.is_none_or(|until| self.now >= until), "attempted in the quiet time");
        ensure!(self.now >= self.pause, "attempted though the endpoint pauses until {:?}", self.pause);
        ensure!(self.now >= rec.not_before, "attempted though snoozed until {:?}", rec.not_before);
        let reserve = own.deadline.is_none_or(|deadline| self.now + limits::LEASE_RESERVE <= deadline);
        ensure!(reserve, "I9: attempted inside the reserve");
        if self.winding_down(own) {
            ensure!(self.config.mode != OrderingMode::PerQueue, "attempted while winding down");
            ensure!(rec.started == 0, "tried again while winding down");
            ensure!(own.highest_started > Some(position), "attempted beyond the holes while winding down");
        }
        Ok(())
    }

    fn order(&self, own: &Own, queue: QueueId, position: u64, rec: &Rec) -> Check {
        ensure!(rec.fate == Fate::Open, "attempted though {:?}", rec.fate);
        ensure!(!rec.undecodable, "attempted though undecodable");
        let asked = matches!(rec.settling, Settling::Asked(_));
        ensure!(!asked, "attempted while it is settled");
        let earlier = own
            .recs
            .range(..position)
            .find(|(_, other)| other.lane == rec.lane && other.fate == Fate::Open && !other.filtered);
        ensure!(earlier.is_none(), "order: {position} before {:?}", earlier.map(|(position, _)| position));
        let busy = self.running.iter().find(|att| att.queue == queue && att.lane == rec.lane);
        ensure!(busy.is_none(), "I1: its lane runs {:?}", busy.map(|att| att.id));
        if self.log() && self.config.mode != OrderingMode::PerQueue {
            let ahead = self.unconfirmed(own);
            ensure!(ahead <= self.config.span as usize, "{ahead} finished ahead: over the span");
        }
        Ok(())
    }

    fn number(&self, queue: QueueId, rec: &Rec, number: u32) -> Check {
        let expected = rec.spent.iter().any(|spent| spent + 1 == number);
        ensure!(expected, "I7: attempt {number} after {:?} spent", rec.spent);
        if number > 1 && rec.started > 0 && rec.identity != Identity::None {
            let saved = self.saved.get(&(queue, rec.identity.clone())).copied();
            ensure!(
                saved == Some(number - 1),
                "I7: {saved:?} spent attempts are saved before attempt {number}"
            );
        }
        Ok(())
    }

    /// `whenExhausted` takes effect at once: no attempt follows the last.
    fn policy(&self, rec: &Rec) -> Check {
        let excused =
            rec.holds.contains(&Hold::DeadLetterStorm) || rec.holds.contains(&Hold::DeadLetterFailed);
        if excused || self.reconfigured_at >= rec.ended_at || rec.by_hand.is_some() {
            return Ok(());
        }
        let said = matches!(rec.last, Some(Verdict::DeadLetter | Verdict::Skip));
        let ends = self.config.when_exhausted != WhenExhausted::Block;
        let over =
            rec.last == Some(Verdict::Never) || (rec.last == Some(Verdict::Again) && self.spent(rec, true));
        ensure!(!(said || ends && over), "I7: attempted once more after its end");
        Ok(())
    }

    /// Whether its attempts are spent: surely, or possibly.
    pub(crate) fn spent(&self, rec: &Rec, surely: bool) -> bool {
        let spent = if surely { rec.spent.first() } else { rec.spent.last() };
        self.config.max_attempts > 0 && spent.is_some_and(|spent| *spent >= self.config.max_attempts)
    }

    fn cancel(&mut self, id: AttemptId) -> Check {
        let now = self.now;
        let soon = |end: Option<Moment>| end.is_some_and(|end| now + limits::LEASE_RESERVE >= end);
        let att = self.running.iter().find(|att| att.id == id).ok_or("cancelled though it does not run")?;
        ensure!(!att.cancelled, "cancelled twice");
        let own = self.own.get(&att.queue).filter(|own| own.epoch == att.epoch && !att.orphan);
        let reason = own.is_none_or(|own| {
            let rewind = own.settle_within.map(|within| own.since + within / 2);
            soon(own.deadline) || soon(self.drain) || soon(own.revoke_by) || soon(rewind)
        });
        ensure!(reason, "cancelled for no reason");
        self.running.iter_mut().filter(|att| att.id == id).for_each(|att| att.cancelled = true);
        Ok(())
    }

    fn settle(
        &mut self,
        queue: QueueId,
        epoch: Epoch,
        position: u64,
        payload: u64,
        what: Settlement,
    ) -> Check {
        let own = self.live(queue, epoch)?;
        let rec = own.recs.get(&position).ok_or("settles what was not handed over")?;
        ensure!(rec.serials.contains(&payload), "settles with a foreign payload");
        ensure!(!matches!(rec.settling, Settling::Asked(_) | Settling::Confirmed), "I6: settled twice");
        let again = matches!(rec.settling, Settling::Failed(_, earlier) if earlier == what);
        match what {
            Settlement::Accept => {
                ensure!(self.config.capabilities.settlement == Style::PerDelivery, "accepted in a log");
                ensure!(matches!(rec.fate, Fate::Done | Fate::Skipped), "I2: accepted while {:?}", rec.fate);
            }
            Settlement::Release => {
                let unordered = self.config.mode == OrderingMode::Unordered && !self.log();
                ensure!(unordered, "given back where that costs the order");
                ensure!(again || rec.fate == Fate::Open, "I6: given back though {:?}", rec.fate);
            }
            Settlement::DeadLetter => {
                ensure!(rec.fate == Fate::Open, "I6: dead-lettered though {:?}", rec.fate);
                let undecodable = rec.undecodable && self.config.undecodable == UndecodablePolicy::DeadLetter;
                let by_hand = rec.by_hand == Some(ByHand::DeadLetter);
                let said = rec.last == Some(Verdict::DeadLetter) || self.ends(rec, WhenExhausted::DeadLetter);
                ensure!(again || undecodable || by_hand || said, "I2: dead-lettered for no reason");
                if !again && !undecodable && !by_hand {
                    self.count_row(queue, position)?;
                }
            }
        }
        if let Some(rec) = self.own.get_mut(&queue).and_then(|own| own.recs.get_mut(&position)) {
            rec.settling = Settling::Asked(what);
            if what == Settlement::Release {
                self.carried.entry((queue, rec.identity.clone())).or_default().extend(&rec.spent);
                rec.fate = Fate::Released;
            }
        }
        Ok(())
    }

    /// Whether the policy may have ended it.
    fn ends(&self, rec: &Rec, policy: WhenExhausted) -> bool {
        let over = rec.last == Some(Verdict::Never) || self.spent(rec, false);
        rec.decided == Some(policy) || (self.config.when_exhausted == policy && over)
    }

    /// Counts a dead letter or skip in a row; the storm guard lets at most all but one through.
    fn count_row(&mut self, queue: QueueId, position: u64) -> Check {
        let Some(rec) = self.own.get(&queue).and_then(|own| own.recs.get(&position)) else { return Ok(()) };
        // It was let go before the last success, and only leaves now.
        if rec.decided.is_some() && rec.decided_after < self.done {
            return Ok(());
        }
        if rec.identity == Identity::None || self.row_of.insert((queue, rec.identity.clone())) {
            self.row += 1;
            self.row_most += 1;
        }
        let most = self.config.storm - 1;
        ensure!(self.row <= most || self.row == 0, "storm: {} in a row, {most} allowed", self.row);
        Ok(())
    }

    fn commit(&mut self, queue: QueueId, epoch: Epoch, position: Position, last: &Identity) -> Check {
        ensure!(self.log(), "a commit where each delivery is settled");
        let own = self.live(queue, epoch)?;
        ensure!(own.commit.is_none(), "two commits at once");
        ensure!(position.0 <= Self::prefix(own), "I3: commits {} beyond {}", position.0, Self::prefix(own));
        ensure!(position.0 >= own.committed_most, "commits {} after {}", position.0, own.committed_most);
        let mut before = own.recs.range(..position.0).rev().filter(|(_, rec)| !rec.serials.is_empty());
        let truth = before.next().map(|(_, rec)| &rec.identity);
        let right = *last == Identity::None || truth == Some(last);
        ensure!(right, "the delivery before {} is {truth:?}, not {last:?}", position.0);
        if let Some(own) = self.own.get_mut(&queue) {
            (own.commit, own.committed_most) = (Some(position.0), position.0);
        }
        Ok(())
    }

    fn release(&mut self, queue: QueueId, epoch: Epoch) -> Check {
        let now = self.now;
        let soon = |end: Option<Moment>| end.is_some_and(|end| now + limits::LEASE_RESERVE >= end);
        if self.expired.remove(&(queue, epoch)) {
            return Ok(());
        }
        let own = self.live(queue, epoch)?;
        let rewind = soon(own.settle_within.map(|within| own.since + within / 2));
        let asked = own.revoking || self.drain.is_some() || self.paused() || !self.member;
        let ill = self.ill_too_long();
        ensure!(asked || ill || rewind, "released for no reason");
        let late = soon(own.revoke_by) || soon(self.drain) || soon(own.deadline);
        if !late {
            let mut running = self.running.iter().filter(|att| att.queue == queue && !att.orphan);
            let running = running.next().map(|att| att.id);
            ensure!(running.is_none(), "released while {running:?} runs");
            if self.log() {
                let (prefix, confirmed) = (Self::prefix(own), own.confirmed);
                let finished = own.recs.range(confirmed..prefix).any(|(_, rec)| !rec.filtered);
                ensure!(!finished, "released at {confirmed} with {prefix} not committed");
            }
        }
        if let Some(own) = self.own.get_mut(&queue) {
            (own.released, own.rewound) = (true, !asked && !ill);
        }
        for att in self.running.iter_mut().filter(|att| att.queue == queue) {
            att.orphan = true;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Check {
        match event {
            Event::Skipped { queue, position, by_hand } => self.skipped(*queue, position.0, *by_hand),
            Event::Suppressed { queue, position } => self.suppressed(*queue, position.0),
            Event::Blocked { queue, position, hold, .. } => self.blocked(*queue, position.0, *hold),
            Event::DeadLettered { queue, position, .. } => {
                let rec = self.own.get(queue).and_then(|own| own.recs.get(&position.0));
                let confirmed = rec.is_none_or(|rec| rec.fate == Fate::DeadLettered);
                ensure!(confirmed, "told as dead-lettered before it was confirmed");
                Ok(())
            }
            Event::ByHandRefused { queue, position } => {
                if let Some(rec) = self.own.get_mut(queue).and_then(|own| own.recs.get_mut(&position.0)) {
                    rec.by_hand = None;
                }
                Ok(())
            }
            Event::Breaker { open } => {
                self.breaker_told = *open;
                let enough = self.misconfigured.len() >= limits::BREAKER_MESSAGES;
                let maybe = self.blamed_most.len() >= limits::BREAKER_MESSAGES;
                ensure!(!open || maybe, "the breaker opens without a reason");
                ensure!(*open || !enough, "the breaker closes without a reason");
                Ok(())
            }
            Event::Storm { open } => {
                self.storm_told = *open;
                Ok(())
            }
            Event::AttemptEnded { queue, position, notice, attempts, .. } => {
                self.told(*queue, position.0, *notice, *attempts)
            }
            Event::Unblocked { .. }
            | Event::Moved { .. }
            | Event::EndpointPaused { .. }
            | Event::Abandoned { .. }
            | Event::Stale { .. } => Ok(()),
        }
    }

    /// What metrics are told of an attempt is what came of it.
    fn told(&self, queue: QueueId, position: u64, notice: AttemptNotice, attempts: u32) -> Check {
        let Some((verdict, orphan)) = self.last_end else { return Err("no attempt ended".to_owned()) };
        let right = match notice {
            AttemptNotice::Late => orphan,
            AttemptNotice::Done => verdict == Verdict::Done,
            AttemptNotice::Again => {
                matches!(verdict, Verdict::Again | Verdict::Pause(_) | Verdict::Snooze(_))
            }
            AttemptNotice::Snoozed => matches!(verdict, Verdict::Pause(_) | Verdict::Snooze(_)),
            AttemptNotice::Never => matches!(verdict, Verdict::Never | Verdict::DeadLetter | Verdict::Skip),
            AttemptNotice::Misconfigured => verdict == Verdict::Misconfigured,
            AttemptNotice::Unreachable | AttemptNotice::Cancelled => verdict == Verdict::Unreachable,
        };
        ensure!(right, "told as {notice:?}, was {verdict:?}");
        let rec = self.own.get(&queue).and_then(|own| own.recs.get(&position)).filter(|_| !orphan);
        let counted = rec.is_none_or(|rec| rec.spent.contains(&attempts));
        ensure!(counted, "I7: told that {attempts} are spent");
        Ok(())
    }

    fn skipped(&mut self, queue: QueueId, position: u64, by_hand: bool) -> Check {
        let rec = self.own.get(&queue).and_then(|own| own.recs.get(&position));
        let rec = rec.ok_or("skips what was not handed over")?;
        ensure!(rec.fate == Fate::Open, "I6: skipped though {:?}", rec.fate);
        if by_hand {
            ensure!(rec.by_hand == Some(ByHand::Skip), "skipped by nobody's hand");
        } else {
            let said = rec.last == Some(Verdict::Skip) || self.ends(rec, WhenExhausted::Skip);
            ensure!(said, "I2: skipped for no reason");
            self.count_row(queue, position)?;
        }
        let now = self.now;
        if let Some(rec) = self.own.get_mut(&queue).and_then(|own| own.recs.get_mut(&position)) {
            (rec.fate, rec.done_at) = (Fate::Skipped, now);
        }
        Ok(())
    }

    fn suppressed(&mut self, queue: QueueId, position: u64) -> Check {
        let (now, log) = (self.now, self.log());
        let rec = self.own.get_mut(&queue).and_then(|own| own.recs.get_mut(&position));
        let rec = rec.ok_or("suppresses what was not handed over")?;
        ensure!(rec.identity != Identity::None, "I2: suppressed without an identity");
        if log {
            ensure!(rec.fate == Fate::Done, "I2: suppressed without a known 2xx");
            return Ok(());
        }
        let unique = matches!(rec.identity, Identity::Unique(_));
        ensure!(rec.redelivered && unique, "I2: suppressed though it may be another message");
        let known = self.known.contains(&(queue, rec.identity.clone()));
        ensure!(known, "I2: suppressed without a known 2xx");
        (rec.fate, rec.done_at) = (Fate::Done, now);
        Ok(())
    }

    fn blocked(&mut self, queue: QueueId, position: u64, hold: Hold) -> Check {
        let config = self.config.clone();
        let rec = self.own.get(&queue).and_then(|own| own.recs.get(&position));
        // Word of a head's age may come in the step in which its lease is found to be over.
        let Some(rec) = rec else {
            return if hold == Hold::Age {
                Ok(())
            } else {
                Err("blocks what was not handed over".to_owned())
            };
        };
        let true_word = match hold {
            Hold::Exhausted => self.spent(rec, false),
            Hold::Rejected => rec.last == Some(Verdict::Never),
            Hold::Undecodable => rec.undecodable && config.undecodable == UndecodablePolicy::Block,
            Hold::DeadLetterFailed => !matches!(rec.settling, Settling::No),
            Hold::DeadLetterStorm => self.row_most + 1 >= config.storm,
            Hold::Age => true,
        };
        ensure!(true_word, "said to be blocked as {hold:?}");
        if let Some(rec) = self.own.get_mut(&queue).and_then(|own| own.recs.get_mut(&position)) {
            rec.holds.insert(hold);
        }
        Ok(())
    }
}

impl Rec {
    fn unsettled(&self) -> bool {
        self.settling != Settling::Confirmed && self.fate != Fate::Released
    }
}

/// Whether something may be written until then under that lease.
fn in_time(not_after: Option<Moment>, deadline: Option<Moment>) -> bool {
    deadline
        .is_none_or(|deadline| not_after.is_some_and(|not_after| not_after + limits::CANCEL_LEAD <= deadline))
}
