//! How a group is, from what is seen of it. Pure.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use lockstep_contract::{
    SourceKind,
    names::{SIDECAR_CONTAINER, labels},
};
use lockstep_crds::{Backlog, ConsumerGroup, ConsumerGroupStatus, Queues};

use crate::{
    Fault, Notice, PodReport,
    conditions::{self, Seen},
    rollout::Plan,
};

/// The shortest time between two writes that tell nothing but another backlog or another text.
pub const WRITE_EVERY: Duration = Duration::from_secs(60);

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
    let seen = Seen::new(facts);
    let previous = facts.group.status.as_ref();
    let generation = facts.group.metadata.generation;
    let deployment = seen.own_deployment();
    let counts = deployment.and_then(|deployment| deployment.status.as_ref());
    let name = facts.group.metadata.name.as_deref().unwrap_or_default();
    ConsumerGroupStatus {
        observed_generation: generation,
        replicas: counts.and_then(|counts| counts.replicas).unwrap_or(0),
        ready_replicas: counts.and_then(|counts| counts.ready_replicas).unwrap_or(0),
        updated_replicas: counts.and_then(|counts| counts.updated_replicas).unwrap_or(0),
        selector: Some(format!("{}={name}", labels::GROUP)),
        sidecar_image: deployment.and_then(sidecar_image),
        config_hash: seen.config_hash(),
        source: facts.group.spec.source.kind().map(source),
        queues: queues(&seen).or_else(|| seen.former()?.queues.clone()),
        backlog: backlog(&seen, facts.now).or_else(|| seen.former()?.backlog.clone()),
        conditions: conditions::written(conditions::judge(&seen), generation, previous, facts.now),
    }
}

/// How a group is that can't be read: it is stalled, and what was known of it before stays. `previous` is its status,
/// where that can be read.
pub fn unreadable(
    message: &str,
    generation: Option<i64>,
    previous: Option<&ConsumerGroupStatus>,
    now: Timestamp,
) -> ConsumerGroupStatus {
    let conditions = conditions::written(conditions::of_unreadable(message), generation, previous, now);
    ConsumerGroupStatus {
        observed_generation: generation,
        conditions,
        ..previous.cloned().unwrap_or_default()
    }
}

/// Whether `next` is worth a write: at once when anything changed that people or tools act on, at most once a minute when
/// only the backlog or the text of a condition did. `age` is since when this process last wrote it, `None` = not yet.
pub fn needs_write(
    previous: Option<&ConsumerGroupStatus>,
    next: &ConsumerGroupStatus,
    age: Option<Duration>,
) -> bool {
    let Some(previous) = previous else { return true };
    if steady(previous) != steady(next) {
        return true;
    }
    let due = age.is_none_or(|age| age >= WRITE_EVERY);
    due && (texts(previous) != texts(next) || figures(previous) != figures(next))
}

/// A status without what changes all the time.
fn steady(status: &ConsumerGroupStatus) -> ConsumerGroupStatus {
    let mut status = status.clone();
    status.backlog = None;
    for condition in &mut status.conditions {
        condition.message.clear();
    }
    status
}

fn texts(status: &ConsumerGroupStatus) -> Vec<&str> {
    status.conditions.iter().map(|condition| condition.message.as_str()).collect()
}

fn figures(status: &ConsumerGroupStatus) -> Option<(i64, Option<i64>)> {
    status.backlog.as_ref().map(|backlog| (backlog.messages, backlog.oldest_age_seconds))
}

fn queues(seen: &Seen<'_>) -> Option<Queues> {
    let total = seen.queues_total()?;
    let blocked = seen.statuses().map(|status| status.totals.blocked).fold(0, u32::saturating_add);
    Some(Queues { total, owned: seen.queues_owned(), blocked })
}

fn backlog(seen: &Seen<'_>, now: Timestamp) -> Option<Backlog> {
    let messages = seen.statuses().filter_map(|status| status.totals.backlog).reduce(u64::saturating_add)?;
    let oldest = seen.statuses().filter_map(|status| status.totals.oldest_age_seconds).max();
    let signed = |number| i64::try_from(number).unwrap_or(i64::MAX);
    Some(Backlog {
        messages: rounded(signed(messages)),
        oldest_age_seconds: oldest.map(|age| rounded(signed(age))),
        observed_time: Time(now),
    })
}

/// The number with two significant digits: more of them would be a write each time.
pub(crate) fn rounded(number: i64) -> i64 {
    let mut step = 1_i64;
    while number / step >= 100 {
        step = step.saturating_mul(10);
    }
    // The largest numbers have no room for rounding up.
    let half = number.saturating_add(step / 2);
    half / step * step
}

fn sidecar_image(deployment: &Deployment) -> Option<String> {
    let pod = deployment.spec.template.spec.as_ref()?;
    let mut containers = pod.init_containers.iter().flatten();
    containers.find(|container| container.name == SIDECAR_CONTAINER)?.image.clone()
}

/// The kind of source and what it reads.
fn source(kind: SourceKind<'_>) -> String {
    let queues = |queues: &[String]| match queues {
        [] => String::new(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    };
    match kind {
        SourceKind::RocketMq(source) => format!("rocketmq/{}", source.consumer_group),
        SourceKind::RabbitMq(source) => format!("rabbitmq/{}", queues(&source.queues)),
        SourceKind::ActiveMq(source) => format!("activemq/{}", queues(&source.queue_names())),
    }
}

#[cfg(test)]
pub(crate) mod scene;
#[cfg(test)]
mod tests;
