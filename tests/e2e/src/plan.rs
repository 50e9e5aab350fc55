//! How much of everything.

use std::time::Duration;

/// The counts of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How often a pod is deleted by force, and how often a sidecar container is killed.
    pub kills: usize,
    /// Groups against the API server alone.
    pub groups: usize,
    /// How long nothing may be written.
    pub quiet: Duration,
    /// How long the broker is away.
    pub outage: Duration,
}

impl Plan {
    /// The share of the normal run.
    pub const NORMAL: Self =
        Self { kills: 1, groups: 60, quiet: Duration::from_secs(20), outage: Duration::from_secs(20) };
    /// The full counts of the acceptance list.
    pub const SOAK: Self =
        Self { kills: 5, groups: 300, quiet: Duration::from_secs(600), outage: Duration::from_secs(180) };

    /// The plan that `LOCKSTEP_CLUSTER` names; `None` when nobody asked.
    pub fn from_environment() -> Option<Self> {
        match std::env::var("LOCKSTEP_CLUSTER").ok()?.as_str() {
            "soak" => Some(Self::SOAK),
            _ => Some(Self::NORMAL),
        }
    }
}
