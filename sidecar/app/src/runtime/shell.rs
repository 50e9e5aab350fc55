//! The loop's state, and what it does with each thing that happens.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::AbortHandle;
use lockstep_broker::{Broker, Clock, FetchRequest, Fetched, LeaseEvent, SourceState};
use lockstep_contract::{Counters, Gap, Guard};
use lockstep_core::{AttemptId, Config, Engine, FetchId, Input, RunState};
use lockstep_model::{Epoch, Moment, QueueId};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{oneshot, watch};
use tracing::{debug, info, warn};

use super::{
    Ended, Setup,
    hold::Hold,
    queues::Queues,
    settle::{Batches, label},
    translate::{self, Payload},
    work::{self, AttemptDone, FetchDone, Set, SettlingDone},
};
use crate::{
    deliver::Deliver,
    metrics::{Metrics, Verdict, VerdictLabel},
    state::{State, unix_ms},
};

/// The loop's state.
pub(super) struct Shell<B: Broker, D> {
    pub(super) clock: Clock,
    pub(super) engine: Engine<Payload>,
    pub(super) config: Config,
    pub(super) reader: B::Reader,
    pub(super) settler: B::Settler,
    pub(super) deliver: Arc<D>,
    pub(super) fetches: Set<FetchDone>,
    pub(super) fetch_handles: BTreeMap<FetchId, AbortHandle>,
    pub(super) attempts: Set<AttemptDone>,
    pub(super) attempt_handles: BTreeMap<AttemptId, AbortHandle>,
    pub(super) settling: Set<SettlingDone>,
    pub(super) queues: Queues,
    pub(super) batches: Batches,
    /// When the engine wants to be called again.
    pub(super) engine_wake: Option<Moment>,
    pub(super) finished: bool,
    pub(super) metrics: Arc<Metrics>,
    pub(super) state: State,
    pub(super) source: SourceState,
    pub(super) healthy: Option<bool>,
    pub(super) facts: Facts,
    ready: Arc<AtomicBool>,
    pub(super) hold: Hold,
    pub(super) shutdown_time: Duration,
    watch_closely: watch::Sender<bool>,
    /// Hooks that wait until nothing is in flight.
    pub(super) hold_waiters: Vec<oneshot::Sender<()>>,
    pub(super) drain_timeout: Duration,
    pub(super) draining: bool,
    /// The longest timeout of attempts of this process, for the marker.
    pub(super) longest_timeout: Duration,
    /// Until when the application may still work on requests that were cut.
    pub(super) cut_until: Moment,
    /// The delivery that the current input is about, to name its message in logs.
    pub(super) current: Option<Payload>,
    /// Whether the engine refused the last command by hand.
    pub(super) by_hand_refused: bool,
    /// Counts the attempts that succeed, without a look-up.
    pub(super) done_counter: Counter,
    /// Counts the settlements that succeed, without a look-up.
    pub(super) settled_counter: Counter,
}

/// A message that was answered as if the endpoint were wrong, and that still waits here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    pub(super) queue: QueueId,
    /// The answer's status, where there was one.
    pub(super) status: Option<u16>,
}

/// What happened at least once, or is so now.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) was_healthy: bool,
    pub(super) was_connected: bool,
    /// Whether the spec forbade a session once: readiness can't wait for what is not wanted.
    pub(super) was_paused: bool,
    pub(super) was_done: bool,
    /// The status of the last answer that said that the endpoint is wrong, if there was one since the last success.
    pub(super) refused: Option<Refusal>,
    /// Whether an attempt failed since the last success, as far as it was told.
    pub(super) failing: bool,
    pub(super) failing_told: Option<Moment>,
    pub(super) health_since_ms: i64,
    /// Why the last health check failed.
    pub(super) problem: Option<Arc<str>>,
    pub(super) source_since_ms: i64,
    pub(super) breaker: Guard,
    pub(super) storm: Guard,
    pub(super) counters: Counters,
    /// The youngest ones.
    pub(super) gaps: VecDeque<Gap>,
}

