//! What a person has to know of the source's trouble, and the exact cure: one place for all texts.

#[cfg(test)]
mod tests;

pub(crate) use lockstep_broker::refusal;
use lockstep_broker::{BrokerError, Certainty, Class, Problem};
use lockstep_exclusive::{Failure, Pace};

use crate::{
    client::{ClientError, Exception, Product},
    config::{BadCredentials, Config, CredentialsSource},
};

/// The reasons that this adapter gives, CamelCase as conditions want them.
pub mod reason {
    pub use lockstep_broker::reason::{
        CONNECTION_LOST, MORE_MEMBERS_THAN_QUEUES, NOT_OWNED, NOT_SUPPORTED, TIMED_OUT, TLS_FAILED,
        UNEXPECTED_ANSWER, WRONG_CREDENTIALS,
    };

    /// No node can be reached.
    pub const UNREACHABLE: &str = "Unreachable";
    /// The broker speaks no OpenWire that is understood.
    pub const VERSION_UNSUPPORTED: &str = "VersionUnsupported";
    /// Another connection has our client id.
    pub const CLIENT_ID_TAKEN: &str = "ClientIdTaken";
    /// The broker takes no more connections, or no more consumers on one.
    pub const CONNECTION_LIMIT: &str = "ConnectionLimit";
    /// A queue does not exist, and the broker creates none.
    pub const QUEUE_NOT_FOUND: &str = "QueueNotFound";
    /// The user may not do this with a queue.
    pub const ACCESS_REFUSED: &str = "AccessRefused";
    /// A selector is none.
    pub const SELECTOR_INVALID: &str = "SelectorInvalid";
    /// Others consume a queue beside us.
    pub const QUEUE_SHARED: &str = "QueueShared";
    /// The broker ended a consumer, since messages were not acknowledged in time.
    pub const SLOW_CONSUMER: &str = "SlowConsumer";
    /// An acknowledgement came for a message that the broker had not given us, as far as it knows.
    pub const ACKNOWLEDGEMENT_UNMATCHED: &str = "AcknowledgementUnmatched";
    /// Who else consumes a queue can't be seen.
    pub const OWNERSHIP_UNVERIFIED: &str = lockstep_broker::Problem::OWNERSHIP_UNVERIFIED;
    /// There is nowhere for dead letters to go.
    pub const DEAD_LETTER_UNSUPPORTED: &str = "DeadLetterUnsupported";
    /// Some dead letters are deleted by the broker's default rules.
    pub const DEAD_LETTERS_DELETED: &str = "DeadLettersDeleted";
}

/// How grave: the first is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Connection,
    Queue,
    /// The broker ended a consumer lately.
    Ended,
    /// Others consume a queue beside us, as far as is known.
    Shared,
    Unverified,
}

/// What stands in Classic's words when an acknowledgement is for nothing that the consumer has.
const UNMATCHED: &str = "Unmatched acknowledge";
/// What stands in Classic's words when as many are there as may be.
const LIMIT: [&str; 2] = ["maximum limit", "maximum number of allowed client connections"];
/// What stands in Classic's words when a queue would have to be created for a user who may not.
const MAY_NOT_CREATE: &str = "not authorized to create";

/// Says what a refusal to consume from a queue, or the end of a consumer, means.
pub(crate) fn of_consumer(error: &ClientError, queue: &str, product: Product) -> Failure {
    if error.is_end_of_connection() {
        return Failure { pace: Pace::Reconnect, problem: None };
    }
    let Some(exception) = error.exception() else { return Failure { pace: Pace::Quick, problem: None } };
    let (reason, what, remedy) = refused(error, exception, queue, product);
    let message = format!("queue {queue} {what}: {exception}");
    Failure { pace: Pace::Slow, problem: Some(Problem { reason, message, remedy }) }
}

