//! How much of everything.

use std::time::Duration;

/// The counts of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Messages of a scenario without faults.
    pub messages: usize,
    /// Messages of a scenario with faults, at least; it ends when they are delivered.
    pub messages_with_faults: usize,
    /// Keys of a scenario per key.
    pub keys: usize,
    /// How often a sidecar joins and leaves.
    pub joins: usize,
    /// How often a sidecar is killed.
    pub sidecar_kills: usize,
    /// How often a broker is killed.
    pub broker_kills: usize,
    /// How often the application is killed.
    pub application_kills: usize,
    /// How long the application stays down after the last kill. A third of it is `handOverSeconds`.
    pub down: Duration,
}

impl Plan {
    /// The share of the normal run.
    pub const NORMAL: Self = Self {
        messages: 6_000,
        messages_with_faults: 6_000,
        keys: 1_000,
        joins: 2,
        sidecar_kills: 3,
        broker_kills: 1,
        application_kills: 3,
        down: Duration::from_secs(9),
    };
    /// The full counts of the acceptance list.
    pub const SOAK: Self = Self {
        messages: 100_000,
        messages_with_faults: 100_000,
        keys: 1_000,
        joins: 5,
        sidecar_kills: 20,
        broker_kills: 3,
        application_kills: 20,
        down: Duration::from_secs(60),
    };

    /// The plan that `LOCKSTEP_BROKERS` names; `None` when nobody asked.
    pub fn from_environment() -> Option<Self> {
        match std::env::var("LOCKSTEP_BROKERS").ok()?.as_str() {
            "soak" => Some(Self::SOAK),
            _ => Some(Self::NORMAL),
        }
    }
}
