use std::time::Duration;

/// What came of one attempt, as plain facts; [`crate::Config::status_codes`] and the standard table make the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptResult {
    /// The application answered completely (or with as much of a body as is read).
    Answered(HttpAnswer),
    /// It did not.
    Failed(TransportFailure),
}

/// An answer's head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status code.
    pub status: u16,
    /// `Retry-After` as a wait from now, uncapped; `None` when absent or unreadable.
    pub retry_after: Option<Duration>,
    /// `Lockstep-Verdict`, when it has a known value.
    pub verdict: Option<VerdictHeader>,
}

/// Values of the `Lockstep-Verdict` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictHeader {
    /// `again`
    Again,
    /// `dead-letter`
    DeadLetter,
    /// `skip`
    Skip,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransportFailure {
    /// The connection was refused or the name was not found: the application never saw the message.
    Unreachable,
    /// No complete answer within the timeout.
    TimedOut,
    /// The connection was reset, closed early or answered garbage after the request was sent.
    Broken,
    /// The shell cancelled it, as the engine asked ([`crate::Output::CancelAttempt`]), or did not start it because
    /// `not_after` had passed.
    Cancelled,
}