/// The reason of a refusal, what is wrong, and the cure.
fn refused(
    error: &ClientError,
    exception: &Exception,
    queue: &str,
    product: Product,
) -> (&'static str, &'static str, String) {
    let words = &*exception.message;
    if matches!(error, ClientError::Security(_)) {
        return if words.contains(MAY_NOT_CREATE) {
            (
                reason::QUEUE_NOT_FOUND,
                "does not exist, and this user may create none",
                format!(
                    "create it (<destinations><queue physicalName=\"{queue}\"/></destinations> in activemq.xml), or \
                     give the user's group the right: <authorizationEntry queue=\"{queue}\" read=\"GROUP\" admin=\"GROUP\"/>"
                ),
            )
        } else {
            (reason::ACCESS_REFUSED, "may not be read by this user", right_to_read(queue, product))
        };
    }
    let name = exception.name();
    if name.starts_with("InvalidSelector") || name.contains("InvalidFilter") {
        let remedy = "correct selector, or consumer.selector behind the queue's name".to_owned();
        return (reason::SELECTOR_INVALID, "can't be read with its selector", remedy);
    }
    if LIMIT.iter().any(|limit| words.contains(limit)) {
        let remedy =
            "raise maximumConsumersAllowedPerConnection of the broker's connector, or consume fewer queues";
        return (reason::CONNECTION_LIMIT, "has no room for one more consumer", remedy.to_owned());
    }
    if name.starts_with("InvalidDestination") || name.contains("NonExistentQueue") {
        let create = format!(
            "create it: artemis queue create --name {queue} --address {queue} --anycast --durable \
             --preserve-on-no-consumers --auto-create-address"
        );
        return (reason::QUEUE_NOT_FOUND, "does not exist", create);
    }
    (reason::UNEXPECTED_ANSWER, "can't be consumed", String::new())
}

fn right_to_read(queue: &str, product: Product) -> String {
    match product {
        Product::Classic => format!(
            "give the user's group the right: <authorizationEntry queue=\"{queue}\" read=\"GROUP\" admin=\"GROUP\"/> in the \
             authorizationPlugin of activemq.xml"
        ),
        Product::Artemis => format!(
            "give the user's role the right: <security-setting match=\"{queue}\"><permission type=\"consume\" \
             roles=\"ROLE\"/></security-setting> in broker.xml"
        ),
    }
}

/// Says what a failure to connect, or a lost connection, means.
pub(crate) fn of_connection(error: &ClientError, config: &Config) -> Problem {
    let problem =
        |reason, remedy: &str| Problem { reason, message: error.to_string(), remedy: remedy.to_owned() };
    match error {
        ClientError::Unreachable { .. } => problem(reason::UNREACHABLE, "correct urls, or start the broker"),
        ClientError::TlsFailed { .. } => problem(
            reason::TLS_FAILED,
            "set tls.caSecretRef to the authority that signed the server's certificate (and tls.clientCertSecretRef if \
             it asks for one), or write tcp:// and remove tls if it serves none",
        ),
        ClientError::TlsFile { .. } => problem(reason::TLS_FAILED, "correct the files named by tls"),
        ClientError::RefusedVersion { .. } => problem(
            reason::VERSION_UNSUPPORTED,
            "update the broker: Classic 5.9 and later and Artemis are understood",
        ),
        ClientError::Security(_) if config.credentials == CredentialsSource::None => problem(
            reason::WRONG_CREDENTIALS,
            "name a secret with the keys username and password in credentialsSecretRef",
        ),
        ClientError::Security(_) => problem(
            reason::WRONG_CREDENTIALS,
            "correct the secret named by credentialsSecretRef; it is read again at each connect",
        ),
        ClientError::InvalidClientId(_) => problem(
            reason::CLIENT_ID_TAKEN,
            "end the other connection with this client id; the broker forgets one whose process is gone within a minute",
        ),
        ClientError::Exception(exception) if LIMIT.iter().any(|limit| exception.message.contains(limit)) => {
            problem(
                reason::CONNECTION_LIMIT,
                "raise maximumConnections of the broker's connector, or connect less",
            )
        }
        ClientError::Exception(_) => problem(reason::UNEXPECTED_ANSWER, ""),
        ClientError::Protocol(_) => {
            problem(reason::UNEXPECTED_ANSWER, "name a port for OpenWire in urls, 61616 by custom")
        }
        ClientError::NotOpen(end) => of_connection(end, config),
        ClientError::Timeout { .. }
        | ClientError::ClosedByPeer
        | ClientError::Io(_)
        | ClientError::SilentBroker { .. }
        | ClientError::WriteStalled { .. }
        | ClientError::ClosedByUs
        | ClientError::TooLong { .. } => problem(reason::CONNECTION_LOST, ""),
    }
}

