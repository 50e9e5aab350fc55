//! Tells a group's user what changed, as events and in the log.

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Condition};
use kube::runtime::events::{Event, EventType, Recorder};
use lockstep_contract::{ConditionType, Reason};
use lockstep_crds::ConsumerGroupStatus;
use tracing::{debug, info};

use crate::{Notice, context::Shared, metrics::Step};

/// The longest note of an event: the API server takes 1024 bytes.
const NOTE_MAX: usize = 1000;
/// What the operator was doing, as each event has to say.
const ACTION: &str = "Reconcile";

/// Tells of every condition that is another than before.
pub async fn conditions(
    shared: &Shared,
    about: &ObjectReference,
    previous: Option<&ConsumerGroupStatus>,
    next: &ConsumerGroupStatus,
) {
    for condition in &next.conditions {
        let before = previous
            .and_then(|status| status.conditions.iter().find(|before| before.type_ == condition.type_));
        if is_news(before, condition) {
            let Condition { type_, status, reason, message, .. } = condition;
            info!(condition = type_, status, reason, message, "condition changed");
            tell(shared, about, weight(condition), reason, &format!("{type_} is {status}: {message}")).await;
        }
    }
}

/// Tells of notices that the user was not told of yet.
pub async fn notices(shared: &Shared, about: &ObjectReference, told: &[Notice], now: &[Notice]) {
    for notice in now.iter().filter(|notice| !told.contains(notice)) {
        info!(reason = %notice.reason, message = notice.message, "notice");
        tell(shared, about, EventType::Warning, notice.reason.as_str(), &notice.message).await;
    }
}

/// Another status or reason than before; at first only trouble.
fn is_news(before: Option<&Condition>, condition: &Condition) -> bool {
    match before {
        Some(before) => {
            condition.status != "Unknown"
                && (&before.status, &before.reason) != (&condition.status, &condition.reason)
        }
        None => condition.type_ == ConditionType::Stalled.as_str() && condition.status == "True",
    }
}

fn weight(condition: &Condition) -> EventType {
    let good = |kind: &ConditionType| kind.as_str() == condition.type_;
    let trouble_when_true = [ConditionType::Stalled, ConditionType::Blocked].iter().any(good);
    let neutral = [ConditionType::Reconciling, ConditionType::Paused].iter().any(good);
    let trouble = if trouble_when_true { "True" } else { "False" };
    match condition.status == trouble && !neutral && condition.reason != Reason::Starting.as_str() {
        true => EventType::Warning,
        false => EventType::Normal,
    }
}

async fn tell(shared: &Shared, about: &ObjectReference, type_: EventType, reason: &str, note: &str) {
    if !shared.leads() {
        return;
    }
    let event = Event {
        type_,
        reason: reason.to_owned(),
        note: Some(shortened(note)),
        action: ACTION.to_owned(),
        secondary: None,
    };
    // One for each event: a Recorder remembers all it wrote for minutes, to count repeats, and there are none here.
    let recorder = Recorder::new(shared.client.clone(), shared.reporter.clone());
    match recorder.publish(&event, about).await {
        Ok(()) => {
            shared.metrics.events.inc();
        }
        // An event is a courtesy: the condition says the same.
        Err(error) => {
            shared.metrics.failed(Step::Event);
            debug!(error = %error, reason, "failed to write an event");
        }
    }
}

fn shortened(note: &str) -> String {
    if note.len() <= NOTE_MAX {
        return note.to_owned();
    }
    let mut short = String::with_capacity(NOTE_MAX);
    for letter in note.chars() {
        if short.len() + letter.len_utf8() > NOTE_MAX - '…'.len_utf8() {
            break;
        }
        short.push(letter);
    }
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(type_: &str, status: &str, reason: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                jiff::Timestamp::UNIX_EPOCH,
            ),
            observed_generation: None,
        }
    }

    #[test]
    fn news_is_another_status_or_reason() {
        let before = condition("Ready", "True", "Delivering");
        assert!(!is_news(Some(&before), &before));
        assert!(is_news(Some(&before), &condition("Ready", "True", "Paused")));
        assert!(is_news(Some(&before), &condition("Ready", "False", "Delivering")));
        assert!(!is_news(Some(&before), &condition("Ready", "Unknown", "PodsUnreachable")));
        assert!(!is_news(None, &before));
        assert!(!is_news(None, &condition("Stalled", "False", "NotStalled")));
        assert!(is_news(None, &condition("Stalled", "True", "InvalidSpec")));
    }

    #[test]
    fn only_trouble_is_a_warning() {
        for (type_, status, reason, trouble) in [
            ("Ready", "True", "Delivering", false),
            ("Ready", "False", "PodsNotReady", true),
            ("Ready", "False", "Starting", false),
            ("Stalled", "True", "InvalidSpec", true),
            ("Stalled", "False", "NotStalled", false),
            ("Blocked", "True", "AttemptsExhausted", true),
            ("Blocked", "False", "NotBlocked", false),
            ("SourceConnected", "False", "Disconnected", true),
            ("Reconciling", "False", "UpToDate", false),
            ("Paused", "True", "PausedBySpec", false),
        ] {
            let warns = matches!(weight(&condition(type_, status, reason)), EventType::Warning);
            assert_eq!(warns, trouble, "{type_} {status} {reason}");
        }
    }

    #[test]
    fn a_note_fits_and_ends_at_a_letter() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"ä".repeat(800));
        assert!(long.len() <= NOTE_MAX && long.ends_with("ä…"), "{}", long.len());
    }
}