impl<B: Broker, D: Deliver> Shell<B, D> {
    pub(super) fn new(reader: B::Reader, settler: B::Settler, deliver: Arc<D>, setup: Setup) -> Self {
        let Setup {
            clock,
            engine: config,
            drain_timeout,
            shutdown_time,
            state,
            metrics,
            ready,
            watch_closely,
        } = setup;
        let longest_timeout = config.timeout.max(state.unclean().unwrap_or_default());
        state.mark_running(longest_timeout);
        let settled_counter = metrics.settlements.get_or_create_owned(&label(Ok(())));
        let done_counter = metrics.attempts.get_or_create_owned(&VerdictLabel { verdict: Verdict::Done });
        let source = SourceState { connected: false, problem: None, queues_total: 0, reconnects: 0 };
        Self {
            clock,
            engine: Engine::new(config.clone()),
            config,
            reader,
            settler,
            deliver,
            fetches: Set::new(),
            fetch_handles: BTreeMap::new(),
            attempts: Set::new(),
            attempt_handles: BTreeMap::new(),
            settling: Set::new(),
            queues: Queues::default(),
            batches: Batches::default(),
            engine_wake: None,
            finished: false,
            metrics,
            state,
            source,
            healthy: None,
            facts: Facts::default(),
            ready,
            hold: Hold::Free,
            shutdown_time,
            watch_closely,
            hold_waiters: Vec::new(),
            drain_timeout,
            draining: false,
            longest_timeout,
            cut_until: Moment::ZERO,
            current: None,
            by_hand_refused: false,
            done_counter,
            settled_counter,
        }
    }

    /// The engine's first word, before anything happened.
    pub(super) fn start(&mut self, keeper: &mut B::Keeper) {
        let in_row = self.state.storm();
        self.feed(Input::StormRestored { in_row }, keeper);
    }

    pub(super) fn finished(&self) -> bool {
        self.finished
    }

    /// When [`Shell::tick`] is due.
    pub(super) fn wake(&self) -> Option<Moment> {
        [self.engine_wake, self.hold.until(), self.batches.wake()].into_iter().flatten().min()
    }

    /// The process is about to end. Where the application may still work on something that was cut, the marker stays,
    /// so that the next process waits for it.
    pub(super) fn end(mut self) -> Ended {
        self.state.flush();
        if self.attempts.is_empty() && self.cut_until <= self.clock.now() {
            self.state.mark_clean();
            Ended::Drained
        } else {
            Ended::Cut
        }
    }

    /// One input, then everything that the engine says to it.
    pub(super) fn feed(&mut self, input: Input<Payload>, keeper: &mut B::Keeper) {
        self.engine.handle(self.clock.now(), input);
        self.perform(keeper);
    }

    pub(super) fn tick(&mut self, keeper: &mut B::Keeper) {
        let now = self.clock.now();
        if self.hold.tick(now) {
            info!("dispatch goes on: the application's shutdown time has gone by and it is still well");
            self.set_free(keeper);
        }
        if self.engine_wake.is_some_and(|wake| wake <= now) {
            self.feed(Input::Tick, keeper);
        }
    }

    /// Dispatch is no longer held by the hook.
    pub(super) fn set_free(&mut self, keeper: &mut B::Keeper) {
        self.feed(Input::DispatchHeld(false), keeper);
        for waiter in self.hold_waiters.drain(..) {
            // The hook may have stopped waiting.
            waiter.send(()).ok();
        }
    }

