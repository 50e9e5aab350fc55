//! The engine's top: one input in, then outputs out until there is nothing to do.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
};

use lockstep_model::{Epoch, Identity, Moment, Position, QueueId};

use crate::{
    AttemptId, Config, Event, Input, Output,
    backoff::Jitter,
    breaker::Breaker,
    group::Group,
    invariants::Violation,
    lane::{LaneKey, LaneState, Why},
    ledger::{Gates, Ledger},
    limit::Limit,
    queue::Queue,
    sabotage::Sabotage,
    storm::Storm,
    suppress::Known,
    timers::{TimerKey, Timers},
};

/// An attempt that the shell runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) queue: QueueId,
    pub(crate) lane: LaneKey,
    pub(crate) position: Position,
    /// Its ownership or its position is over: it only keeps its lane.
    pub(crate) orphan: bool,
    /// `CancelAttempt` was sent.
    pub(crate) cancelled: bool,
}

/// Orders, retries, fences and commits the deliveries of one group in one process.
#[derive(Debug)]
pub struct Engine<P> {
    pub(crate) config: Config,
    pub(crate) now: Moment,
    pub(crate) outputs: VecDeque<Output<P>>,
    pub(crate) timers: Timers,
    pub(crate) jitter: Jitter,
    pub(crate) queues: BTreeMap<QueueId, Queue<P>>,
    /// The highest epoch seen of each queue, so that an older one is known as such.
    pub(crate) epochs: BTreeMap<QueueId, Epoch>,
    /// Queues with something to start, in turn.
    pub(crate) line: BTreeSet<(u64, QueueId)>,
    pub(crate) tickets: u64,
    /// Queues whose commits, fetches and release are to be looked at in this step.
    pub(crate) dirty: BTreeSet<QueueId>,
    pub(crate) running: BTreeMap<AttemptId, Running>,
    /// Lanes kept by attempts whose ownership ended.
    pub(crate) orphans: BTreeMap<(QueueId, LaneKey), AttemptId>,
    pub(crate) attempts: u64,
    pub(crate) fetches: u64,
    /// Messages done so far: what a lone misconfigured message is measured against.
    pub(crate) done: u64,
    pub(crate) limit: Limit,
    pub(crate) breaker: Breaker,
    pub(crate) storm: Storm,
    pub(crate) pause: Option<Moment>,
    pub(crate) group: Group,
    pub(crate) dispatch_held: bool,
    pub(crate) drain: Option<Moment>,
    pub(crate) finished: bool,
    /// Lanes whose wait the end of a global cause ends early.
    pub(crate) unreachable: BTreeSet<(QueueId, LaneKey)>,
    pub(crate) misconfigured: BTreeSet<(QueueId, LaneKey)>,
    pub(crate) stormy: BTreeSet<(QueueId, LaneKey)>,
    pub(crate) known: Known,
    /// Attempts spent on heads that are not in a lane now.
    pub(crate) spent: BTreeMap<(QueueId, Identity), u32>,
    /// Shadow records, in debug builds only.
    pub(crate) ledger: Option<Box<Ledger>>,
    sabotage: Option<Sabotage>,
}

impl<P: Clone> Engine<P> {
    /// An engine that owns nothing yet.
    pub fn new(config: Config) -> Self {
        let mut timers = Timers::default();
        if let Some(until) = config.quiet_until {
            timers.set(TimerKey::Quiet, until);
        }
        Self {
            now: Moment::ZERO,
            outputs: VecDeque::new(),
            timers,
            jitter: Jitter::new(config.seed),
            queues: BTreeMap::new(),
            epochs: BTreeMap::new(),
            line: BTreeSet::new(),
            tickets: 0,
            dirty: BTreeSet::new(),
            running: BTreeMap::new(),
            orphans: BTreeMap::new(),
            attempts: 0,
            fetches: 0,
            done: 0,
            limit: Limit::new(config.max_in_flight),
            breaker: Breaker::default(),
            storm: Storm::default(),
            pause: None,
            group: Group::default(),
            dispatch_held: false,
            drain: None,
            finished: false,
            unreachable: BTreeSet::new(),
            misconfigured: BTreeSet::new(),
            stormy: BTreeSet::new(),
            known: Known::default(),
            spent: BTreeMap::new(),
            ledger: cfg!(debug_assertions).then(|| Box::new(Ledger::new(config.clone()))),
            sabotage: None,
            config,
        }
    }

