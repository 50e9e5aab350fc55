//! What a person has to know of the source's trouble, and the exact cure: one place for every text.

#[cfg(test)]
mod tests;

use lockstep_broker::Problem;

use crate::{
    protocol::{ReplyError, ResponseCode},
    remoting::{BackoffCause, CallError, ConnectError},
};

/// The reasons that this adapter gives, CamelCase as conditions want them.
pub mod reason {
    pub use lockstep_broker::reason::{
        CONNECTION_LOST, MORE_MEMBERS_THAN_QUEUES, NOT_OWNED, NOT_SUPPORTED, TIMED_OUT, TLS_FAILED,
        UNEXPECTED_ANSWER, WRONG_CREDENTIALS,
    };

    /// No name server answered.
    pub const NAME_SERVER_UNREACHABLE: &str = "NameServerUnreachable";
    /// A subscribed topic does not exist.
    pub const TOPIC_NOT_FOUND: &str = "TopicNotFound";
    /// The topic is a static topic, a batch queue or another kind that is not served.
    pub const TOPIC_UNSUPPORTED: &str = "TopicUnsupported";
    /// The consumer group does not exist and the broker does not create it.
    pub const GROUP_NOT_FOUND: &str = "GroupNotFound";
    /// The credentials may not do this, or reading is switched off.
    pub const NO_PERMISSION: &str = "NoPermission";
    /// A broker's advertised address can't be reached.
    pub const BROKER_UNREACHABLE: &str = "BrokerUnreachable";
    /// The route names a broker without the address of its master.
    pub const BROKER_WITHOUT_MASTER: &str = "BrokerWithoutMaster";
    /// The broker does not take SQL filters.
    pub const SQL_FILTER_DISABLED: &str = "SqlFilterDisabled";
    /// The broker can't parse the filter.
    pub const FILTER_INVALID: &str = "FilterInvalid";
    /// Members of the group subscribe to different topics.
    pub const SUBSCRIPTION_UNKNOWN: &str = "SubscriptionUnknown";
    /// Another live process uses our client id.
    pub const DUPLICATE_CLIENT_ID: &str = "DuplicateClientId";
    /// A broker was started less than one lease ago, so that locks it has forgotten may still be in use.
    pub const BROKER_RESTARTED: &str = "BrokerRestarted";
    /// The broker takes no requests for now.
    pub const BROKER_BUSY: &str = "BrokerBusy";
    /// A newer position was set from outside.
    pub const POSITION_MOVED: &str = "PositionMoved";
}

/// What a failed request was about, so that the cure can name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    /// A broker or a name server, as people know it.
    pub(crate) peer: Peer<'a>,
    pub(crate) group: &'a str,
    pub(crate) topic: Option<&'a str>,
    /// For the commands in remedies.
    pub(crate) name_servers: &'a [String],
}

/// Who was asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer<'a> {
    NameServer,
    Broker(&'a str),
}

/// Brokers have one code for all refusals of access; what is wrong with the credentials stands in the words only.
const CREDENTIAL_WORDS: [&str; 6] =
    ["signature", "username", "accesskey", "access key", "user is not", "not found"];

/// Says what a failed request means for a person.
pub(crate) fn of_call(error: &CallError, about: About<'_>) -> Problem {
    let problem = |reason, message: String, remedy: String| Problem { reason, message, remedy };
    match error {
        CallError::Connect { address, cause } => of_connect(address, cause, about),
        CallError::Backoff { address, cause: BackoffCause::Connect(cause), .. } => {
            of_connect(address, cause, about)
        }
        CallError::Backoff { .. } | CallError::Lost { .. } => {
            problem(reason::CONNECTION_LOST, error.to_string(), String::new())
        }
        CallError::Timeout { .. } | CallError::TooLate { .. } => {
            problem(reason::TIMED_OUT, error.to_string(), String::new())
        }
        CallError::Busy { .. } => problem(reason::BROKER_BUSY, error.to_string(), String::new()),
        CallError::Encode(_) => problem(reason::NOT_SUPPORTED, error.to_string(), String::new()),
        CallError::Reply { cause: ReplyError::Refused { code, remark }, .. } => {
            let (reason, remedy) = of_refusal(*code, remark, about);
            problem(reason, error.to_string(), remedy)
        }
        CallError::Reply { .. } => problem(reason::UNEXPECTED_ANSWER, error.to_string(), String::new()),
    }
}

