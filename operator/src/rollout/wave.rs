//! How many groups an upgrade of the operator rolls at the same time.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::api::apps::v1::Deployment;
use lockstep_contract::names::annotations;

use super::{is_rolled_out, mark};

/// The groups that were let through and that the watch does not show yet. One for the whole operator; it may be lost
/// with the process, since the Deployments' own marks tell the rest.
#[derive(Debug, Default)]
pub struct Wave {
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// UIDs of Deployments.
    admitted: BTreeSet<String>,
    /// Deployments that can't take an upgrade, since their group is stalled, by namespace and name. Lost with the
    /// process, it is found again when the groups are looked at.
    benched: BTreeSet<(String, String)>,
}

impl Wave {
    /// The group of that namespace and name is stalled: it is not waited for, and gives its place back. That ends when it
    /// asks for one. `deployment` is the UID of its Deployment.
    pub fn sit_out(&self, namespace: &str, name: &str, deployment: Option<&str>) {
        let mut memory = self.lock();
        memory.benched.insert((namespace.to_owned(), name.to_owned()));
        if let Some(uid) = deployment {
            memory.admitted.remove(uid);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the wave must know of every Deployment.
#[derive(Debug, Clone)]
pub struct Candidate {
    uid: Option<String>,
    /// Namespace and name.
    key: Option<(String, String)>,
    built_by: Option<String>,
    upgraded_to: Option<String>,
    is_rolled_out: bool,
}

impl From<&Deployment> for Candidate {
    fn from(deployment: &Deployment) -> Self {
        let marked = |name| mark(deployment, name).map(ToString::to_string);
        Self {
            uid: deployment.metadata.uid.clone(),
            key: key(deployment),
            built_by: marked(annotations::BUILT_BY),
            upgraded_to: marked(annotations::UPGRADED_TO),
            is_rolled_out: is_rolled_out(deployment),
        }
    }
}

fn key(deployment: &Deployment) -> Option<(String, String)> {
    let metadata = &deployment.metadata;
    Some((metadata.namespace.clone()?, metadata.name.clone()?))
}

/// The wave as one reconciliation sees it.
#[derive(Debug, Clone, Copy)]
pub struct WaveView<'a> {
    /// The operator's memory.
    pub wave: &'a Wave,
    /// Every Deployment that the operator watches, of all groups and namespaces.
    pub candidates: &'a [&'a Candidate],
}

impl WaveView<'_> {
    /// Whether the group of this Deployment may take the new template now. A place is held until all of its pods are
    /// there, and is free when the Deployment is gone.
    pub(super) fn admit(&self, live: &Deployment, ours: &str, max: usize) -> bool {
        let mut memory = self.wave.lock();
        let Memory { admitted, benched } = &mut *memory;
        if let Some(key) = key(live) {
            benched.remove(&key);
        }
        let mut living = BTreeSet::new();
        let mut rolling = BTreeSet::new();
        let mut outdated = BTreeSet::new();
        let mut whole_waits = false;
        for candidate in self.candidates {
            let Some(uid) = candidate.uid.as_deref() else { continue };
            let sits_out = candidate.key.as_ref().is_some_and(|key| benched.contains(key));
            living.extend(candidate.key.as_ref());
            let is_new = candidate.built_by.as_deref() == Some(ours);
            let by_upgrade = candidate.upgraded_to.as_deref() == Some(ours);
            match (is_new, candidate.is_rolled_out) {
                (true, false) if by_upgrade => {
                    rolling.insert(uid);
                }
                (true, _) => {}
                (false, whole) => {
                    outdated.insert(uid);
                    whole_waits |= whole && !sits_out && !admitted.contains(uid);
                }
            }
        }
        // What the watch shows as rebuilt, or no more, speaks for itself.
        admitted.retain(|uid| outdated.contains(uid.as_str()));
        benched.retain(|key| living.contains(&key));
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
