//! Random inputs: whatever happens, no invariant breaks and nothing panics.

use std::time::Duration;

use bytes::Bytes;
use lockstep_core::{
    AttemptResult, ByHand, Config, DataLossPolicy, Engine, Failure, HttpAnswer, Incoming, Input,
    OrderingMode, Output, RunState, TransportFailure, UndecodablePolicy, VerdictHeader, WhenExhausted,
};
use lockstep_model::{Epoch, Identity, KeyHash, Moment, Position, QueueId, Settlement};
use proptest::prelude::*;

use crate::world::{config, log, one_by_one};

/// One thing that happens; numbers choose among what is possible at that moment.
#[derive(Debug, Clone)]
enum Step {
    Pass(u16),
    Acquire { queue: u8, lease: Option<u16>, settle_within: Option<u16> },
    Renew { queue: u8, lease: u16 },
    Doubt(u8),
    Revoke { queue: u8, within: Option<u16> },
    Cancel(u8),
    Lose(u8),
    Fetched { pick: u8, count: u8, gap: u8, undecodable: bool },
    FetchFails(u8),
    Move { queue: u8, to: i8, reset: bool },
    End { pick: u8, how: u8 },
    Answer { pick: u8, how: u8 },
    Left,
    Health(bool),
    Reconfigure(u8),
    Hold(bool),
    ByHand { queue: u8, back: u8, skip: bool },
    Drain(u16),
    Stale(u8),
}

/// A step out of one random number: a tree of strategies would cost more time than the engine does.
fn step(number: u64) -> Step {
    let [kind, queue, a, b, c, d, e, f] = number.to_le_bytes();
    let queue = queue % 3;
    let long = u16::from_le_bytes([a, b]);
    let lease = 600 + long % 7_400;
    let some = |value: u16| (c % 2 == 0).then_some(value);
    match kind % 66 {
        0..6 => Step::Pass(long % 2_000),
        6..8 => {
            let settle_within = (d % 5 == 0).then_some(100 + u16::from(e) * 12);
            Step::Acquire { queue, lease: some(lease), settle_within }
        }
        8..10 => Step::Renew { queue, lease },
        10 => Step::Doubt(queue),
        11 => Step::Revoke { queue, within: some(long % 3_000) },
        12 => Step::Cancel(queue),
        13 => Step::Lose(queue),
        14..24 => Step::Fetched { pick: a, count: b % 12, gap: c % 4, undecodable: d % 20 == 0 },
        24 => Step::FetchFails(a),
        25 => Step::Move { queue, to: i8::try_from(a % 40).unwrap_or(0) - 10, reset: c % 2 == 0 },
        26..42 => Step::End { pick: a, how: b % 40 },
        42..52 => Step::Answer { pick: a, how: b % 10 },
        52..55 => Step::Left,
        55..58 => Step::Health(d % 5 > 0),
        58..60 => Step::Reconfigure(f),
        60..62 => Step::Hold(a % 2 == 0),
        62..64 => Step::ByHand { queue, back: a % 10, skip: b % 2 == 0 },
        64 => Step::Drain(long % 4_000),
        _ => Step::Stale(a),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any::<u64>(), 1..120).prop_map(|numbers| numbers.into_iter().map(step).collect())
}

/// What the shell has to answer some time.
#[derive(Debug, Default)]
struct Open {
    fetches: Vec<(QueueId, Epoch, lockstep_core::FetchId, Position, u32)>,
    attempts: Vec<lockstep_core::AttemptId>,
    settles: Vec<(QueueId, Epoch, Position)>,
    commits: Vec<(QueueId, Epoch, Position)>,
    releases: Vec<(QueueId, Epoch)>,
    leaving: bool,
    finished: bool,
    wake: Option<Moment>,
}

struct Random {
    engine: Engine<u64>,
    config: Config,
    now: Moment,
    epoch: u64,
    open: Open,
    joined: bool,
}

