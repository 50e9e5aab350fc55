//! What the reference found in the engine, each as the shortest script that shows it.

use lockstep_core::{
    AttemptResult, Config, DataLossPolicy, Engine, Event, Failure, HttpAnswer, Incoming, Input, OrderingMode,
    Output, Settlement as Ending, WhenExhausted,
};
use lockstep_model::{Epoch, Identity, KeyHash, Moment, Position, QueueId, Settlement};

use crate::case::Case;

const Q: QueueId = QueueId(1);
const R: QueueId = QueueId(2);
const E: Epoch = Epoch(1);

/// An engine on virtual time; `at` is in milliseconds.
struct Script {
    engine: Engine<u64>,
    at: u64,
}

impl Script {
    /// A healthy member with plain settings but for `change`, which owns `Q` from 0 on.
    fn new(mode: OrderingMode, settlement: Settlement, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Case { mode, settlement, setup: [0; 24], steps: Vec::new() }.setup().config;
        change(&mut config);
        let mut script = Self { engine: Engine::new(config), at: 1_000 };
        script.put(Input::HealthChanged { healthy: true });
        script.acquire(Q, E, None);
        script
    }

    fn put(&mut self, input: Input<u64>) -> Vec<Output<u64>> {
        self.engine.handle(Moment::from_millis(self.at), input);
        let mut outputs = Vec::new();
        loop {
            match self.engine.poll() {
                Output::Wait(_) => return outputs,
                output => outputs.push(output),
            }
        }
    }

    fn acquire(&mut self, queue: QueueId, epoch: Epoch, deadline: Option<u64>) -> Vec<Output<u64>> {
        let (deadline, cursor) = (deadline.map(Moment::from_millis), Position(0));
        self.put(Input::QueueAcquired { queue, epoch, deadline, cursor, settle_within: None })
    }

    /// Answers the fetch among these outputs with messages of these keys from `from` on.
    fn fetched(&mut self, asked: &[Output<u64>], from: u64, keys: &[u64]) -> Vec<Output<u64>> {
        let Some((queue, epoch, fetch)) = asked.iter().find_map(|output| match output {
            Output::Fetch { queue, epoch, fetch, .. } => Some((*queue, *epoch, *fetch)),
            _ => None,
        }) else {
            panic!("nothing is fetched: {asked:?}");
        };
        let deliveries = keys.iter().zip(from..).map(|(key, position)| message(position, *key));
        let (deliveries, next) = (deliveries.collect(), Position(from + keys.len() as u64));
        self.put(Input::Fetched { queue, epoch, fetch, deliveries, next })
    }

    fn answer(&mut self, started: &[Output<u64>], status: u16) -> Vec<Output<u64>> {
        let Some(attempt) = started.iter().find_map(|output| match output {
            Output::Attempt { attempt, .. } => Some(*attempt),
            _ => None,
        }) else {
            panic!("nothing is attempted: {started:?}");
        };
        let answer = HttpAnswer { status, ..HttpAnswer::default() };
        self.put(Input::AttemptEnded { attempt, results: vec![AttemptResult::Answered(answer)] })
    }
}

fn message(position: u64, key: u64) -> Incoming<u64> {
    Incoming {
        position: Position(position),
        bytes: 10,
        key: Some(KeyHash(key)),
        identity: Identity::Position { offset: position, stored_ms: 1, log_offset: 1 },
        redeliveries: 0,
        undecodable: false,
        payload: position,
    }
}

fn attempts(outputs: &[Output<u64>]) -> usize {
    outputs.iter().filter(|output| matches!(output, Output::Attempt { .. })).count()
}

/// A waiting head below what was started is a hole only while it was never attempted: holding dispatch or draining
/// abandons it, or an attempt starts after `is_quiet` told the application that it may go.
#[test]
fn a_waiting_head_is_not_tried_again_while_dispatch_is_held() {
    let mut script = Script::new(OrderingMode::PerKey, Settlement::Cumulative, |_| {});
    let asked = script.acquire(R, E, None);
    let first = script.fetched(&asked, 0, &[0, 1]);
    let second = script.answer(&first, 500);
    script.answer(&second, 200);
    script.put(Input::DispatchHeld(true));
    assert!(script.engine.is_quiet());
    script.at += 60_000;
    let later = script.put(Input::Tick);
    assert_eq!(attempts(&later), 0, "{later:?}");
}

