//! Which pods can take queues, and since when.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use lockstep_contract::{Health, Phase};
use tokio::time::Instant;

use crate::{Observed, PodReport};

/// A pod that can hold queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The pod's name.
    pub pod: String,
    /// Whether its application is healthy and its session with the source stands.
    pub fit: bool,
    /// Since when it is or is not.
    pub since: Instant,
}

/// Remembers since when the pods of one group are fit or not. A new leader starts with an empty one: a pod that is not
/// fit then keeps its queues for one more hand-over time.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    pods: BTreeMap<String, (bool, Instant)>,
}

impl Memory {
    /// The members of the group now: pods that are not ending and have not handed their queues over by themselves.
    pub fn members(&mut self, observed: &Observed, now: Instant) -> Vec<Member> {
        let mut pods = BTreeMap::new();
        for pod in &observed.pods {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
            let name = pod.name_any();
            let report = observed.reports.get(&name);
            if pod.metadata.deletion_timestamp.is_some()
                || matches!(phase, "Succeeded" | "Failed")
                || report.is_some_and(handed_over)
            {
                continue;
            }
            let fit = report.is_some_and(fit);
            let since = match self.pods.get(&name) {
                Some((before, since)) if *before == fit => *since,
                Some(_) | None => now,
            };
            pods.insert(name, (fit, since));
        }
        self.pods = pods;
        let member = |(pod, (fit, since)): (&String, &(bool, Instant))| Member {
            pod: pod.clone(),
            fit: *fit,
            since: *since,
        };
        self.pods.iter().map(member).collect()
    }
}

fn fit(report: &PodReport) -> bool {
    match report {
        PodReport::Answered(status) => {
            status.application.health == Health::Healthy
                && status.source.connected
                && matches!(status.phase, Phase::Running | Phase::Starting)
        }
        PodReport::Unreachable(_) => false,
    }
}

/// Whether the sidecar has given its queues up because of its application.
fn handed_over(report: &PodReport) -> bool {
    match report {
        PodReport::Answered(status) => matches!(status.phase, Phase::HandedOver | Phase::Draining),
        PodReport::Unreachable(_) => false,
    }
}
