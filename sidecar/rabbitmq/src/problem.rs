//! What a person has to know of the source's trouble, and the exact cure: one place for the texts of failed calls. Those of
//! a declaration stand beside its judgement.

#[cfg(test)]
mod tests;

pub(crate) use lockstep_broker::refusal;
use lockstep_broker::{BrokerError, Certainty, Class, Problem};
use lockstep_exclusive::{Failure, Pace};

use crate::{
    amqp::AmqpError,
    config::{BadCredentials, Config, DeadLetter},
    declaration,
};

/// The reasons that this adapter gives, CamelCase as conditions want them.
pub mod reason {
    pub use lockstep_broker::reason::{
        CONNECTION_LOST, MORE_MEMBERS_THAN_QUEUES, NOT_OWNED, NOT_SUPPORTED, TIMED_OUT, TLS_FAILED,
        UNEXPECTED_ANSWER, WRONG_CREDENTIALS,
    };

    /// No node can be reached.
    pub const UNREACHABLE: &str = "Unreachable";
    /// There is no such virtual host, or not for this user.
    pub const VHOST_NOT_FOUND: &str = "VhostNotFound";
    /// The broker has as many connections as it may have, of all or of this user.
    pub const CONNECTION_LIMIT: &str = "ConnectionLimit";
    /// A queue does not exist.
    pub const QUEUE_NOT_FOUND: &str = "QueueNotFound";
    /// The user may not do this with a queue, or somebody has it for himself.
    pub const ACCESS_REFUSED: &str = "AccessRefused";
    /// A queue may be consumed by several at once.
    pub const NOT_SINGLE_ACTIVE: &str = "NotSingleActive";
    /// A queue is a classic one.
    pub const CLASSIC_QUEUE: &str = "ClassicQueue";
    /// A message may be taken out of its place by the queue's delivery limit.
    pub const DELIVERY_LIMIT_FINITE: &str = "DeliveryLimitFinite";
    /// A queue is a stream.
    pub const STREAM_UNSUPPORTED: &str = "StreamUnsupported";
    /// A queue is of a kind that only a plugin knows.
    pub const QUEUE_TYPE_UNSUPPORTED: &str = "QueueTypeUnsupported";
    /// How a queue was declared can't be found out.
    pub const OWNERSHIP_UNVERIFIED: &str = lockstep_broker::Problem::OWNERSHIP_UNVERIFIED;
    /// The management API can't be used.
    pub const MANAGEMENT_FAILED: &str = "ManagementFailed";
    /// There is nowhere for dead letters to go.
    pub const DEAD_LETTER_UNSUPPORTED: &str = "DeadLetterUnsupported";
    /// A queue waits for room for a body.
    pub const NO_ROOM: &str = "NoRoom";
    /// The queue for dead letters does not exist.
    pub const DEAD_LETTER_QUEUE_NOT_FOUND: &str = "DeadLetterQueueNotFound";
    /// A queue hands out messages before older ones.
    pub const MESSAGES_OVERTAKE: &str = "MessagesOvertake";
    /// The broker took a message back that was not settled in time.
    pub const ACKNOWLEDGEMENT_TIMEOUT: &str = "AcknowledgementTimeout";
    /// The broker takes no messages for now (a memory or disk alarm).
    pub const BROKER_BLOCKED: &str = "BrokerBlocked";
}

/// Codes of AMQP 0-9-1 that say something to a person.
mod code {
    pub(super) const ACCESS_REFUSED: u16 = 403;
    pub(super) const NOT_FOUND: u16 = 404;
    pub(super) const RESOURCE_LOCKED: u16 = 405;
    pub(super) const PRECONDITION_FAILED: u16 = 406;
    pub(super) const NOT_IMPLEMENTED: u16 = 540;
}

/// The command that gives what the group needs, all of it: it replaces what was given before. Declaring is needed where nothing
/// else shows how queues were declared.
pub(crate) fn permissions(config: &Config, declaring: bool) -> String {
    let names: Vec<String> = config.queues.iter().map(|name| quoted(name)).collect();
    let queues = match &names[..] {
        [name] => format!("^{name}$"),
        names => format!("^({})$", names.join("|")),
    };
    let declaring = declaring || (config.management.is_none() && !config.assumed);
    let configure = if declaring { queues.as_str() } else { "^$" };
    let write = if matches!(config.dead_letter, DeadLetter::Queue(_)) { r"^amq\.default$" } else { "^$" };
    format!("rabbitmqctl set_permissions -p '{}' USER '{configure}' '{write}' '{queues}'", config.vhost)
}

/// A name as a regular expression that matches nothing else.
pub(crate) fn quoted(name: &str) -> String {
    name.chars().fold(String::new(), |mut quoted, letter| {
        if r".+*?()[]{}|^$\".contains(letter) {
            quoted.push('\\');
        }
        quoted.push(letter);
        quoted
    })
}