/// How soon to try again to connect. A failed TLS handshake may be that of a broker which is about to end.
pub(crate) fn pace_of_connection(error: &ClientError) -> Pace {
    match error {
        ClientError::Security(_)
        | ClientError::InvalidClientId(_)
        | ClientError::TlsFile { .. }
        | ClientError::RefusedVersion { .. } => Pace::Slow,
        ClientError::Unreachable { .. }
        | ClientError::TlsFailed { .. }
        | ClientError::Exception(_)
        | ClientError::Timeout { .. }
        | ClientError::ClosedByPeer
        | ClientError::Io(_)
        | ClientError::SilentBroker { .. }
        | ClientError::WriteStalled { .. }
        | ClientError::Protocol(_)
        | ClientError::ClosedByUs
        | ClientError::TooLong { .. }
        | ClientError::NotOpen(_) => Pace::Quick,
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

/// The broker wants a consumer to end: only its strategies against slow consumers do that.
pub(crate) fn slow_consumer(queue: &str) -> Problem {
    Problem {
        reason: reason::SLOW_CONSUMER,
        message: format!("the broker ended the consumer of queue {queue}, since it holds a message for too long"),
        remedy: "raise maxTimeSinceLastAck of the queue's slowConsumerStrategy above delivery.timeoutSeconds, or lower that"
            .to_owned(),
    }
}

/// The broker does not know a message as ours.
pub(crate) fn unmatched(queue: &str, error: &ClientError) -> Problem {
    Problem {
        reason: reason::ACKNOWLEDGEMENT_UNMATCHED,
        message: format!("an acknowledgement for queue {queue} was not taken: {error}"),
        remedy: String::new(),
    }
}

/// Others consume a queue that must be ours alone.
pub(crate) fn shared(queue: &str, product: Product, others: u32) -> Problem {
    let remedy = match product {
        Product::Classic => {
            "end the other consumers, or give them a queue of their own; Classic hands them nothing while \
                             this one lives, unless one of them is exclusive with a higher priority"
                .to_owned()
        }
        Product::Artemis => {
            format!("end the other consumers, and set exclusive: {}", exclusive_command(queue))
        }
    };
    let message = format!("queue {queue} is consumed by {others} others, so that its order may be lost");
    Problem { reason: reason::QUEUE_SHARED, message, remedy }
}

/// The command that gives an Artemis queue to one consumer at a time.
pub(crate) fn exclusive_command(queue: &str) -> String {
    format!("artemis queue update --name {queue} --exclusive")
}

/// Artemis would give a queue to several at once.
pub(crate) fn not_exclusive(queue: &str) -> Problem {
    Problem {
        reason: reason::OWNERSHIP_UNVERIFIED,
        message: format!(
            "queue {queue} is not exclusive: the broker hands it to several consumers at once if they come"
        ),
        remedy: format!(
            "set exclusive: {}, or <default-exclusive-queue>true</default-exclusive-queue> in the address-setting",
            exclusive_command(queue)
        ),
    }
}

/// Who else consumes a queue can't be seen.
pub(crate) fn unseen(queue: &str, product: Product, why: &str) -> Problem {
    let remedy = match product {
        Product::Classic => "give the user's group the right to read advisories: <authorizationEntry \
                             topic=\"ActiveMQ.Advisory.>\" read=\"GROUP\" write=\"GROUP\" admin=\"GROUP\"/>, and leave \
                             advisorySupport on"
            .to_owned(),
        Product::Artemis => format!(
            "give the user's role the permissions manage on activemq.management and view on the queue, and see that the \
             queue is exclusive: {}",
            exclusive_command(queue)
        ),
    };
    let message = format!("who else consumes queue {queue} can't be seen: {why}");
    Problem { reason: reason::OWNERSHIP_UNVERIFIED, message, remedy }
}

/// What Classic's rules do with dead letters unless they are changed.
pub(crate) fn classic_dead_letters() -> Problem {
    Problem {
        reason: reason::DEAD_LETTERS_DELETED,
        message: "by default the broker deletes dead letters that were sent non-persistent, and those whose message id was \
                  dead-lettered before"
            .to_owned(),
        remedy: "set processNonPersistent=\"true\" and enableAudit=\"false\" in the queue's deadLetterStrategy, if \
                 such messages come"
            .to_owned(),
    }
}

/// An Artemis queue has nowhere to put its dead letters.
pub(crate) fn no_dead_letter_address(queue: &str) -> Problem {
    Problem {
        reason: reason::DEAD_LETTER_UNSUPPORTED,
        message: format!(
            "queue {queue} has no dead-letter address, so that the broker would drop what is dead-lettered"
        ),
        remedy: format!(
            "name one: <address-setting match=\"{queue}\"><dead-letter-address>DLQ</dead-letter-address></address-setting> \
             in broker.xml, and create its queue"
        ),
    }
}

/// Where an Artemis queue puts its dead letters is not known.
pub(crate) fn unseen_dead_letters(queue: &str) -> Problem {
    Problem {
        reason: reason::DEAD_LETTER_UNSUPPORTED,
        message: format!(
            "it can't be seen whether queue {queue} has a dead-letter address; without one the broker drops what is dead-lettered"
        ),
        remedy: "give the user's role the permission manage on activemq.management, and view on the queue"
            .to_owned(),
    }
}

/// A call of the other halves that failed below.
pub(crate) fn failed(operation: &'static str, error: ClientError) -> BrokerError {
    let reason = match &error {
        ClientError::Timeout { .. } => reason::TIMED_OUT,
        ClientError::TooLong { .. } => reason::NOT_SUPPORTED,
        ClientError::Exception(exception) if exception.message.contains(UNMATCHED) => reason::NOT_OWNED,
        ClientError::Exception(_) | ClientError::Security(_) | ClientError::InvalidClientId(_) => {
            reason::UNEXPECTED_ANSWER
        }
        ClientError::Unreachable { .. }
        | ClientError::TlsFailed { .. }
        | ClientError::TlsFile { .. }
        | ClientError::RefusedVersion { .. }
        | ClientError::ClosedByPeer
        | ClientError::Io(_)
        | ClientError::SilentBroker { .. }
        | ClientError::WriteStalled { .. }
        | ClientError::Protocol(_)
        | ClientError::ClosedByUs
        | ClientError::NotOpen(_) => reason::CONNECTION_LOST,
    };
    let class = if reason == reason::NOT_SUPPORTED { Class::Permanent } else { Class::Transient };
    let certainty: Certainty = error.certainty();
    let problem = Problem { reason, message: error.to_string(), remedy: String::new() };
    BrokerError { operation, certainty, class, problem, source: Some(std::sync::Arc::new(error)) }
}

/// An operation under an ownership that is over.
pub(crate) fn not_owned(operation: &'static str) -> BrokerError {
    refusal(operation, Class::Transient, reason::NOT_OWNED, "the queue is not owned under that epoch")
}
