//! The table of the HTTP contract, row by row.

use std::time::Duration;

use lockstep_core::{AttemptResult, Config, TransportFailure, VerdictHeader};

/// What an outcome means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Done,
    Again,
    Never,
    Misconfigured,
    Unreachable,
    /// The whole endpoint pauses so long.
    Pause(Duration),
    /// This lane waits so long.
    Snooze(Duration),
    DeadLetter,
    Skip,
}

pub(crate) fn verdict(config: &Config, result: &AttemptResult) -> Verdict {
    let answer = match result {
        AttemptResult::Failed(TransportFailure::Unreachable | TransportFailure::Cancelled) => {
            return Verdict::Unreachable;
        }
        AttemptResult::Failed(TransportFailure::TimedOut | TransportFailure::Broken) => {
            return Verdict::Again;
        }
        AttemptResult::Answered(answer) => answer,
    };
    let status = answer.status;
    if (200..300).contains(&status) {
        return Verdict::Done;
    }
    match (answer.verdict, answer.retry_after) {
        (Some(VerdictHeader::Again), wait) => return Verdict::Snooze(wait.unwrap_or_default()),
        (Some(VerdictHeader::DeadLetter), _) => return Verdict::DeadLetter,
        (Some(VerdictHeader::Skip), _) => return Verdict::Skip,
        (None, _) => {}
    }
    if config.status_codes.done.contains(&status) {
        return Verdict::Done;
    }
    match (status, answer.retry_after) {
        (400 | 413 | 414 | 415 | 422 | 431, _) => Verdict::Never,
        (429 | 503, Some(wait)) => Verdict::Pause(wait),
        (401 | 403 | 404 | 405 | 407 | 410 | 300..=399, _) => Verdict::Misconfigured,
        _ => Verdict::Again,
    }
}