/// Says what an end of a queue's channel, or a failure to open it, means.
pub(crate) fn of_channel(error: &AmqpError, queue: &str, config: &Config) -> Failure {
    let problem = |reason, what: &str, remedy| {
        Some(Problem { reason, message: format!("queue {queue} {what}"), remedy })
    };
    let slow = |problem| Failure { pace: Pace::Slow, problem };
    if error.is_end_of_connection() {
        return Failure { pace: Pace::Reconnect, problem: None };
    }
    let Some(close) = error.close() else {
        return Failure { pace: Pace::Quick, problem: None };
    };
    match close.code {
        code::NOT_FOUND if !close.text.contains("no queue") => slow(problem(
            reason::UNEXPECTED_ANSWER,
            &format!("can't be reached: {}", close.text),
            "start the node that the queue is on again; a quorum queue goes on with a majority of its nodes"
                .to_owned(),
        )),
        code::NOT_FOUND => slow(problem(
            reason::QUEUE_NOT_FOUND,
            &format!("does not exist in the virtual host {}", config.vhost),
            format!("declare it: {}", declaration::right(config, queue, None)),
        )),
        code::ACCESS_REFUSED if close.text.contains("in exclusive use") => slow(problem(
            reason::ACCESS_REFUSED,
            "is consumed by somebody who wants it for himself alone",
            "end that consumer, or let it consume without the flag exclusive".to_owned(),
        )),
        code::ACCESS_REFUSED => slow(problem(
            reason::ACCESS_REFUSED,
            &format!("may not be read by this user: {}", close.text),
            format!("give permission: {}", permissions(config, false)),
        )),
        code::RESOURCE_LOCKED => slow(problem(
            reason::ACCESS_REFUSED,
            "is exclusive to another connection",
            format!("delete it and declare it anew: {}", declaration::right(config, queue, None)),
        )),
        code::PRECONDITION_FAILED if close.text.contains("timed out") => Failure {
            pace: Pace::Quick,
            problem: problem(
                reason::ACKNOWLEDGEMENT_TIMEOUT,
                "was taken back by the broker, since a message was not acknowledged in time",
                "tell the broker's consumer_timeout in acknowledgementTimeoutSeconds, or raise it there"
                    .to_owned(),
            ),
        },
        code::PRECONDITION_FAILED | code::NOT_IMPLEMENTED => slow(problem(
            reason::UNEXPECTED_ANSWER,
            &format!("can't be consumed: {}", close.text),
            String::new(),
        )),
        _ => Failure { pace: Pace::Quick, problem: None },
    }
}

/// Says what a failure to connect, or a lost connection, means.
pub(crate) fn of_connection(error: &AmqpError, config: &Config) -> Problem {
    let problem = |reason, remedy: String| Problem { reason, message: error.to_string(), remedy };
    match error {
        AmqpError::AuthRefused { .. } | AmqpError::Mechanism { .. } => problem(
            reason::WRONG_CREDENTIALS,
            "correct the secret named by credentialsSecretRef, or the certificate named by tls.clientCertSecretRef; both \
             are read again at each connect"
                .to_owned(),
        ),
        AmqpError::VhostRefused { text, .. } if text.contains("connection limit (") => problem(
            reason::CONNECTION_LIMIT,
            "raise the limit (max-connections of rabbitmqctl set_vhost_limits or set_user_limits, connection_max of the \
             node), or connect less"
                .to_owned(),
        ),
        AmqpError::VhostRefused { .. } => problem(
            reason::VHOST_NOT_FOUND,
            format!(
                "create it: rabbitmqctl add_vhost '{}', and give permission: {}; or correct vhost",
                config.vhost,
                permissions(config, false)
            ),
        ),
        AmqpError::Tls { .. } => problem(
            reason::TLS_FAILED,
            "set tls.caSecretRef to the authority that signed the server's certificate (and tls.clientCertSecretRef if \
             it asks for one), or write amqp:// and remove tls if it serves none"
                .to_owned(),
        ),
        AmqpError::TlsFile { .. } => problem(reason::TLS_FAILED, "correct the files named by tls".to_owned()),
        AmqpError::Dns { .. } | AmqpError::Connect { .. } | AmqpError::ConnectTimeout { .. } => {
            problem(reason::UNREACHABLE, "correct urls, or start the broker".to_owned())
        }
        AmqpError::Protocol(_) => {
            problem(reason::UNEXPECTED_ANSWER, "name a port for AMQP 0-9-1 in urls".to_owned())
        }
        AmqpError::NotOpen(end) => of_connection(end, config),
        AmqpError::ClosedByServer(_)
        | AmqpError::ClosedByPeer
        | AmqpError::Io(_)
        | AmqpError::HeartbeatMissed { .. }
        | AmqpError::WriteStalled { .. }
        | AmqpError::ClosedByUs
        | AmqpError::ChannelClosed(_)
        | AmqpError::Timeout { .. }
        | AmqpError::Blocked { .. }
        | AmqpError::Busy { .. }
        | AmqpError::UnknownTag { .. }
        | AmqpError::TooLong { .. } => problem(reason::CONNECTION_LOST, String::new()),
    }
}