impl Random {
    fn input(&mut self, input: Input<u64>) {
        self.engine.handle(self.now, input);
        loop {
            match self.engine.poll() {
                Output::Wait(wake) => {
                    self.open.wake = wake;
                    break;
                }
                Output::JoinGroup => self.joined = true,
                Output::LeaveGroup => self.open.leaving = true,
                Output::Fetch { queue, epoch, fetch, from, count, .. } => {
                    self.open.fetches.push((queue, epoch, fetch, from, count));
                }
                Output::CancelFetch { fetch, .. } => self.open.fetches.retain(|asked| asked.2 != fetch),
                Output::Attempt { attempt, .. } => self.open.attempts.push(attempt),
                Output::Settle { queue, epoch, position, .. } => {
                    self.open.settles.push((queue, epoch, position))
                }
                Output::Commit { queue, epoch, position, .. } => {
                    self.open.commits.push((queue, epoch, position))
                }
                Output::ReleaseQueue { queue, epoch } => self.open.releases.push((queue, epoch)),
                Output::Finished => self.open.finished = true,
                Output::CancelAttempt { .. }
                | Output::SaveAttempts { .. }
                | Output::SaveStorm { .. }
                | Output::Event(_) => {}
            }
        }
        assert_eq!(self.engine.violation(), None);
    }

