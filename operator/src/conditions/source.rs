//! `SourceConnected`: whether the pods have a session with the source, and what is wrong with it.

use std::borrow::Cow;

use lockstep_contract::{ConditionType, Health, Phase, Reason, Status};

use super::{
    Judgement, Truth, count, joined, nobody,
    seen::{Seen, own_condition},
    unknown, yes,
};

/// The longest word of an adapter that becomes a reason.
const WORD_MAX: usize = 64;

/// One pod and its source.
enum Session {
    /// A session stands and messages can come.
    Stands,
    /// A session is wanted and there is none, or it brings nothing.
    Fails,
    /// It is being made.
    Pending,
    /// It is not wanted now.
    Unwanted,
}

pub(super) fn connected(seen: &Seen<'_>) -> Judgement {
    if seen.wanted == 0 {
        return unknown(Reason::ScaledToZero, "no pod is wanted");
    }
    if seen.paused {
        return unknown(Reason::NotConnecting, "the group is paused");
    }
    let of =
        |wanted: fn(&Session) -> bool| seen.answers().filter(move |(_, status)| wanted(&session(status)));
    let failing = of(|session| matches!(session, Session::Fails));
    let mut failing = failing.peekable();
    if let Some((pod, status)) = failing.peek() {
        let (reason, text) = (reason(status), text(status));
        let pod = *pod;
        let message = format!("{} can't consume; pod {pod}: {text}", count(failing.count(), seen));
        return Judgement { truth: Truth::False, reason, message };
    }
    if let Some((pod, status)) = of(is_standing).find(|(_, status)| !status.source.reason.is_empty()) {
        let message = format!("pod {pod}: {}", text(status));
        return Judgement { truth: Truth::True, reason: reason(status), message };
    }
    match (of(is_standing).count(), of(|session| matches!(session, Session::Pending)).count()) {
        (0, 0) if seen.answers().next().is_none() => nobody(seen),
        (0, 0) => unknown(Reason::NotConnecting, "no pod has a healthy application"),
        (0, pending) => unknown(Reason::Connecting, format!("{} connect", count(pending, seen))),
        (_, _) => yes(Reason::Connected, unasked(seen)),
    }
}

fn is_standing(session: &Session) -> bool {
    matches!(session, Session::Stands)
}

fn session(status: &Status) -> Session {
    let source = &status.source;
    // A session with trouble that still owns queues consumes those; one without brings nothing.
    let consumes = source.reason.is_empty() || status.totals.owned > 0;
    match (source.connected, status.phase) {
        (true, _) if consumes => Session::Stands,
        (true, _) => Session::Fails,
        (false, Phase::Paused | Phase::HandedOver) => Session::Unwanted,
        (false, _) if !source.reason.is_empty() => Session::Fails,
        (false, Phase::Starting) if status.application.health == Health::Healthy => Session::Pending,
        (false, Phase::Starting) => Session::Unwanted,
        (false, Phase::Running | Phase::Held | Phase::Draining | Phase::Unknown) => Session::Fails,
    }
}

/// The adapter's own word where it is one, since it says most.
fn reason(status: &Status) -> Cow<'static, str> {
    let word = status.source.reason.as_str();
    if is_reason(word) {
        return Cow::Owned(word.to_owned());
    }
    let own = own_condition(status, ConditionType::SourceConnected).map(|own| own.reason);
    let own = own.filter(|own| *own == Reason::SourceUnsupported).unwrap_or(Reason::Disconnected);
    Cow::Borrowed(own.as_str())
}

/// Whether Kubernetes and people take a word for a reason: CamelCase, and not too long.
pub(super) fn is_reason(word: &str) -> bool {
    word.len() <= WORD_MAX
        && word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.chars().all(|letter| letter.is_ascii_alphanumeric())
}

fn text(status: &Status) -> String {
    let source = &status.source;
    let word = if is_reason(&source.reason) { "" } else { source.reason.as_str() };
    let text = joined([word, source.message.as_str(), source.remedy.as_str()]);
    if text.is_empty() { "no session stands; it is made again by itself".to_owned() } else { text }
}

/// Who was left out of a judgement.
pub(super) fn unasked(seen: &Seen<'_>) -> String {
    match seen.unreachable().next() {
        Some((pod, why)) => {
            format!("{} pods can't be asked; pod {pod}: {why}", seen.unreachable().count())
        }
        None => String::new(),
    }
}
