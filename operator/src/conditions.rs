//! The truth table of the conditions. `docs/conditions.md` shows it to people, and the tests have a line for each row.
//!
//! Every condition is always present. What nobody can know is `Unknown`: pods that can't be reached, and what only
//! running pods could say.

mod children;
mod delivery;
mod pod;
mod seen;
mod source;
mod whole;

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use lockstep_contract::{ConditionType, Reason};
use lockstep_crds::ConsumerGroupStatus;

pub(crate) use seen::Seen;

/// The longest message of a condition in bytes; Kubernetes takes 32 KiB, people read less.
pub const MESSAGE_MAX: usize = 1024;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    fn of(word: &str) -> Self {
        match word {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// What is judged of one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judgement {
    truth: Truth,
    /// A [`Reason`], or the word of a source's adapter.
    reason: Cow<'static, str>,
    message: String,
}

impl Judgement {
    fn new(truth: Truth, reason: Reason, message: impl Into<String>) -> Self {
        Self { truth, reason: Cow::Borrowed(reason.as_str()), message: message.into() }
    }

    fn is_false(&self) -> bool {
        self.truth == Truth::False
    }

    /// Whether it says no more than that no pod has answered.
    fn is_unasked(&self) -> bool {
        self.truth == Truth::Unknown && self.reason == Reason::Starting.as_str()
    }
}

fn yes(reason: Reason, message: impl Into<String>) -> Judgement {
    Judgement::new(Truth::True, reason, message)
}

fn no(reason: Reason, message: impl Into<String>) -> Judgement {
    Judgement::new(Truth::False, reason, message)
}

fn unknown(reason: Reason, message: impl Into<String>) -> Judgement {
    Judgement::new(Truth::Unknown, reason, message)
}

/// All conditions of a group, in the order of their declaration.
pub(crate) fn judge(seen: &Seen<'_>) -> Vec<(ConditionType, Judgement)> {
    let mut judgements = fresh(seen);
    let former = seen.former().map(|former| former.conditions.as_slice()).unwrap_or_default();
    for (kind, judgement) in &mut judgements {
        let former = former.iter().find(|former| former.type_ == kind.as_str());
        if let Some(former) = former.filter(|_| judgement.is_unasked()) {
            *judgement = Judgement {
                truth: Truth::of(&former.status),
                reason: Cow::Owned(former.reason.clone()),
                message: former.message.clone(),
            };
        }
    }
    judgements
}

fn fresh(seen: &Seen<'_>) -> Vec<(ConditionType, Judgement)> {
    let source = source::connected(seen);
    let application = delivery::application(seen);
    vec![
        (ConditionType::Ready, whole::ready(seen, &source, &application)),
        (ConditionType::Reconciling, whole::reconciling(seen)),
        (ConditionType::Stalled, whole::stalled(seen)),
        (ConditionType::SourceConnected, source),
        (ConditionType::ApplicationHealthy, application),
        (ConditionType::QueuesOwned, delivery::queues(seen)),
        (ConditionType::Blocked, delivery::blocked(seen)),
        (ConditionType::Paused, whole::paused(seen)),
    ]
}

/// All conditions of a group that can't be read.
pub(crate) fn of_unreadable(message: &str) -> Vec<(ConditionType, Judgement)> {
    let of = |kind| {
        let reason = Reason::InvalidSpec;
        let judgement = match kind {
            ConditionType::Stalled => yes(reason, message),
            ConditionType::Ready | ConditionType::Reconciling => no(reason, message),
            ConditionType::SourceConnected
            | ConditionType::ApplicationHealthy
            | ConditionType::QueuesOwned
            | ConditionType::Blocked
            | ConditionType::Paused
            | ConditionType::Unknown => unknown(reason, "the group can't be read"),
        };
        (kind, judgement)
    };
    ConditionType::ALL.iter().filter(|kind| **kind != ConditionType::Unknown).map(|kind| of(*kind)).collect()
}

/// The conditions as Kubernetes wants them. The moment of the last transition is kept while the status is the same.
pub(crate) fn written(
    judgements: Vec<(ConditionType, Judgement)>,
    generation: Option<i64>,
    previous: Option<&ConsumerGroupStatus>,
    now: Timestamp,
) -> Vec<Condition> {
    let write = |(kind, judgement): (ConditionType, Judgement)| {
        let status = judgement.truth.as_str();
        let former = previous.and_then(|previous| {
            previous.conditions.iter().find(|former| former.type_ == kind.as_str() && former.status == status)
        });
        Condition {
            type_: kind.as_str().to_owned(),
            status: status.to_owned(),
            reason: judgement.reason.into_owned(),
            message: bounded(judgement.message),
            observed_generation: generation,
            last_transition_time: former
                .map_or_else(|| Time(now), |former| former.last_transition_time.clone()),
        }
    };
    judgements.into_iter().map(write).collect()
}

/// At most [`MESSAGE_MAX`] bytes, cut between characters.
fn bounded(mut message: String) -> String {
    if message.len() > MESSAGE_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_MAX - "...".len()));
        message.push_str("...");
    }
    message
}

/// Sentences one after the other, empty ones left out.
fn joined<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

/// What holds where no pod answers.
fn nobody(seen: &Seen<'_>) -> Judgement {
    if let Some((pod, why)) = seen.unreachable().next() {
        let message = format!(
            "no pod can be asked; pod {pod}: {why}; let the operator reach the pods' port {}",
            seen.admin_port()
        );
        return unknown(Reason::PodsUnreachable, message);
    }
    unknown(Reason::Starting, "no pod has answered yet")
}

/// Some pods of those that answered, for messages.
fn count(some: usize, seen: &Seen<'_>) -> String {
    format!("{some} of {} pods", seen.answers().count())
}

#[cfg(test)]
mod tests;