    fn epoch_of(&self, queue: QueueId) -> Epoch {
        self.engine.queues().find(|view| view.queue == queue).map_or(Epoch(0), |view| view.epoch)
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut wakes = 0;
        while let Some(wake) = self.open.wake.filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            self.input(Input::Tick);
            wakes += 1;
            assert!(wakes < 2_000, "the engine wakes without end");
        }
        self.now = end;
        self.input(Input::Tick);
    }

    fn play(&mut self, step: Step) {
        let within = |millis: u16| Duration::from_millis(millis.into());
        match step {
            Step::Pass(millis) => self.pass(within(millis)),
            Step::Acquire { .. }
            | Step::Renew { .. }
            | Step::Doubt(_)
            | Step::Revoke { .. }
            | Step::Cancel(_)
            | Step::Lose(_) => self.play_lease(step),
            Step::Fetched { pick, count, gap, undecodable } => self.fetched(pick, count, gap, undecodable),
            Step::FetchFails(pick) => {
                if let Some((queue, epoch, fetch, ..)) = take(&mut self.open.fetches, pick) {
                    self.input(Input::FetchFailed { queue, epoch, fetch });
                }
            }
            Step::Move { queue, to, reset } => {
                let queue = QueueId(queue.into());
                let cursor =
                    self.engine.queues().find(|view| view.queue == queue).map_or(0, |view| view.cursor.0);
                let to = Position(cursor.saturating_add_signed(to.into()));
                self.input(Input::PositionMoved { queue, epoch: self.epoch_of(queue), to, reset });
            }
            Step::End { pick, how } => {
                if let Some(attempt) = take(&mut self.open.attempts, pick) {
                    self.input(Input::AttemptEnded { attempt, results: vec![result(how)] });
                }
            }
            Step::Answer { pick, how } => self.answer(pick, how),
            Step::Left => {
                if std::mem::take(&mut self.open.leaving) {
                    self.joined = false;
                    self.input(Input::Left);
                }
            }
            Step::Health(healthy) => self.input(Input::HealthChanged { healthy }),
            Step::Reconfigure(bits) => self.reconfigure(bits),
            Step::Hold(held) => self.input(Input::DispatchHeld(held)),
            Step::ByHand { queue, back, skip } => {
                let queue = QueueId(queue.into());
                let cursor =
                    self.engine.queues().find(|view| view.queue == queue).map_or(0, |view| view.cursor.0);
                let action = if skip { ByHand::Skip } else { ByHand::DeadLetter };
                self.input(Input::ByHand { queue, position: Position(cursor + u64::from(back)), action });
            }
            Step::Drain(millis) => self.input(Input::DrainRequested { deadline: self.now + within(millis) }),
            Step::Stale(queue) => {
                let (queue, epoch, position) = (QueueId(u32::from(queue % 3)), Epoch(0), Position(3));
                self.input(Input::Settled { queue, epoch, position, result: Ok(()) });
                self.input(Input::Committed { queue, epoch: self.epoch_of(queue), position, result: Ok(()) });
                self.input(Input::Released { queue, epoch });
            }
        }
    }

    fn play_lease(&mut self, step: Step) {
        let within = |millis: u16| Duration::from_millis(millis.into());
        match step {
            Step::Acquire { queue, lease, settle_within } => {
                if !self.joined {
                    return;
                }
                self.epoch += 1;
                self.input(Input::QueueAcquired {
                    queue: QueueId(queue.into()),
                    epoch: Epoch(self.epoch),
                    deadline: lease.map(|lease| self.now + within(lease)),
                    cursor: Position(self.epoch % 7),
                    settle_within: settle_within.map(within),
                });
            }
            Step::Renew { queue, lease } => {
                let queue = QueueId(queue.into());
                let deadline = Some(self.now + within(lease));
                self.input(Input::LeaseRenewed { queue, epoch: self.epoch_of(queue), deadline });
            }
            Step::Doubt(queue) => {
                let queue = QueueId(queue.into());
                self.input(Input::LeaseDoubtful { queue, epoch: self.epoch_of(queue) });
            }
            Step::Revoke { queue, within: time } => {
                let queue = QueueId(queue.into());
                let deadline = time.map(|time| self.now + within(time));
                self.input(Input::QueueRevoking { queue, epoch: self.epoch_of(queue), deadline });
            }
            Step::Cancel(queue) => {
                let queue = QueueId(queue.into());
                self.input(Input::RevocationCancelled { queue, epoch: self.epoch_of(queue) });
            }
            Step::Lose(queue) => {
                let queue = QueueId(queue.into());
                self.input(Input::QueueLost { queue, epoch: self.epoch_of(queue) });
            }
            other => panic!("{other:?} is no lease step"),
        }
    }

    fn fetched(&mut self, pick: u8, count: u8, gap: u8, undecodable: bool) {
        let Some((queue, epoch, fetch, from, most)) = take(&mut self.open.fetches, pick) else { return };
        // Sometimes more than was asked for.
        let count = usize::from(count).min(most as usize + usize::from(gap == 3));
        let log = self.config.capabilities.settlement == Settlement::Cumulative;
        // A log always has the same gaps.
        let deliveries: Vec<_> = (from.0..)
            .filter(|position| !log || position % 5 != 3)
            .take(count)
            .map(|position| Incoming {
                position: Position(position),
                bytes: if position % 5 == 0 { 200 } else { 30 },
                key: (position % 4 > 0).then_some(KeyHash(position % 4)),
                identity: if log {
                    Identity::Position { offset: position, stored_ms: 0, log_offset: 0 }
                } else {
                    Identity::Unique(Bytes::from((position % 9).to_string()))
                },
                redeliveries: u32::from(!log && position % 9 < 4),
                undecodable: undecodable && position % 3 == 0,
                payload: position,
            })
            .collect();
        let next = deliveries.last().map_or(from, |last| last.position.next());
        let next = Position(next.0 + u64::from(log && gap == 2 && next.0 % 5 == 3));
        self.input(Input::Fetched { queue, epoch, fetch, deliveries, next });
    }

    fn answer(&mut self, pick: u8, how: u8) {
        let answer = match how {
            0 => Err(Failure::NotDone),
            1 => Err(Failure::Unknown),
            2 if pick.is_multiple_of(4) => Err(Failure::Permanent),
            _ => Ok(()),
        };
        if let Some((queue, epoch, position)) = take(&mut self.open.commits, pick) {
            self.input(Input::Committed { queue, epoch, position, result: answer });
        }
        if let Some((queue, epoch, position)) = take(&mut self.open.settles, pick) {
            self.input(Input::Settled { queue, epoch, position, result: answer });
        }
        if let Some((queue, epoch)) = take(&mut self.open.releases, pick) {
            self.input(Input::Released { queue, epoch });
        }
    }

    fn reconfigure(&mut self, bits: u8) {
        let c = &mut self.config;
        let on = |bit: u8| bits >> bit & 1 == 1;
        c.when_exhausted = match bits & 3 {
            0 => WhenExhausted::Block,
            1 => WhenExhausted::Skip,
            _ => WhenExhausted::DeadLetter,
        };
        c.undecodable = if on(2) { UndecodablePolicy::DeadLetter } else { UndecodablePolicy::Block };
        c.on_data_loss = if on(3) { DataLossPolicy::Stop } else { DataLossPolicy::Continue };
        c.state = if on(4) && on(5) { RunState::Paused } else { RunState::Running };
        c.max_in_flight = if on(6) { 2 } else { 8 };
        c.max_attempts = if on(7) { 0 } else { 2 };
        self.input(Input::Reconfigured(Box::new(self.config.clone())));
    }
}

