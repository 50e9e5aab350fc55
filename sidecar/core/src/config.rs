use std::time::Duration;

use lockstep_model::Capabilities;

/// How much order is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderingMode {
    /// None: every delivery is its own lane.
    Unordered,
    /// Messages of one key in order; messages without a key share one lane per queue.
    PerKey,
    /// One lane per queue.
    PerQueue,
}

/// What happens to a message whose attempts are spent, or that can never succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenExhausted {
    /// It is tried on at the maximum delay; its lane waits.
    Block,
    /// It is moved to the dead-letter queue.
    DeadLetter,
    /// It is dropped.
    Skip,
}

/// What happens to a stored message that can't be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndecodablePolicy {
    /// Its lane waits for a person.
    Block,
    /// Its raw bytes are moved to the dead-letter queue.
    DeadLetter,
}

/// What happens when retention overtook unread messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataLossPolicy {
    /// Go on behind the gap.
    Continue,
    /// The queue stops until a person changes the policy.
    Stop,
}

/// Whether the group consumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It does.
    Running,
    /// It left its broker group and pulls nothing.
    Paused,
}

/// How the wait between two attempts grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backoff {
    /// Doubles from `initial` to `max`.
    Exponential {
        /// Upper end of the first wait.
        initial: Duration,
        /// Upper end of every wait.
        max: Duration,
    },
    /// Stays at `initial`.
    Constant {
        /// Upper end of every wait.
        initial: Duration,
        /// Where `Block` tries on.
        max: Duration,
    },
}

/// Statuses that a group judges otherwise than the standard table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusCodes {
    /// Judged as success.
    pub done: Vec<u16>,
    /// Judged as try again.
    pub again: Vec<u16>,
    /// Judged as the message's fault.
    pub never: Vec<u16>,
    /// Judged as the endpoint's fault.
    pub misconfigured: Vec<u16>,
}

/// All settings of the engine. `mode`, `capabilities` and `seed` never change; the rest may ([`crate::Input::Reconfigured`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How much order is kept.
    pub mode: OrderingMode,
    /// What the source can do.
    pub capabilities: Capabilities,
    /// Seed of the jitter.
    pub seed: u64,
    /// Whether the group consumes.
    pub state: RunState,
    /// Upper bound of concurrent attempts, 1 to 1,024.
    pub max_in_flight: u32,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// Attempts before `when_exhausted`; 0 = no limit.
    pub max_attempts: u32,
    /// The wait between attempts.
    pub backoff: Backoff,
    /// Cap of one Retry-After; ten times this is the cap of a message's total snooze.
    pub retry_after_max: Duration,
    /// What happens when attempts are spent.
    pub when_exhausted: WhenExhausted,
    /// What happens to a message that can't be decoded.
    pub undecodable: UndecodablePolicy,
    /// What happens when retention overtook unread messages.
    pub on_data_loss: DataLossPolicy,
    /// Statuses judged otherwise.
    pub status_codes: StatusCodes,
    /// How long an unhealthy application keeps its queues.
    pub hand_over: Duration,
    /// Received and not yet attempted deliveries of the pod.
    pub buffer_count: u32,
    /// Their bytes.
    pub buffer_bytes: usize,
    /// How far finished deliveries may run ahead of a queue's cursor.
    pub span: u32,
    /// Dead letters and skips in a row, without a success between, at which a storm is assumed.
    pub storm: u32,
    /// Nothing is attempted before this moment: after an unclean exit an earlier process's attempts may still run.
    pub quiet_until: Option<lockstep_model::Moment>,
    /// A head blocked or waiting for so long is reported as blocked, whatever the cause.
    pub blocked_age: Duration,
}
