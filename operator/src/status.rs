//! How a group is, from what is seen of it. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use lockstep_crds::{ConsumerGroup, ConsumerGroupStatus};

use crate::{Fault, Notice, PodReport, rollout::Plan};

/// What is seen of a group.
#[derive(Debug, Clone, Copy)]
pub struct StatusFacts<'a> {
    /// The group, with the status that was last seen or written.
    pub group: &'a ConsumerGroup,
    /// What only a change can cure.
    pub faults: &'a [Fault],
    /// What the user should know.
    pub notices: &'a [Notice],
    /// What this reconciliation does; `None` when it does nothing, since there are faults.
    pub plan: Option<&'a Plan>,
    /// The Deployment with the group's name; one of another owner is passed over.
    pub deployment: Option<&'a Deployment>,
    /// The `APPLIED_HASH` of the Deployment as it is wanted; `None` when there are faults.
    pub applied_hash: Option<&'a str>,
    /// The group's pods, ending ones among them.
    pub pods: &'a [Arc<Pod>],
    /// What they say of themselves, by name.
    pub reports: &'a BTreeMap<String, PodReport>,
    /// The hash of the hot file that every pod should have applied.
    pub hot_hash: &'a str,
    /// Why the children could not be written this time.
    pub failure: Option<&'a ApplyFailure>,
    /// Now.
    pub now: Timestamp,
}

/// Why children could not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyFailure {
    /// Which child, and what the API says.
    pub message: String,
    /// Whether the same is refused again until the spec changes: the API calls the object invalid or forbidden.
    pub for_good: bool,
}

/// How the group is.
pub fn status(facts: &StatusFacts<'_>) -> ConsumerGroupStatus {
    let _ = facts;
    ConsumerGroupStatus::default()
}

/// How a group is that can't be read: it is stalled, and nothing else is known. `previous` is its status, where that can
/// be read.
pub fn unreadable(
    message: &str,
    generation: Option<i64>,
    previous: Option<&ConsumerGroupStatus>,
    now: Timestamp,
) -> ConsumerGroupStatus {
    let _ = (message, generation, previous, now);
    ConsumerGroupStatus::default()
}

/// Whether `next` is worth a write: at once when a condition, a count or a hash changed, at most once a minute when only
/// the backlog or a condition's message did. `written` is when this process last wrote, `None` = not yet.
pub fn needs_write(
    previous: Option<&ConsumerGroupStatus>,
    next: &ConsumerGroupStatus,
    written: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    let _ = (previous, next, written, now);
    true
}