/// How soon to try again to connect. A failed TLS handshake may be that of a broker which is about to end.
pub(crate) fn pace_of_connection(error: &AmqpError) -> Pace {
    match error {
        AmqpError::AuthRefused { .. }
        | AmqpError::Mechanism { .. }
        | AmqpError::VhostRefused { .. }
        | AmqpError::TlsFile { .. } => Pace::Slow,
        AmqpError::Dns { .. }
        | AmqpError::Connect { .. }
        | AmqpError::ConnectTimeout { .. }
        | AmqpError::Tls { .. }
        | AmqpError::Protocol(_)
        | AmqpError::ClosedByServer(_)
        | AmqpError::ClosedByPeer
        | AmqpError::Io(_)
        | AmqpError::HeartbeatMissed { .. }
        | AmqpError::WriteStalled { .. }
        | AmqpError::ClosedByUs
        | AmqpError::ChannelClosed(_)
        | AmqpError::Timeout { .. }
        | AmqpError::Blocked { .. }
        | AmqpError::Busy { .. }
        | AmqpError::UnknownTag { .. }
        | AmqpError::TooLong { .. }
        | AmqpError::NotOpen(_) => Pace::Quick,
    }
}

/// Says what credentials that can't be read mean.
pub(crate) fn of_credentials(bad: &BadCredentials) -> Problem {
    let key = bad.path.file_name().unwrap_or_default().to_string_lossy();
    Problem {
        reason: reason::WRONG_CREDENTIALS,
        message: format!("failed to read the credentials {}: {}", bad.path.display(), bad.reason),
        remedy: format!(
            "give the secret named by credentialsSecretRef a usable key {key}, or the file in --credentials-dir; it is \
             read again at each connect"
        ),
    }
}

/// One attempt does not fit into the acknowledgement timeout.
pub(crate) fn hopeless(config: &Config) -> Problem {
    Problem {
        reason: reason::ACKNOWLEDGEMENT_TIMEOUT,
        message: format!(
            "one attempt may take {:?}, more than half of the broker's acknowledgement timeout of {:?}",
            config.prefetch.timeout, config.acknowledgement_timeout
        ),
        remedy: "raise consumer_timeout at the broker and acknowledgementTimeoutSeconds, or lower \
                 delivery.timeoutSeconds"
            .to_owned(),
    }
}

/// A call of the other halves that failed below.
pub(crate) fn failed(operation: &'static str, error: AmqpError, certainty: Certainty) -> BrokerError {
    let reason = match &error {
        AmqpError::Timeout { .. } => reason::TIMED_OUT,
        AmqpError::Blocked { .. } => reason::BROKER_BLOCKED,
        AmqpError::TooLong { .. } => reason::NOT_SUPPORTED,
        AmqpError::Dns { .. }
        | AmqpError::Connect { .. }
        | AmqpError::ConnectTimeout { .. }
        | AmqpError::Tls { .. }
        | AmqpError::TlsFile { .. }
        | AmqpError::Mechanism { .. }
        | AmqpError::AuthRefused { .. }
        | AmqpError::VhostRefused { .. }
        | AmqpError::Protocol(_)
        | AmqpError::ClosedByServer(_)
        | AmqpError::ClosedByPeer
        | AmqpError::Io(_)
        | AmqpError::HeartbeatMissed { .. }
        | AmqpError::WriteStalled { .. }
        | AmqpError::ClosedByUs
        | AmqpError::ChannelClosed(_)
        | AmqpError::Busy { .. }
        | AmqpError::UnknownTag { .. }
        | AmqpError::NotOpen(_) => reason::CONNECTION_LOST,
    };
    let class = if reason == reason::NOT_SUPPORTED { Class::Permanent } else { Class::Transient };
    let problem = Problem { reason, message: error.to_string(), remedy: String::new() };
    BrokerError { operation, certainty, class, problem, source: Some(std::sync::Arc::new(error)) }
}

/// An operation under an ownership that is over.
pub(crate) fn not_owned(operation: &'static str) -> BrokerError {
    refusal(operation, Class::Transient, reason::NOT_OWNED, "the queue is not owned under that epoch")
}

/// How grave: the first is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Connection,
    Queue,
    DeadLetter,
    /// The broker took a queue back lately.
    TimedOut,
    /// A queue may be consumed by several at once, as far as is known.
    Unverified,
    Warning,
}
