use std::{error::Error as StdError, fmt, sync::Arc};

/// Whether an operation that failed may have happened all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// It surely did not happen.
    NotDone,
    /// It may have happened: the answer was lost.
    Unknown,
}

/// Whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It may pass by itself: a lost connection, an overloaded broker.
    Transient,
    /// Somebody has to change something: a missing topic, no permission.
    Permanent,
}

/// What a person has to know of a source's trouble: the reason of a condition, and the exact cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// A CamelCase word out of a fixed set, for example `TopicNotFound`: the condition's reason and a metric label.
    pub reason: &'static str,
    /// What is wrong, in one sentence that names what it is about.
    pub message: String,
    /// What to do next: a command or a setting. Empty when only waiting helps.
    pub remedy: String,
}

/// An operation on a broker failed.
#[derive(Debug, Clone)]
pub struct BrokerError {
    /// What was tried, for example `commit`.
    pub operation: &'static str,
    /// Whether it may have happened.
    pub certainty: Certainty,
    /// Whether trying again can help.
    pub class: Class,
    /// What a person should know.
    pub problem: Problem,
    /// The cause below, if there is one.
    pub source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// An operation that was not begun.
pub fn refusal(
    operation: &'static str,
    class: Class,
    reason: &'static str,
    message: impl Into<String>,
) -> BrokerError {
    let problem = Problem { reason, message: message.into(), remedy: String::new() };
    BrokerError { operation, certainty: Certainty::NotDone, class, problem, source: None }
}

impl Problem {
    /// The reason of a member that has nothing to do, since its group has more members than queues.
    pub const MORE_REPLICAS_THAN_QUEUES: &'static str = "MoreReplicasThanQueues";

    /// The reason of a member that can't see whether its queues have one consumer at a time, and consumes.
    pub const OWNERSHIP_UNVERIFIED: &'static str = "OwnershipUnverified";

    /// Whether something is wrong with the source: a member that has nothing to do is as well as one can be, and what
    /// can't be verified may be as it should.
    pub fn is_failure(&self) -> bool {
        ![Self::MORE_REPLICAS_THAN_QUEUES, Self::OWNERSHIP_UNVERIFIED].contains(&self.reason)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to {}: {}", self.operation, self.problem)
    }
}

impl StdError for BrokerError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
