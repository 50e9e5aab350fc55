//! What the pods say of the application, of their queues and of messages that hold up what is behind them.

use lockstep_contract::{
    BlockedMessage, ConditionStatus, ConditionType, Health, PodCondition, QueueStatus, Reason, Status,
    names::{SIDECAR_BINARY, SIDECAR_CONTAINER},
};

use super::{
    Judgement, count, joined, no, nobody, pod,
    seen::{Seen, own_condition},
    source::unasked,
    unknown, yes,
};

pub(super) fn application(seen: &Seen<'_>) -> Judgement {
    if seen.wanted == 0 {
        return unknown(Reason::ScaledToZero, "no pod is wanted");
    }
    let ill = || seen.answers().filter_map(|(pod, status)| Some((illness(status)?, pod, status)));
    let Some((reason, name, status)) = ill().min_by_key(|(reason, _, _)| gravity(*reason)) else {
        return match seen.answers().any(|(_, status)| status.application.health == Health::Healthy) {
            true => yes(Reason::Healthy, unasked(seen)),
            false if seen.answers().next().is_some() => {
                unknown(Reason::NeverHealthy, "no application was asked yet")
            }
            false => nobody(seen),
        };
    };
    let of_pod = seen.pods.iter().find(|seen| seen.name == name);
    let kubernetes = of_pod.and_then(|seen| pod::trouble(seen.pod)).unwrap_or_default();
    let said = status.application.message.as_str();
    let text = joined([said, kubernetes.as_str(), remedy(reason)]);
    no(reason, format!("{}; pod {name}: {text}", count(ill().count(), seen)))
}

fn illness(status: &Status) -> Option<Reason> {
    let application = &status.application;
    let reason = application.reason;
    match application.health {
        Health::Healthy => {
            matches!(reason, Reason::CallbackMisconfigured | Reason::DeadLetterStorm).then_some(reason)
        }
        Health::Unhealthy
            if matches!(reason, Reason::NeverHealthy | Reason::SecretMissing | Reason::SecretInvalid) =>
        {
            Some(reason)
        }
        Health::Unhealthy => Some(Reason::HealthCheckFailed),
        Health::Unknown => None,
    }
}

/// Which of several illnesses is told: those that heal by themselves last.
fn gravity(reason: Reason) -> u8 {
    #[allow(clippy::wildcard_enum_match_arm, reason = "no other word is an illness")]
    match reason {
        Reason::CallbackMisconfigured => 0,
        Reason::DeadLetterStorm => 1,
        Reason::SecretMissing | Reason::SecretInvalid => 2,
        Reason::HealthCheckFailed => 3,
        _ => 4,
    }
}

fn remedy(reason: Reason) -> &'static str {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the sidecar's message of the others names its remedy")]
    match reason {
        Reason::HealthCheckFailed | Reason::NeverHealthy => {
            "look at the container's log, and whether delivery.port and delivery.healthCheck are what it serves"
        }
        Reason::DeadLetterStorm => "look at the container's log; delivery goes on by itself after a success",
        _ => "",
    }
}

pub(super) fn queues(seen: &Seen<'_>) -> Judgement {
    if seen.wanted == 0 {
        return unknown(Reason::ScaledToZero, "no pod is wanted");
    }
    if seen.paused {
        return unknown(Reason::PausedBySpec, "the group is paused");
    }
    if seen.answers().next().is_none() {
        return nobody(seen);
    }
    let said = |wanted: fn(&PodCondition) -> bool| {
        let conditions = seen
            .answers()
            .filter_map(|(pod, status)| Some((pod, own_condition(status, ConditionType::QueuesOwned)?)));
        conditions.filter(move |(_, condition)| wanted(condition))
    };
    if let Some((pod, condition)) = said(|condition| condition.status == ConditionStatus::False).next() {
        return no(condition.reason, joined([format!("pod {pod}").as_str(), condition.message.as_str()]));
    }
    let Some(total) = seen.queues_total() else {
        return unknown(Reason::Connecting, "no pod knows the queues yet");
    };
    let owned = seen.queues_owned();
    if owned < total {
        return unowned(seen, owned, total);
    }
    let idle = said(|condition| condition.reason == Reason::MoreReplicasThanQueues).count();
    if idle > 0 || seen.wanted.unsigned_abs() > total {
        let message =
            format!("there are {total} queues for {} pods; further pods have nothing to do", seen.wanted);
        return yes(Reason::MoreReplicasThanQueues, message);
    }
    if let Some((pod, condition)) = said(|condition| condition.reason == Reason::OwnershipUnverified).next() {
        return yes(condition.reason, joined([format!("pod {pod}").as_str(), condition.message.as_str()]));
    }
    yes(Reason::Owned, format!("all {total} queues"))
}

fn unowned(seen: &Seen<'_>, owned: u32, total: u32) -> Judgement {
    let message = format!("{owned} of {total} queues have an owner");
    if seen.unreachable().next().is_some() {
        return unknown(Reason::PodsUnreachable, joined([message.as_str(), unasked(seen).as_str()]));
    }
    if !seen.ending.is_empty() || seen.is_any_moving() || seen.change.is_some() {
        return no(Reason::Acquiring, message);
    }
    no(Reason::QueuesWithoutOwner, format!("{message}; see SourceConnected and ApplicationHealthy"))
}

pub(super) fn blocked(seen: &Seen<'_>) -> Judgement {
    if seen.wanted == 0 {
        return unknown(Reason::ScaledToZero, "no pod is wanted");
    }
    if seen.paused {
        return unknown(Reason::PausedBySpec, "the group is paused");
    }
    let messages = seen.answers().flat_map(|(pod, status)| {
        let queues = status.queues.iter();
        queues.flat_map(move |queue| queue.blocked.iter().map(move |message| (pod, queue, message)))
    });
    if let Some((pod, queue, message)) = messages.max_by_key(|(_, _, message)| message.age_seconds) {
        return yes(message.hold, held_up(seen, pod, queue, message));
    }
    let stopped = seen.answers().find_map(|(pod, status)| {
        let own = own_condition(status, ConditionType::Blocked)?;
        (own.status == ConditionStatus::True).then_some((pod, own))
    });
    if let Some((pod, own)) = stopped {
        let remedy = match own.reason == Reason::DataLoss {
            true => "see the pod's /status for the range; retry.onDataLoss: Continue goes on behind it",
            false => "",
        };
        return yes(own.reason, format!("pod {pod}: {}", joined([own.message.as_str(), remedy])));
    }
    match seen.answers().next() {
        Some(_) => no(Reason::NotBlocked, unasked(seen)),
        None => nobody(seen),
    }
}

fn held_up(seen: &Seen<'_>, pod: &str, queue: &QueueStatus, message: &BlockedMessage) -> String {
    let blocked: u32 = seen.answers().map(|(_, status)| status.totals.blocked).sum();
    let BlockedMessage { message_id, attempts, age_seconds, last_error, .. } = message;
    let age = crate::status::rounded(i64::try_from(*age_seconds).unwrap_or(i64::MAX));
    let error = if last_error.is_empty() { "" } else { ": " };
    let namespace = seen.facts.group.metadata.namespace.as_deref().unwrap_or("default");
    format!(
        "{blocked} queues are held up; message {message_id} of queue {} waits in pod {pod} for {age} s after {attempts} \
         attempts{error}{last_error}; it is tried on until the application takes it; past it: kubectl exec -n {namespace} \
         {pod} -c {SIDECAR_CONTAINER} -- {SIDECAR_BINARY} skip --queue '{}' --message-id '{message_id}'",
        queue.name, queue.name
    )
}