/// The span bounds what a crash repeats, so it counts from what the broker confirmed (ADR 0003).
#[test]
fn the_span_counts_from_the_confirmed_cursor() {
    let mut script = Script::new(OrderingMode::PerKey, Settlement::Cumulative, |config| config.span = 2);
    let asked = script.acquire(R, E, None);
    let (mut outputs, mut done) = (script.fetched(&asked, 0, &[0]), 0);
    while attempts(&outputs) > 0 && done < 10 {
        done += 1;
        let mut after = script.answer(&outputs, 200);
        let committed = after.iter().any(|output| matches!(output, Output::Commit { .. }));
        if committed {
            let (position, result) = (Position(done), Err(Failure::NotDone));
            after.extend(script.put(Input::Committed { queue: R, epoch: E, position, result }));
        }
        let asked: Vec<_> = outputs.into_iter().chain(after.clone()).collect();
        let fetches = asked.iter().any(|output| matches!(output, Output::Fetch { .. }));
        outputs = if fetches { script.fetched(&asked, done, &[0]) } else { after };
    }
    assert!(done <= 2, "{done} done and none of them committed");
}

/// The storm guard counts distinct messages: one whose dead letter could not be written before its lease ended is not
/// another one when it comes again.
#[test]
fn a_message_counts_once_in_a_storm() {
    let mut script = Script::new(OrderingMode::PerQueue, Settlement::Cumulative, |config| {
        (config.storm, config.when_exhausted) = (2, WhenExhausted::DeadLetter);
    });
    let asked = script.acquire(R, E, Some(10_000));
    let started = script.fetched(&asked, 0, &[0]);
    let ended = script.answer(&started, 400);
    let dead = |output: &Output<u64>| matches!(output, Output::Settle { settlement: Ending::DeadLetter, .. });
    assert!(ended.iter().any(dead), "{ended:?}");
    // Its answer does not come before the lease is over.
    script.at = 20_000;
    script.put(Input::Tick);
    let asked = script.acquire(R, Epoch(2), None);
    let mut outputs = script.fetched(&asked, 0, &[0]);
    if attempts(&outputs) > 0 {
        outputs = script.answer(&outputs, 400);
    }
    let storm = |output: &Output<u64>| matches!(output, Output::Event(Event::Storm { open: true }));
    assert!(!outputs.iter().any(storm), "{outputs:?}");
}

/// I5: while the buffer holds its count, a queue that holds its share of one does not fetch.
#[test]
fn a_full_buffer_fetches_nothing_for_a_queue_that_holds_something() {
    let mut script = Script::new(OrderingMode::PerQueue, Settlement::Cumulative, |config| {
        (config.buffer_count, config.max_in_flight) = (4, 1);
    });
    script.put(Input::QueueLost { queue: Q, epoch: E });
    let first = script.acquire(Q, Epoch(2), None);
    let second = script.acquire(R, E, None);
    let started = script.fetched(&first, 0, &[0, 0, 0, 0]);
    script.fetched(&second, 0, &[0, 0]);
    // Three are held of `Q` and, once `R` starts its first, one of `R`: four of four.
    let outputs = script.answer(&started, 200);
    assert_eq!(attempts(&outputs), 1);
    let fetches = outputs.iter().any(|output| matches!(output, Output::Fetch { .. }));
    assert!(!fetches, "{outputs:?}");
}

/// A queue on its way out is given back also when it falls idle by losing messages under `Stop`.
#[test]
fn a_revoked_queue_is_given_back_also_when_its_messages_are_lost() {
    let mut script = Script::new(OrderingMode::PerQueue, Settlement::Cumulative, |config| {
        (config.on_data_loss, config.when_exhausted) = (DataLossPolicy::Stop, WhenExhausted::DeadLetter);
    });
    let asked = script.acquire(R, E, None);
    let started = script.fetched(&asked, 0, &[0, 0, 0]);
    script.put(Input::QueueRevoking { queue: R, epoch: E, deadline: None });
    script.answer(&started, 400);
    let mut outputs = script.put(Input::PositionMoved { queue: R, epoch: E, to: Position(2), reset: false });
    outputs.extend(script.put(Input::Settled { queue: R, epoch: E, position: Position(0), result: Ok(()) }));
    let released = outputs.iter().any(|output| matches!(output, Output::ReleaseQueue { .. }));
    assert!(released, "{outputs:?}");
}