    /// Takes one input. `now` never runs backwards; an earlier one counts as the latest seen.
    pub fn handle(&mut self, now: Moment, input: Input<P>) {
        self.now = self.now.max(now);
        self.record(|ledger, now| ledger.time(now));
        self.run_timers();
        self.record(|ledger, _| ledger.input(&input));
        self.apply(input);
        self.settle_down();
        // What the input set for a moment that has come already.
        while self.timers.next().is_some_and(|at| at <= self.now) {
            self.run_timers();
            self.settle_down();
        }
        self.check();
    }

    /// The first invariant that was broken; always `None` in release builds, which keep no records.
    pub fn violation(&self) -> Option<&Violation> {
        self.ledger.as_ref()?.violation.as_ref()
    }

    /// An engine that breaks one invariant on purpose.
    #[cfg(any(test, feature = "sabotage"))]
    pub fn with_sabotage(mut self, sabotage: Sabotage) -> Self {
        self.sabotage = Some(sabotage);
        self
    }

    /// Whether that invariant is to be broken; never in a build without the feature, where nothing sets it.
    pub(crate) fn sabotaged(&self, sabotage: Sabotage) -> bool {
        cfg!(any(test, feature = "sabotage")) && self.sabotage == Some(sabotage)
    }

    /// Tells the shadow records something.
    pub(crate) fn record(&mut self, tell: impl FnOnce(&mut Ledger, Moment)) {
        if let Some(ledger) = &mut self.ledger {
            tell(ledger, self.now);
        }
    }

    fn check(&mut self) {
        let gates = Gates {
            open: self.gates_open() && self.running.len() < self.limit.get() as usize,
            member: self.group.is_member(),
            dispatch_held: self.dispatch_held,
        };
        let timers = &self.timers;
        let Some(ledger) = &mut self.ledger else { return };
        ledger.check(gates, |queue| timers.is_set(TimerKey::Fetch(queue)));
        if self.sabotage.is_none()
            && let Some(violation) = &ledger.violation
        {
            debug_assert!(false, "{violation}");
        }
    }

    /// The next thing to do. Call until it answers [`Output::Wait`].
    pub fn poll(&mut self) -> Output<P> {
        self.outputs.pop_front().unwrap_or_else(|| Output::Wait(self.timers.next()))
    }

    /// Attempts that the shell runs now.
    pub fn in_flight(&self) -> usize {
        self.running.len()
    }

    /// Whether a drain is over.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether nothing is in flight and nothing will be started while dispatch is held: what a container's shutdown
    /// hook waits for.
    pub fn is_quiet(&self) -> bool {
        self.running.is_empty() && (!self.gates_open() || self.queues.keys().all(|q| self.hole(*q).is_none()))
    }

    pub(crate) fn emit(&mut self, output: Output<P>) {
        self.record(|ledger, _| ledger.output(&output));
        self.outputs.push_back(output);
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.emit(Output::Event(event));
    }

    pub(crate) fn stale(&mut self, queue: Option<QueueId>, what: &'static str) {
        self.event(Event::Stale { queue, what });
    }

    /// The queue, if that ownership is the current one; otherwise the input is stale.
    pub(crate) fn current(
        &mut self,
        queue: QueueId,
        epoch: Epoch,
        what: &'static str,
    ) -> Option<&mut Queue<P>> {
        if self.queues.get(&queue).is_none_or(|q| q.epoch != epoch) {
            self.stale(Some(queue), what);
            return None;
        }
        self.queues.get_mut(&queue)
    }

    /// Marks every queue for a look at the end of this step: something global changed.
    pub(crate) fn look_at_all(&mut self) {
        self.dirty.extend(self.queues.keys().copied());
    }