    /// What is done once per turn, however many inputs it had.
    pub(super) fn end_turn(&mut self, keeper: &mut B::Keeper) {
        if self.wake().is_some_and(|wake| wake <= self.clock.now()) {
            self.tick(keeper);
        }
        self.send_settlements();
        self.state.flush();
        if !self.hold_waiters.is_empty() && self.is_quiet() {
            for waiter in self.hold_waiters.drain(..) {
                waiter.send(()).ok();
            }
        }
        self.watch_closely.send_if_modified(|closely| {
            let change = *closely != self.hold.watches();
            *closely = self.hold.watches();
            change
        });
        self.facts.was_paused |= self.config.state == RunState::Paused;
        self.ready.store(self.is_ready(), Ordering::Relaxed);
    }

    /// Whether nothing is in flight and no hole in a commit prefix can still be closed.
    fn is_quiet(&self) -> bool {
        self.attempts.is_empty() && self.engine.is_quiet()
    }

    /// First healthy application and first source session, which a paused group does not have; and not a deployment
    /// that has only ever been refused.
    ///
    /// One such answer is enough, well before the breaker opens: a pod with one queue in order never meets a second
    /// message, and a rollout must stop at the first pod of an application that answers 404 to everything.
    pub(super) fn is_ready(&self) -> bool {
        let facts = &self.facts;
        let met_source = facts.was_connected || facts.was_paused;
        facts.was_healthy && met_source && !self.is_only_refused()
    }

    /// Whether the application has taken nothing since the start, and said that the endpoint is wrong.
    pub(super) fn is_only_refused(&self) -> bool {
        !self.facts.was_done && (self.facts.breaker.open || self.facts.refused.is_some())
    }

    /// The refused message of that queue is this pod's matter no more.
    pub(super) fn forget_refusal_of(&mut self, queue: QueueId) {
        self.facts.refused.take_if(|refusal| refusal.queue == queue);
    }

    pub(super) fn lease(&mut self, event: LeaseEvent, keeper: &mut B::Keeper) {
        match event {
            LeaseEvent::Acquired { queue, name, epoch, deadline, cursor, settle_within, extra } => {
                let now = self.clock.now();
                for (identity, attempts) in self.state.attempts(&name) {
                    self.engine.handle(now, Input::AttemptsRestored { queue, identity, attempts });
                }
                info!(queue = %name, %epoch, %cursor, "queue acquired");
                let entry = self.queues.acquired(queue, name, &self.metrics);
                entry.given_up();
                entry.epoch = Some(epoch);
                entry.deadline = deadline;
                entry.extra = extra;
                entry.cursor = cursor;
                entry.end = None;
                entry.metrics.lease_held.set(1.0);
                self.state.save_epoch(epoch);
                self.feed(Input::QueueAcquired { queue, epoch, deadline, cursor, settle_within }, keeper);
            }
            LeaseEvent::Renewed { queue, epoch, deadline } => {
                self.metrics.lease_renewals.inc();
                if let Some(entry) = self.queues.owned_mut(queue, epoch) {
                    entry.deadline = deadline;
                    if std::mem::take(&mut entry.doubtful) {
                        entry.metrics.lease_held.set(1.0);
                        info!(queue = %entry.name, "lease confirmed");
                    }
                }
                self.feed(Input::LeaseRenewed { queue, epoch, deadline }, keeper);
            }
            LeaseEvent::Doubtful { queue, epoch } => {
                if let Some(entry) = self.queues.owned_mut(queue, epoch) {
                    entry.doubtful = true;
                    entry.metrics.lease_held.set(0.5);
                    warn!(queue = %entry.name, "lease doubtful: the connection to its broker is lost");
                }
                self.feed(Input::LeaseDoubtful { queue, epoch }, keeper);
            }
            LeaseEvent::Revoking { queue, epoch, deadline } => {
                info!(queue = self.queues.name(queue), "queue goes to another member");
                self.feed(Input::QueueRevoking { queue, epoch, deadline }, keeper);
            }
            LeaseEvent::RevocationCancelled { queue, epoch } => {
                info!(queue = self.queues.name(queue), "queue stays after all");
                self.feed(Input::RevocationCancelled { queue, epoch }, keeper);
            }
            LeaseEvent::Lost { queue, epoch } => {
                if let Some(entry) = self.queues.owned_mut(queue, epoch) {
                    warn!(queue = %entry.name, %epoch, "lease lost");
                    entry.given_up();
                    self.metrics.leases_lost.inc();
                }
                self.forget_refusal_of(queue);
                self.feed(Input::QueueLost { queue, epoch }, keeper);
            }
            LeaseEvent::Released { queue, epoch } => {
                if let Some(entry) = self.queues.owned_mut(queue, epoch) {
                    info!(queue = %entry.name, "queue released");
                    entry.given_up();
                }
                self.forget_refusal_of(queue);
                self.feed(Input::Released { queue, epoch }, keeper);
            }
            LeaseEvent::Moved { queue, epoch, to } => {
                self.feed(Input::PositionMoved { queue, epoch, to, reset: true }, keeper);
            }
            LeaseEvent::Source(source) => self.source_changed(source),
            LeaseEvent::Left => self.feed(Input::Left, keeper),
        }
    }