fn take<T>(from: &mut Vec<T>, pick: u8) -> Option<T> {
    let index = usize::from(pick).checked_rem(from.len())?;
    Some(from.remove(index))
}

fn result(how: u8) -> AttemptResult {
    let answer = |status, retry_after: Option<u64>, verdict| {
        let retry_after = retry_after.map(Duration::from_secs);
        AttemptResult::Answered(HttpAnswer { status, retry_after, verdict })
    };
    match how {
        0 | 1 => answer(500, None, None),
        2 => answer(422, None, None),
        3 => answer(503, Some(1), None),
        4 | 5 => answer(404, None, None),
        6 => answer(500, None, Some(VerdictHeader::Again)),
        7 => answer(500, None, Some(VerdictHeader::DeadLetter)),
        8 => answer(500, None, Some(VerdictHeader::Skip)),
        9 => AttemptResult::Failed(TransportFailure::Unreachable),
        10 => AttemptResult::Failed(TransportFailure::TimedOut),
        11 => AttemptResult::Failed(TransportFailure::Broken),
        12 => AttemptResult::Failed(TransportFailure::Cancelled),
        _ => answer(200, None, None),
    }
}

fn modes() -> impl Strategy<Value = OrderingMode> {
    prop_oneof![Just(OrderingMode::Unordered), Just(OrderingMode::PerKey), Just(OrderingMode::PerQueue)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_invariant_breaks(
        mode in modes(),
        cumulative in any::<bool>(),
        lookahead in prop::option::weighted(0.3, 1..4_u32),
        buffer_count in 1..24_u32,
        span in 4..40_u32,
        bits in any::<u8>(),
        steps in steps(),
    ) {
        let mut capabilities = if cumulative { log() } else { one_by_one() };
        if !cumulative {
            capabilities.lookahead = lookahead;
        }
        let buffer_bytes = 1_000;
        let config = Config { capabilities, buffer_count, buffer_bytes, span, storm: 3, ..config(mode) };
        let mut random = Random {
            engine: Engine::new(config.clone()),
            config,
            now: Moment::from_millis(1_000),
            epoch: 0,
            open: Open::default(),
            joined: false,
        };
        random.input(Input::HealthChanged { healthy: true });
        random.play(Step::Acquire { queue: 0, lease: None, settle_within: None });
        random.reconfigure(bits & 0b1100_1111);
        for step in steps {
            random.play(step);
        }
        // Whatever happened, a drain ends by its deadline.
        random.input(Input::DrainRequested { deadline: random.now + Duration::from_secs(3) });
        random.pass(Duration::from_secs(3));
        prop_assert!(random.open.finished && random.engine.is_finished());
    }
}
