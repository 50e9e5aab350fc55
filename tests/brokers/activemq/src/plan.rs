//! How much of everything.

/// The counts of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Messages of a scenario without faults.
    pub messages: usize,
    /// Messages of a scenario with faults, at least; it ends when they are delivered.
    pub messages_with_faults: usize,
    /// How often sidecars join and leave.
    pub joins: usize,
    /// How often a sidecar is killed.
    pub sidecar_kills: usize,
    /// How often the broker is killed.
    pub broker_kills: usize,
    /// How often connections are cut.
    pub cuts: usize,
}

impl Plan {
    /// The share of the normal run.
    pub const NORMAL: Self = Self {
        messages: 2_000,
        messages_with_faults: 1_200,
        joins: 5,
        sidecar_kills: 3,
        broker_kills: 1,
        cuts: 5,
    };
    /// The full counts of the acceptance list.
    pub const SOAK: Self = Self {
        messages: 100_000,
        messages_with_faults: 30_000,
        joins: 5,
        sidecar_kills: 20,
        broker_kills: 3,
        cuts: 50,
    };

    /// The plan that `LOCKSTEP_BROKERS` names; `None` when nobody asked.
    pub fn from_environment() -> Option<Self> {
        match std::env::var("LOCKSTEP_BROKERS").ok()?.as_str() {
            "soak" => Some(Self::SOAK),
            _ => Some(Self::NORMAL),
        }
    }
}
