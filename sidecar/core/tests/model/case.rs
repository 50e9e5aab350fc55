//! What a case is made of: settings and messages out of a few bytes, and steps that are read against the world as it is
//! then, so that a shrunk case stays a valid one.

use std::time::Duration;

use lockstep_core::{
    Backoff, Config, DataLossPolicy, OrderingMode, RunState, StatusCodes, UndecodablePolicy, WhenExhausted,
};
use lockstep_model::{Capabilities, DeadLetterBy, Moment, Ownership, Settlement};

/// One step: what, and two choices within it.
pub(crate) type Step = (u8, u8, u8);

/// A whole case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) mode: OrderingMode,
    pub(crate) settlement: Settlement,
    /// Choices of settings and messages; all zero is the plainest case.
    pub(crate) setup: [u8; 24],
    pub(crate) steps: Vec<Step>,
}

/// A message at the simulated broker.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) key: Option<u64>,
    pub(crate) bytes: usize,
    pub(crate) undecodable: bool,
    /// The broker says that it is of no concern to the group: never handed over (a log only).
    pub(crate) filtered: bool,
    pub(crate) unique: bool,
}

/// Where the world starts.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) queues: Vec<Vec<Stored>>,
    pub(crate) lease: Option<Duration>,
    pub(crate) settle_within: Option<Duration>,
    /// What the application mostly answers.
    pub(crate) mood: u8,
    pub(crate) warm: bool,
    pub(crate) restored: Option<u32>,
    pub(crate) storm_restored: Option<u32>,
}

fn pick<T: Copy>(byte: u8, of: &[T]) -> T {
    of[usize::from(byte) % of.len()]
}

/// One message out of one byte.
pub(crate) fn stored(byte: u8, log: bool) -> Stored {
    Stored {
        key: pick(byte, &[Some(0), Some(1), Some(2), None]),
        bytes: pick(byte >> 2, &[10, 10, 0, 30]),
        undecodable: byte >> 4 == 15,
        filtered: log && byte >> 4 == 14,
        unique: log || byte & 8 == 0,
    }
}

impl Case {
    /// The settings and messages that the bytes stand for.
    pub(crate) fn setup(&self) -> Setup {
        let s = &self.setup;
        let log = self.settlement == Settlement::Cumulative;
        let count = usize::from(s[0] % 3) + 1;
        let long = s[1] >= 240;
        let queues = (0..count)
            .map(|queue| {
                let length = if long && queue == 0 { 40 } else { 1 + usize::from(s[1] % 6) };
                (0..length).map(|index| stored(s[2 + (queue * 5 + index) % 6].wrapping_mul(7), log)).collect()
            })
            .collect();
        Setup {
            config: self.config(log),
            queues,
            lease: pick(s[8], &[None, Some(4), Some(10)]).map(Duration::from_secs),
            settle_within: if log { None } else { pick(s[9], &[None, None, None, Some(20)]) }
                .map(Duration::from_secs),
            mood: s[10] % 6,
            warm: s[11] < 230,
            restored: (s[12] > 220).then_some(u32::from(s[12] % 3)),
            storm_restored: (s[12] < 20 && s[12] > 0).then_some(u32::from(s[12] % 4)),
        }
    }

    fn config(&self, log: bool) -> Config {
        let s = &self.setup;
        let backoff =
            Backoff::Exponential { initial: Duration::from_millis(100), max: Duration::from_secs(2) };
        let constant = Backoff::Constant { initial: Duration::from_millis(300), max: Duration::from_secs(2) };
        Config {
            mode: self.mode,
            capabilities: Capabilities {
                ownership: if log { Ownership::Lock } else { Ownership::ExclusiveConsumer },
                settlement: self.settlement,
                dead_letter: DeadLetterBy::Broker,
                reread: log,
                lookahead: if log { None } else { pick(s[13], &[None, Some(1), Some(3)]) },
                release_keeps_order: pick(s[14], &[true, true, log]),
            },
            seed: u64::from(s[15]),
            state: RunState::Running,
            max_in_flight: pick(s[16], &[32, 1, 2, 3]),
            timeout: Duration::from_secs(10),
            max_attempts: pick(s[17], &[3, 0, 1, 2]),
            backoff: pick(s[18], &[backoff, backoff, constant]),
            retry_after_max: pick(s[19], &[Duration::from_secs(2), Duration::from_secs(4)]),
            when_exhausted: pick(
                s[20],
                &[WhenExhausted::Block, WhenExhausted::DeadLetter, WhenExhausted::Skip],
            ),
            undecodable: pick(s[20] >> 2, &[UndecodablePolicy::Block, UndecodablePolicy::DeadLetter]),
            on_data_loss: pick(s[21], &[DataLossPolicy::Continue, DataLossPolicy::Stop]),
            status_codes: StatusCodes {
                done: pick(s[21] >> 2, &[&[][..], &[], &[409]]).to_vec(),
                ..StatusCodes::default()
            },
            hand_over: Duration::from_secs(3),
            buffer_count: pick(s[22], &[64, 1, 2, 4, 8]),
            buffer_bytes: pick(s[22] >> 3, &[1 << 20, 1 << 20, 25]),
            span: pick(s[23], &[4_096, 2, 4, 4_096]),
            storm: pick(s[23] >> 2, &[5, 2, 3]),
            quiet_until: (s[11] % 16 == 9).then_some(Moment::from_millis(4_000)),
            blocked_age: Duration::from_secs(10),
        }
    }
}

/// Another setting of some hot field.
pub(crate) fn reconfigured(config: &Config, field: u8, value: u8) -> Config {
    let mut new = config.clone();
    match field % 10 {
        0 => new.max_in_flight = pick(value, &[32, 1, 2, 3]),
        1 => new.max_attempts = pick(value, &[3, 0, 1, 2]),
        2 => {
            new.when_exhausted =
                pick(value, &[WhenExhausted::Block, WhenExhausted::DeadLetter, WhenExhausted::Skip]);
        }
        3 => new.undecodable = pick(value, &[UndecodablePolicy::Block, UndecodablePolicy::DeadLetter]),
        4 => new.on_data_loss = pick(value, &[DataLossPolicy::Continue, DataLossPolicy::Stop]),
        5 => new.buffer_count = pick(value, &[64, 1, 2, 4, 8]),
        6 => new.retry_after_max = pick(value, &[Duration::from_secs(2), Duration::from_secs(4)]),
        7 => new.timeout = pick(value, &[Duration::from_secs(10), Duration::from_secs(5)]),
        _ => {
            new.state = if config.state == RunState::Running { RunState::Paused } else { RunState::Running };
        }
    }
    new
}
