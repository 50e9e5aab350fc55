//! Scenarios against an API server alone: the operator is a process of this machine with the rights of its service
//! account, and [`fakes`] play the controllers, the kubelet and the sidecars.

mod beside;
mod crowd;
mod drift;
mod fakes;
mod leaders;
mod manifests;
mod narrow;
mod newer;
mod operator;
mod players;
mod rollouts;
mod site;
mod tools;

pub use site::LoneSite;

use crate::runner::Scenario;

/// All scenarios.
pub const SCENARIOS: &[Scenario<LoneSite>] = &[
    Scenario { name: "manifests", run: manifests::kept_and_broken },
    Scenario { name: "tools", run: tools::kubectl_and_helm },
    Scenario { name: "drift", run: drift::corrected },
    Scenario { name: "beside", run: beside::go_on },
    Scenario { name: "newer", run: newer::definition },
    Scenario { name: "rollouts", run: rollouts::killed_at_each_step },
    Scenario { name: "narrow", run: narrow::forbidden },
    Scenario { name: "leaders", run: leaders::takeover },
    Scenario { name: "crowd", run: crowd::many_groups },
];
