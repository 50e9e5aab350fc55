//! The conditions of the group as a whole: `Ready`, `Reconciling`, `Stalled` and `Paused`. The first three are what
//! tools wait for (kstatus): `Reconciling` = in progress, `Stalled` = failed, `Ready` = done.

use lockstep_contract::{Phase, Reason, Status};

use super::{
    Judgement, Truth,
    children::{self, Counts},
    joined, no, nobody, pod,
    seen::{Seen, SeenPod, Word},
    source::unasked,
    unknown, yes,
};

/// Pods whose trouble a message names at most.
const PODS_NAMED: usize = 3;

pub(super) fn stalled(seen: &Seen<'_>) -> Judgement {
    match &seen.stalled {
        Some((reason, message)) => yes(*reason, message.as_str()),
        None => no(Reason::NotStalled, ""),
    }
}

pub(super) fn ready(seen: &Seen<'_>, source: &Judgement, application: &Judgement) -> Judgement {
    let facts = seen.facts;
    if let Some((reason, message)) = &seen.stalled {
        return no(*reason, message.as_str());
    }
    if let Some(failure) = facts.failure {
        return no(Reason::ApplyFailed, failure.message.as_str());
    }
    let notices = facts.notices.iter().map(|notice| notice.message.as_str());
    if seen.wanted == 0 {
        let first = match seen.ending.len() + seen.pods.len() {
            0 => "replicas is 0: nothing is consumed".to_owned(),
            left => format!("replicas is 0: {left} pods still end"),
        };
        let message = joined([first.as_str()].into_iter().chain(notices));
        return yes(Reason::ScaledToZero, message);
    }
    if !children::is_enough(facts, seen.deployment) {
        return too_few(seen);
    }
    if seen.answers().next().is_none() {
        return nobody(seen);
    }
    if seen.paused {
        let first = match seen.has_left() {
            true => "state is Paused: nothing is consumed",
            false => "state is Paused: some pods have not left yet, see the condition Paused",
        };
        let message = joined([first].into_iter().chain(notices));
        return yes(Reason::PausedBySpec, message);
    }
    if let Some(trouble) = [source, application].into_iter().find(|judgement| judgement.is_false()) {
        return Judgement { truth: Truth::False, ..trouble.clone() };
    }
    yes(Reason::Delivering, joined(notices.chain([unasked(seen).as_str()])))
}

/// What keeps the wanted number of pods from being ready, in Kubernetes' and the sidecars' words.
fn too_few(seen: &Seen<'_>) -> Judgement {
    let Some(deployment) = seen.deployment else {
        return no(Reason::PodsNotReady, "the Deployment is not there yet");
    };
    let Counts { wanted, all, updated, available } = Counts::of(seen.facts, deployment);
    let mut parts =
        vec![format!("{available} of {wanted} pods are available, {updated} of {all} are current")];
    parts.extend(children::refusal(deployment).map(|message| format!("Kubernetes refuses pods: {message}")));
    parts.extend(seen.pods.iter().filter_map(trouble).take(PODS_NAMED));
    let reason = if children::is_stuck(deployment) { Reason::RolloutStuck } else { Reason::PodsNotReady };
    no(reason, joined(parts.iter().map(String::as_str)))
}

fn trouble(seen: &SeenPod<'_>) -> Option<String> {
    let said = || match seen.word {
        Word::Says(status) if !status.ready && !status.source.reason.is_empty() => {
            Some(joined([&*status.source.reason, &*status.source.message, &*status.source.remedy]))
        }
        Word::Says(status) if !status.ready => {
            Some(joined([status.application.reason.as_str(), status.application.message.as_str()]))
        }
        Word::Says(_) | Word::Starting | Word::Unasked => None,
        Word::Unreachable(why) => Some(why.to_owned()),
    };
    let text = pod::trouble(seen.pod).or_else(said)?;
    Some(format!("pod {}: {text}", seen.name))
}