    fn source_changed(&mut self, source: SourceState) {
        self.facts.was_connected |= source.connected;
        if source.connected != self.source.connected {
            self.facts.source_since_ms = unix_ms();
        }
        self.metrics.source_connected.set(i64::from(source.connected));
        self.metrics.reconnects.inc_by(source.reconnects.saturating_sub(self.source.reconnects));
        match &source.problem {
            Some(problem) if !problem.is_failure() && self.source.problem.as_ref() != Some(problem) => {
                info!(reason = problem.reason, remedy = problem.remedy, "source: {}", problem.message);
            }
            Some(problem) if self.source.problem.as_ref() != Some(problem) => {
                warn!(reason = problem.reason, remedy = problem.remedy, "source: {}", problem.message);
            }
            Some(_) | None if source.connected != self.source.connected => {
                info!(connected = source.connected, queues = source.queues_total, "source session changed");
            }
            Some(_) | None => {}
        }
        self.source = source;
    }

    pub(super) fn fetched(&mut self, done: FetchDone, keeper: &mut B::Keeper) {
        let FetchDone { id, request, result } = done;
        self.fetch_handles.remove(&id);
        let FetchRequest { queue, epoch, .. } = request;
        let input = match result {
            None => return,
            Some(Ok(fetched)) => {
                self.note_fetched(queue, epoch, &fetched);
                translate::fetched(queue, epoch, id, fetched)
            }
            Some(Err(error)) => {
                self.metrics.fetch_failures.inc();
                debug!(queue = self.queues.name(queue), %error, "fetch failed");
                Input::FetchFailed { queue, epoch, fetch: id }
            }
        };
        self.feed(input, keeper);
    }

    fn note_fetched(&mut self, queue: QueueId, epoch: Epoch, fetched: &Fetched) {
        let Some(entry) = self.queues.owned_mut(queue, epoch) else { return };
        match fetched {
            Fetched::Deliveries { deliveries, end, next: _ } => {
                entry.metrics.received.inc_by(deliveries.len() as u64);
                entry.open = entry.open.saturating_add(deliveries.len());
                entry.end = end.or(entry.end);
            }
            Fetched::Moved { .. } => {}
        }
    }

    pub(super) fn attempted(&mut self, done: AttemptDone, keeper: &mut B::Keeper) {
        let AttemptDone { id, delivery, started, attempted } = done;
        self.attempt_handles.remove(&id);
        let result = match attempted {
            Some(attempted) => {
                self.metrics.attempt_duration.observe(self.clock.now().since(started).as_secs_f64());
                match self.queues.get_mut(delivery.queue) {
                    Some(entry) => entry.note(delivery.position, attempted),
                    None => attempted.result,
                }
            }
            None => work::cancelled(),
        };
        self.current = Some(delivery);
        self.feed(Input::AttemptEnded { attempt: id, results: vec![result] }, keeper);
        self.current = None;
    }
}
