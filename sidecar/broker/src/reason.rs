//! The reasons that mean the same for every adapter, CamelCase as conditions want them.

use crate::Problem;

/// The credentials are missing or wrong.
pub const WRONG_CREDENTIALS: &str = "WrongCredentials";
/// The TLS handshake failed.
pub const TLS_FAILED: &str = "TlsFailed";
/// There are more members than queues, so that this one has nothing to do.
pub const MORE_MEMBERS_THAN_QUEUES: &str = Problem::MORE_REPLICAS_THAN_QUEUES;
/// The broker answered something that makes no sense or refused for a reason of its own.
pub const UNEXPECTED_ANSWER: &str = "UnexpectedAnswer";
/// No answer came in time.
pub const TIMED_OUT: &str = "TimedOut";
/// The connection broke.
pub const CONNECTION_LOST: &str = "ConnectionLost";
/// The ownership is over.
pub const NOT_OWNED: &str = "NotOwned";
/// The operation is not one that this source has.
pub const NOT_SUPPORTED: &str = "NotSupported";