pub(super) fn reconciling(seen: &Seen<'_>) -> Judgement {
    let facts = seen.facts;
    if let Some((reason, _)) = &seen.stalled {
        return no(*reason, "only the number of pods and the hot fields follow the spec until it is mended");
    }
    if let Some(failure) = facts.failure {
        return yes(Reason::ApplyFailed, format!("{}; it is tried again", failure.message));
    }
    if let Some((reason, message)) = &seen.change {
        return yes(*reason, joined([message.as_str(), overdue(seen).as_str()]));
    }
    // The Deployment counts no pods that end.
    if seen.wanted == 0 && !(seen.ending.is_empty() && seen.pods.is_empty()) {
        let message = format!("{} pods still end", seen.ending.len() + seen.pods.len());
        return yes(Reason::Scaling, joined([message.as_str(), overdue(seen).as_str()]));
    }
    if seen.wanted > 0 && seen.config_hash().as_deref() != Some(facts.hot_hash) {
        return configuring(seen);
    }
    if facts.plan.is_some_and(|plan| plan.waits_for_upgrade) {
        // What the user asked for is in force, so that nobody who waits for it has to wait for the others' upgrade.
        return no(
            Reason::WaitingForUpgrade,
            "the pods keep their sidecar until fewer groups are being rolled",
        );
    }
    no(Reason::UpToDate, "")
}

fn configuring(seen: &Seen<'_>) -> Judgement {
    let behind = || seen.answers().filter(|(_, status)| status.config.hot_hash != seen.facts.hot_hash);
    if let Some((pod, error)) = behind().find_map(|(pod, status)| Some((pod, status.config.error.as_ref()?)))
    {
        return yes(
            Reason::ConfigurationInvalid,
            format!("pod {pod} keeps the former configuration: {error}"),
        );
    }
    let message = match behind().count() {
        0 => joined([unasked(seen).as_str()]),
        count => format!("{count} of {} pods have not applied the configuration yet", seen.pods.len()),
    };
    yes(Reason::Configuring, message)
}

/// Pods that hang in their end, for a message.
fn overdue(seen: &Seen<'_>) -> String {
    pod::overdue(&seen.ending, seen.facts.now).unwrap_or_default()
}

pub(super) fn paused(seen: &Seen<'_>) -> Judgement {
    if seen.paused { leaving(seen) } else { returning(seen) }
}

/// Whether no pod holds a queue any more: people set positions by hand then, so that a doubt means no.
fn leaving(seen: &Seen<'_>) -> Judgement {
    if seen.has_left() {
        let message = if seen.pods.is_empty() { "no pod runs" } else { "no pod holds a queue" };
        return yes(Reason::PausedBySpec, message);
    }
    let silent = |pod: &&SeenPod<'_>| matches!(pod.word, Word::Unasked | Word::Unreachable(_));
    let holding = seen.holding().filter(|pod| !silent(pod)).count();
    if seen.ending.is_empty() && holding == 0 {
        return match seen.answers().next() {
            Some(_) if seen.unreachable().next().is_some() => unknown(Reason::PodsUnreachable, unasked(seen)),
            _ => nobody(seen),
        };
    }
    let living = match holding {
        0 => String::new(),
        count => format!("{count} of {} pods have not left the group yet", seen.pods.len()),
    };
    let ending = match seen.ending.len() {
        0 => String::new(),
        count => format!("{count} more still end"),
    };
    no(Reason::Configuring, joined([living.as_str(), ending.as_str(), overdue(seen).as_str()]))
}

fn returning(seen: &Seen<'_>) -> Judgement {
    let left = |status: &Status| status.phase == Phase::Paused && status.totals.owned == 0;
    if seen.wanted == 0 {
        return no(Reason::NotPaused, "");
    }
    let mut answers = seen.answers().peekable();
    if answers.peek().is_none() && seen.unreachable().next().is_some() {
        return nobody(seen);
    }
    if answers.peek().is_some() && answers.all(|(_, status)| left(status)) {
        return yes(Reason::Configuring, "the pods have not read yet that the group runs");
    }
    no(Reason::NotPaused, "")
}