fn of_connect(address: &str, cause: &ConnectError, about: About<'_>) -> Problem {
    let (unreachable, who) = match about.peer {
        Peer::NameServer => (reason::NAME_SERVER_UNREACHABLE, "name server".to_owned()),
        Peer::Broker(name) => (reason::BROKER_UNREACHABLE, format!("broker {name}")),
    };
    let (reason, remedy) = match cause {
        ConnectError::Tls(_) => (
            reason::TLS_FAILED,
            "set tls.caSecretRef to the authority that signed the server's certificate (and tls.clientCertSecretRef \
             if it asks for one), or remove tls if it serves none"
                .to_owned(),
        ),
        ConnectError::File { .. } => (reason::TLS_FAILED, "correct the files named by tls".to_owned()),
        ConnectError::CredentialsFile { path, .. } => {
            let key = path.file_name().unwrap_or_default().to_string_lossy();
            (
                reason::WRONG_CREDENTIALS,
                format!(
                    "give the secret named by credentialsSecretRef a usable key {key}, or the file in \
                     --credentials-dir; it is read again at each connect"
                ),
            )
        }
        ConnectError::Credentials(_) => {
            (reason::WRONG_CREDENTIALS, "correct the secret named by credentialsSecretRef".to_owned())
        }
        ConnectError::Address | ConnectError::Io(_) | ConnectError::Timeout(_) => {
            let remedy = match about.peer {
                Peer::NameServer => "correct nameServers, or start the name server".to_owned(),
                Peer::Broker(_) => format!(
                    "if the broker advertises an address that can't be reached from here, name a reachable one: \
                     addressOverrides: {{\"{address}\": \"host:port\"}}"
                ),
            };
            (unreachable, remedy)
        }
    };
    Problem { reason, message: format!("{who} at {address} can't be used: {cause}"), remedy }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all other codes say nothing more than their words")]
fn of_refusal(code: ResponseCode, remark: &str, about: About<'_>) -> (&'static str, String) {
    let words = remark.to_lowercase();
    let credentials = CREDENTIAL_WORDS.iter().any(|word| words.contains(word));
    match code {
        ResponseCode::SystemError if words.contains("acl") || words.contains("signature") => {
            (reason::WRONG_CREDENTIALS, "correct the secret named by credentialsSecretRef".to_owned())
        }
        ResponseCode::SystemError
            if words.contains("enablepropertyfilter") || words.contains("property filter") =>
        {
            sql_disabled()
        }
        ResponseCode::NoPermission if credentials => {
            (reason::WRONG_CREDENTIALS, "correct the secret named by credentialsSecretRef".to_owned())
        }
        ResponseCode::NoPermission => (
            reason::NO_PERMISSION,
            format!(
                "allow the account to subscribe to group {} and topic {}, or allow reading there (brokerPermission, \
                 the topic's perm, the group's consumeEnable)",
                about.group,
                about.topic.unwrap_or("of the subscription")
            ),
        ),
        ResponseCode::TopicNotExist => {
            (reason::TOPIC_NOT_FOUND, create_topic(about, about.topic.unwrap_or("TOPIC")))
        }
        ResponseCode::SubscriptionGroupNotExist => (reason::GROUP_NOT_FOUND, create_group(about)),
        ResponseCode::SubscriptionParseFailed => {
            (reason::FILTER_INVALID, "correct the subscription's sql".to_owned())
        }
        ResponseCode::SubscriptionNotExist | ResponseCode::SubscriptionNotLatest => (
            reason::SUBSCRIPTION_UNKNOWN,
            format!(
                "all members of group {} must subscribe to the same topics; stop those that differ",
                about.group
            ),
        ),
        ResponseCode::SystemBusy | ResponseCode::FlowControl | ResponseCode::ServiceNotAvailable => {
            (reason::BROKER_BUSY, String::new())
        }
        _ => (reason::UNEXPECTED_ANSWER, String::new()),
    }
}

/// The broker takes no SQL filters.
pub(crate) fn sql_disabled() -> (&'static str, String) {
    let remedy = "set enablePropertyFilter=true in broker.conf and restart the broker, or filter by tags";
    (reason::SQL_FILTER_DISABLED, remedy.to_owned())
}

fn name_servers(about: About<'_>) -> String {
    about.name_servers.join(";")
}

/// The command that creates a topic.
pub(crate) fn create_topic(about: About<'_>, topic: &str) -> String {
    format!("create it: mqadmin updateTopic -n '{}' -c CLUSTER -t '{topic}' -r 8 -w 8", name_servers(about))
}

/// The command that creates the group.
pub(crate) fn create_group(about: About<'_>) -> String {
    format!("create it: mqadmin updateSubGroup -n '{}' -c CLUSTER -g '{}'", name_servers(about), about.group)
}

/// How grave: the first is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    NameServers,
    Membership,
    Topic,
    Broker,
    Queue,
    Note,
}
