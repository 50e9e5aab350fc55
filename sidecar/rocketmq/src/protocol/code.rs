use std::fmt;

/// Declares the response codes once: number, name in the protocol, name here.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal $name:literal;)*) => {
        /// How a request ended, by the protocol's numbers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ResponseCode {
            $($(#[$doc])* $variant,)*
            /// A number that is not known.
            Unknown(i32),
        }

        impl From<i32> for ResponseCode {
            fn from(number: i32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }
        }

        impl ResponseCode {
            /// The number on the wire.
            pub fn number(self) -> i32 {
                match self {
                    $(Self::$variant => $number,)*
                    Self::Unknown(number) => number,
                }
            }

            /// The protocol's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Unknown(_) => "UNKNOWN",
                }
            }
        }

        #[cfg(test)]
        const ALL: &[ResponseCode] = &[$(ResponseCode::$variant),*];
    };
}

codes! {
    /// It worked.
    Success = 0 "SUCCESS";
    /// Anything that has no code of its own.
    SystemError = 1 "SYSTEM_ERROR";
    /// Overloaded: try again.
    SystemBusy = 2 "SYSTEM_BUSY";
    /// The peer does not know the request.
    RequestCodeNotSupported = 3 "REQUEST_CODE_NOT_SUPPORTED";
    /// A transaction failed.
    TransactionFailed = 4 "TRANSACTION_FAILED";
    /// Stored; the disk did not confirm in time.
    FlushDiskTimeout = 10 "FLUSH_DISK_TIMEOUT";
    /// Stored; there is no slave.
    SlaveNotAvailable = 11 "SLAVE_NOT_AVAILABLE";
    /// Stored; the slave did not confirm in time.
    FlushSlaveTimeout = 12 "FLUSH_SLAVE_TIMEOUT";
    /// The message breaks a rule.
    MessageIllegal = 13 "MESSAGE_ILLEGAL";
    /// The broker does not write, for example because its disk is full.
    ServiceNotAvailable = 14 "SERVICE_NOT_AVAILABLE";
    /// The client's version is refused.
    VersionNotSupported = 15 "VERSION_NOT_SUPPORTED";
    /// Not allowed, or not authenticated.
    NoPermission = 16 "NO_PERMISSION";
    /// There is no such topic.
    TopicNotExist = 17 "TOPIC_NOT_EXIST";
    /// There is such a topic already.
    TopicExistAlready = 18 "TOPIC_EXIST_ALREADY";
    /// Nothing there (yet).
    PullNotFound = 19 "PULL_NOT_FOUND";
    /// Nothing that matches; go on.
    PullRetryImmediately = 20 "PULL_RETRY_IMMEDIATELY";
    /// The position does not exist.
    PullOffsetMoved = 21 "PULL_OFFSET_MOVED";
    /// There is no such entry.
    QueryNotFound = 22 "QUERY_NOT_FOUND";
    /// The subscription's expression is wrong.
    SubscriptionParseFailed = 23 "SUBSCRIPTION_PARSE_FAILED";
    /// The broker knows no such subscription or member.
    SubscriptionNotExist = 24 "SUBSCRIPTION_NOT_EXIST";
    /// The broker knows an older subscription.
    SubscriptionNotLatest = 25 "SUBSCRIPTION_NOT_LATEST";
    /// There is no such group.
    SubscriptionGroupNotExist = 26 "SUBSCRIPTION_GROUP_NOT_EXIST";
    /// The SQL filter is not known yet.
    FilterDataNotExist = 27 "FILTER_DATA_NOT_EXIST";
    /// The SQL filter is not the newest.
    FilterDataNotLatest = 28 "FILTER_DATA_NOT_LATEST";
    /// A value of the request is wrong.
    InvalidParameter = 29 "INVALID_PARAMETER";
    /// A transaction's producer is gone.
    NoBuyerId = 204 "NO_BUYER_ID";
    /// The consumer is not connected.
    ConsumerNotOnline = 206 "CONSUMER_NOT_ONLINE";
    /// The consumer did not answer in time.
    ConsumeMessageTimeout = 207 "CONSUME_MSG_TIMEOUT";
    /// There is no such message.
    NoMessage = 208 "NO_MESSAGE";
    /// Too many wait already.
    PollingFull = 209 "POLLING_FULL";
    /// The wait ended.
    PollingTimeout = 210 "POLLING_TIMEOUT";
    /// There is no such broker.
    BrokerNotExist = 211 "BROKER_NOT_EXIST";
    /// Slowed down by the broker: try again.
    FlowControl = 215 "FLOW_CONTROL";
    /// The broker is not the queue's leader.
    NotLeaderForQueue = 501 "NOT_LEADER_FOR_QUEUE";
    /// Not now.
    IllegalOperation = 604 "ILLEGAL_OPERATION";
    /// The server is closing: connect elsewhere and try again.
    GoAway = 1500 "GO_AWAY";
}

impl fmt::Display for ResponseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code {} {}", self.number(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, ResponseCode};

    #[test]
    fn every_number_is_its_own_code() {
        for code in ALL {
            assert_eq!(ResponseCode::from(code.number()), *code);
        }
        assert_eq!(ResponseCode::from(-7), ResponseCode::Unknown(-7));
        assert_eq!(ResponseCode::PullOffsetMoved.to_string(), "code 21 PULL_OFFSET_MOVED");
    }
}
