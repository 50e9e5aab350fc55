//! From the facts of one attempt to its verdict: the table of the callback contract.

use std::time::Duration;

use crate::{AttemptResult, HttpAnswer, StatusCodes, TransportFailure, VerdictHeader};

/// What an attempt's outcome means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Finished.
    Done,
    /// Again after backoff; an attempt is spent.
    Again,
    /// The whole endpoint pauses so long; no attempt is spent.
    Pause(Duration),
    /// This lane waits so long, or its backoff; no attempt is spent.
    Snooze(Option<Duration>),
    /// The message is at fault: `whenExhausted` at once.
    Never,
    /// The application wants it in the dead-letter queue.
    DeadLetter,
    /// The application wants it dropped.
    Skip,
    /// The endpoint is at fault.
    Misconfigured,
    /// The application never saw it.
    Unreachable,
    /// We cancelled it.
    Cancelled,
}

/// The verdict on one result.
pub(crate) fn judge(result: &AttemptResult, codes: &StatusCodes) -> Verdict {
    match result {
        AttemptResult::Answered(answer) => judge_answer(answer, codes),
        AttemptResult::Failed(TransportFailure::Unreachable) => Verdict::Unreachable,
        AttemptResult::Failed(TransportFailure::TimedOut | TransportFailure::Broken) => Verdict::Again,
        AttemptResult::Failed(TransportFailure::Cancelled) => Verdict::Cancelled,
    }
}

/// Whether the result says that the application is overloaded: the limit halves.
pub(crate) fn is_overload(result: &AttemptResult) -> bool {
    match result {
        AttemptResult::Answered(answer) => matches!(answer.status, 429 | 503),
        AttemptResult::Failed(failure) => *failure == TransportFailure::TimedOut,
    }
}

fn judge_answer(answer: &HttpAnswer, codes: &StatusCodes) -> Verdict {
    let status = answer.status;
    if !(200..300).contains(&status) {
        match answer.verdict {
            Some(VerdictHeader::Again) => return Verdict::Snooze(answer.retry_after),
            Some(VerdictHeader::DeadLetter) => return Verdict::DeadLetter,
            Some(VerdictHeader::Skip) => return Verdict::Skip,
            None => {}
        }
    }
    let again = match (status, answer.retry_after) {
        (429 | 503, Some(after)) => Verdict::Pause(after),
        (_, _) => Verdict::Again,
    };
    if codes.done.contains(&status) {
        return Verdict::Done;
    }
    if codes.again.contains(&status) {
        return again;
    }
    if codes.never.contains(&status) {
        return Verdict::Never;
    }
    if codes.misconfigured.contains(&status) {
        return Verdict::Misconfigured;
    }
    match status {
        200..=299 => Verdict::Done,
        400 | 413 | 414 | 415 | 422 | 431 => Verdict::Never,
        300..=399 | 401 | 403 | 404 | 405 | 407 | 410 => Verdict::Misconfigured,
        _ => again,
    }
}