    fn apply(&mut self, input: Input<P>) {
        match input {
            Input::QueueAcquired { queue, epoch, deadline, cursor, settle_within } => {
                self.acquired(queue, epoch, Queue::new(epoch, deadline, cursor, settle_within));
            }
            Input::LeaseRenewed { queue, epoch, deadline } => self.renewed(queue, epoch, deadline),
            Input::LeaseDoubtful { queue, epoch } => self.doubtful(queue, epoch),
            Input::QueueRevoking { queue, epoch, deadline } => self.revoking(queue, epoch, deadline),
            Input::RevocationCancelled { queue, epoch } => self.revocation_cancelled(queue, epoch),
            Input::QueueLost { queue, epoch } => self.lost(queue, epoch),
            Input::Fetched { queue, epoch, fetch, deliveries, next } => {
                self.fetched(queue, epoch, fetch, deliveries, next);
            }
            Input::FetchFailed { queue, epoch, fetch } => self.fetch_failed(queue, epoch, fetch),
            Input::PositionMoved { queue, epoch, to, reset } => self.moved(queue, epoch, to, reset),
            Input::AttemptEnded { attempt, results } => self.attempt_ended(attempt, &results),
            Input::Settled { queue, epoch, position, result } => self.settled(queue, epoch, position, result),
            Input::Committed { queue, epoch, position, result } => {
                self.committed(queue, epoch, position, result)
            }
            Input::Released { queue, epoch } => self.released(queue, epoch),
            Input::Left => self.left(),
            Input::HealthChanged { healthy } => self.health(healthy),
            Input::Reconfigured(config) => self.reconfigured(*config),
            Input::DispatchHeld(held) => {
                self.dispatch_held = held;
                self.look_at_all();
            }
            Input::ByHand { queue, position, action } => self.by_hand(queue, position, action),
            Input::AttemptsRestored { queue, identity, attempts } => {
                self.remember_spent(queue, identity, attempts)
            }
            Input::StormRestored { in_row } => self.storm.restore(in_row),
            Input::DrainRequested { deadline } => self.drain_requested(deadline),
            Input::Tick => {}
        }
    }

    fn run_timers(&mut self) {
        while let Some(key) = self.timers.pop(self.now) {
            match key {
                TimerKey::Lease(queue) => self.lease_timer(queue),
                TimerKey::Release(queue) => self.release_deadline(queue),
                TimerKey::Commit(queue) | TimerKey::Fetch(queue) => {
                    self.dirty.insert(queue);
                }
                TimerKey::Rewind(queue) => self.rewind_timer(queue),
                TimerKey::Age(queue) => self.age_timer(queue),
                TimerKey::Lane(queue, lane) => self.wake(queue, lane),
                TimerKey::Settle(queue, position) => self.settle_again(queue, position),
                TimerKey::Pause => self.end_pause(),
                TimerKey::Probe | TimerKey::Quiet => {}
                TimerKey::HandOver => self.hand_over(),
                TimerKey::Rejoin => self.rejoin(),
                TimerKey::Calm => self.group.forget_repeats(),
                TimerKey::Drain => self.drain_deadline(),
            }
        }
    }

    /// The second half of a step: start what may start, then commit, fetch and release where something changed.
    fn settle_down(&mut self) {
        if self.finished {
            self.dirty.clear();
            return;
        }
        self.update_group();
        // Attempts first: a commit must never delay one.
        let mut next = self.dirty.first().copied();
        while let Some(queue) = next {
            self.line_up(queue);
            next = self.dirty.range((Bound::Excluded(queue), Bound::Unbounded)).next().copied();
        }
        self.dispatch();
        while let Some(queue) = self.dirty.pop_first() {
            self.line_up(queue);
            self.maybe_commit(queue);
            self.maybe_fetch(queue);
            self.maybe_release(queue);
        }
        self.maybe_finish();
    }

    /// Ends a lane's wait.
    pub(crate) fn wake(&mut self, queue: QueueId, lane: LaneKey) {
        let Some(why) = self.waiting(queue, lane) else { return };
        self.timers.clear(TimerKey::Lane(queue, lane));
        match why {
            Why::Unreachable => {
                self.unreachable.remove(&(queue, lane));
            }
            Why::Misconfigured => {
                self.misconfigured.remove(&(queue, lane));
            }
            Why::Storm => {
                self.stormy.remove(&(queue, lane));
            }
            Why::Later | Why::Blocked => {}
        }
        self.make_ready(queue, lane);
    }

    pub(crate) fn waiting(&self, queue: QueueId, lane: LaneKey) -> Option<Why> {
        match self.queues.get(&queue)?.lanes.get(&lane)?.state {
            LaneState::Waiting(why) => Some(why),
            LaneState::Idle
            | LaneState::Ready
            | LaneState::Running(_)
            | LaneState::Settling
            | LaneState::Stuck => None,
        }
    }
}
