//! How many groups an upgrade of the operator rolls at the same time.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::api::apps::v1::Deployment;
use lockstep_contract::names::annotations;

use super::{is_rolled_out, mark};

/// The groups that were let through and that the watch does not show yet. One for the whole operator; it may be lost
/// with the process, since the Deployments' own marks tell the rest.
#[derive(Debug, Default)]
pub struct Wave {
    /// UIDs of Deployments.
    admitted: Mutex<BTreeSet<String>>,
}

/// The wave as one reconciliation sees it.
#[derive(Debug, Clone, Copy)]
pub struct WaveView<'a> {
    /// The operator's memory.
    pub wave: &'a Wave,
    /// Every Deployment that the operator watches, of all groups and namespaces.
    pub deployments: &'a [Arc<Deployment>],
}

impl WaveView<'_> {
    /// Whether the group of this Deployment may take the new template now. A place is held until all of its pods are
    /// there, and is free when the Deployment is gone.
    pub(super) fn admit(&self, live: &Deployment, ours: &str, max: usize) -> bool {
        let mut admitted = self.wave.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rolling = BTreeSet::new();
        let mut outdated = BTreeSet::new();
        let mut whole_waits = false;
        for deployment in self.deployments {
            let Some(uid) = deployment.metadata.uid.as_deref() else { continue };
            let is_new = mark(deployment, annotations::BUILT_BY).is_some_and(|by| by == ours);
            let by_upgrade = mark(deployment, annotations::UPGRADED_TO).is_some_and(|by| by == ours);
            match (is_new, is_rolled_out(deployment)) {
                (true, false) if by_upgrade => {
                    rolling.insert(uid);
                }
                (true, _) => {}
                (false, whole) => {
                    outdated.insert(uid);
                    whole_waits |= whole && !admitted.contains(uid);
                }
            }
        }
        // What the watch shows as rebuilt, or no more, speaks for itself.
        admitted.retain(|uid| outdated.contains(uid.as_str()));
        let Some(uid) = live.metadata.uid.as_deref() else { return false };
        if admitted.contains(uid) {
            return true;
        }
        // A group that was broken before stays so whatever its image, and would hold its place for good: such ones
        // leave one place to those that work.
        let reserved = usize::from(!is_rolled_out(live) && whole_waits);
        let free = rolling.len() + admitted.len() + reserved < max;
        if free {
            admitted.insert(uid.to_owned());
        }
        free
    }
}
