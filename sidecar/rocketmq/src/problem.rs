//! What a person has to know of the source's trouble, and the exact cure: one place for every text.

use lockstep_broker::{BrokerError, Certainty, Class, Problem};

/// The reasons that this adapter gives, CamelCase as conditions want them.
pub mod reason {
    /// No name server answered.
    pub const NAME_SERVER_UNREACHABLE: &str = "NameServerUnreachable";
    /// A subscribed topic does not exist.
    pub const TOPIC_NOT_FOUND: &str = "TopicNotFound";
    /// The consumer group does not exist and the broker does not create it.
    pub const GROUP_NOT_FOUND: &str = "GroupNotFound";
    /// The credentials may not do this.
    pub const NO_PERMISSION: &str = "NoPermission";
    /// The credentials are missing or wrong.
    pub const WRONG_CREDENTIALS: &str = "WrongCredentials";
    /// A broker's advertised address can't be reached.
    pub const BROKER_UNREACHABLE: &str = "BrokerUnreachable";
    /// The route names a broker without the address of its master.
    pub const BROKER_WITHOUT_MASTER: &str = "BrokerWithoutMaster";
    /// The TLS handshake failed.
    pub const TLS_FAILED: &str = "TlsFailed";
    /// The broker does not take SQL filters.
    pub const SQL_FILTER_DISABLED: &str = "SqlFilterDisabled";
    /// The broker can't parse the filter.
    pub const FILTER_INVALID: &str = "FilterInvalid";
    /// The topic is a static topic, a batch queue or another kind that is not served.
    pub const TOPIC_UNSUPPORTED: &str = "TopicUnsupported";
    /// Another live process uses our client id.
    pub const DUPLICATE_CLIENT_ID: &str = "DuplicateClientId";
    /// There are more members than queues, so that this one has nothing to do.
    pub const MORE_MEMBERS_THAN_QUEUES: &str = "MoreMembersThanQueues";
    /// The broker takes no requests for now.
    pub const BROKER_BUSY: &str = "BrokerBusy";
    /// A broker was started less than one lease ago, so that its forgotten locks may still be in use.
    pub const BROKER_RESTARTED: &str = "BrokerRestarted";
    /// The broker answered something that makes no sense.
    pub const UNEXPECTED_ANSWER: &str = "UnexpectedAnswer";
    /// No answer came in time.
    pub const TIMED_OUT: &str = "TimedOut";
    /// The connection broke.
    pub const CONNECTION_LOST: &str = "ConnectionLost";
    /// The ownership is over.
    pub const NOT_OWNED: &str = "NotOwned";
    /// A newer position was set from outside.
    pub const POSITION_MOVED: &str = "PositionMoved";
    /// The operation is not one that a log has.
    pub const NOT_SUPPORTED: &str = "NotSupported";
}
