//! Typed requests and their replies: what a consumer asks of name servers and brokers, and what brokers ask of it.

mod admin;
mod code;
mod group;
mod inbound;
mod offset;
mod pull;
mod route;
mod send;

use thiserror::Error;

use crate::codec::{Command, lenient::JsonError};

pub use admin::{
    BrokerRuntimeInfo, CheckClientConfig, ClusterInfo, ClusterInfoRequest, CreateGroup, CreateTopic,
    GroupConfig, GroupConfigRequest, RuntimeInfoRequest, TopicConfig, TopicConfigRequest,
};
pub use code::ResponseCode;
pub use group::{
    Heartbeat, LockQueues, MemberList, MessageQueue, SubscriptionData, UnlockQueues, Unregister,
};
pub use inbound::{
    BrokerRequest, ConsumeDirectly, ConsumerStatus, OffsetReset, QueueStatus, RunningInfo, RunningInfoRequest,
};
pub use offset::{BoundaryType, MaxOffset, MinOffset, QueryOffset, SearchOffset, UpdateOffset};
pub use pull::{Pull, PullReply, PullStatus, ViewMessage};
pub use route::{BrokerAddresses, RouteRequest, TopicQueues, TopicRoute};
pub use send::{SendBack, SendMessage, SendReply, SendStatus};

/// Characters of a peer's remark that are kept.
const MAX_REMARK: usize = 300;

/// A request with a reply of one type.
pub trait Request {
    /// What a good reply holds.
    type Reply;

    /// Named in errors and logs, for example `pull`.
    const NAME: &'static str;

    /// The request as it travels; `opaque` and signature are added when it is sent.
    fn command(&self) -> Command;

    /// Reads a reply.
    ///
    /// # Errors
    /// The peer refused, or its reply can't be understood.
    fn reply(&self, reply: Command) -> Result<Self::Reply, ReplyError>;
}

/// A reply that is not the one hoped for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplyError {
    /// The peer said no.
    #[error("refused with {code}: {remark}")]
    Refused {
        /// Why, as a number of the protocol.
        code: ResponseCode,
        /// Why, in the peer's words.
        remark: String,
    },
    /// A part of the reply is missing or makes no sense.
    #[error("reply has no usable {0}")]
    Part(&'static str),
    /// The body is not JSON.
    #[error("reply can't be read: {0}")]
    Json(#[from] JsonError),
}

/// A reply with code 0, or the refusal.
fn accepted(reply: Command) -> Result<Command, ReplyError> {
    let code = ResponseCode::from(reply.code);
    if code == ResponseCode::Success { Ok(reply) } else { Err(refused(code, reply)) }
}

/// The refusal, with the first line of the peer's words and not more of it than a person reads: servers append advice
/// and whole stack traces.
fn refused(code: ResponseCode, reply: Command) -> ReplyError {
    ReplyError::Refused { code, remark: words(reply.remark) }
}

/// See [`refused`].
fn words(remark: Option<String>) -> String {
    remark.unwrap_or_default().lines().next().unwrap_or_default().chars().take(MAX_REMARK).collect()
}

/// A number out of a reply's fields.
fn number<T: std::str::FromStr>(reply: &Command, name: &'static str) -> Result<T, ReplyError> {
    reply.fields.get(name).and_then(|text| text.parse().ok()).ok_or(ReplyError::Part(name))
}

/// A body of JSON from a value that always serializes.
fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain structures must serialize into memory")
}

impl Request for Command {
    type Reply = Self;

    const NAME: &'static str = "call";

    fn command(&self) -> Self {
        self.clone()
    }

    fn reply(&self, reply: Self) -> Result<Self, ReplyError> {
        Ok(reply)
    }
}

#[cfg(test)]
mod tests;
