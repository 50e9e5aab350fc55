//! Scenarios against an API server alone: the operator is a process of this machine with the rights of its service
//! account, and [`fakes`] play the controllers, the kubelet and the sidecars.

mod crowd;
mod fakes;
mod leaders;
mod manifests;
mod operator;
mod players;
mod site;
mod tools;

pub use site::LoneSite;

use crate::runner::Scenario;

/// All scenarios.
pub const SCENARIOS: &[Scenario<LoneSite>] = &[
    Scenario { name: "manifests", run: manifests::kept_and_broken },
    Scenario { name: "tools", run: tools::kubectl_and_helm },
    Scenario { name: "leaders", run: leaders::takeover },
    Scenario { name: "crowd", run: crowd::many_groups },
];
