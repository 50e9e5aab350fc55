use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{ReplyError, Request, ResponseCode, accepted, number, refused, words};
use crate::codec::Command;

/// System flag of a pull: the broker may hold it until there is something.
const SUSPEND: i32 = 2;
/// System flag of a pull: the subscription is in the request, so no heartbeat has to match it.
const SUBSCRIPTION: i32 = 4;

/// Asks a broker for messages of one queue. Never carries a commit: such commits are unconditional and may rewind.
#[derive(Debug, Clone)]
pub struct Pull {
    /// The group.
    pub group: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// The queue on the broker that is asked.
    pub queue_id: i32,
    /// The first offset wanted.
    pub offset: i64,
    /// How many at most; brokers give 32 and 256 KiB at most, and one at least.
    pub count: u32,
    /// How long the broker may hold the request; it may take 5 s longer. Zero: it answers at once.
    pub hold: Duration,
    /// The subscription's expression.
    pub expression: Arc<str>,
    /// The kind of the expression: `TAG` or `SQL92`.
    pub expression_type: &'static str,
    /// The subscription's version.
    pub version: i64,
}

/// What a pull found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullStatus {
    /// Messages.
    Found,
    /// Nothing new; the hold has waited.
    NotFound,
    /// Nothing that matches up to `next`.
    NoMatch,
    /// The offset does not exist; `next` does.
    OffsetMoved,
}

/// A pull's reply.
#[derive(Debug, Clone)]
pub struct PullReply {
    /// What was found.
    pub status: PullStatus,
    /// Where to go on, always.
    pub next: i64,
    /// The first offset that is still stored.
    pub min: i64,
    /// The offset behind the last message.
    pub max: i64,
    /// What is to be added to stored offsets (static topics), 0 otherwise.
    pub offset_delta: i64,
    /// The status in the broker's words, for example `OFFSET_RESET`.
    pub remark: String,
    /// Stored messages one after the other: see [`crate::codec::StoredMessages`].
    pub messages: Bytes,
}

impl PullReply {
    /// Whether an operator's reset moved the offset, not retention. Brokers of 5.x tell a reset to one pull only.
    pub fn is_reset(&self) -> bool {
        self.status == PullStatus::OffsetMoved && self.remark.contains("RESET")
    }
}

impl Request for Pull {
    type Reply = PullReply;

    const NAME: &'static str = "pull";

    fn command(&self) -> Command {
        let flags = if self.hold.is_zero() { SUBSCRIPTION } else { SUBSCRIPTION | SUSPEND };
        Command::request(11)
            .field("consumerGroup", &self.group)
            .field("topic", &self.topic)
            .field("queueId", self.queue_id)
            .field("queueOffset", self.offset)
            .field("maxMsgNums", self.count)
            .field("sysFlag", flags)
            .field("commitOffset", 0)
            .field("suspendTimeoutMillis", self.hold.as_millis())
            .field("subscription", &self.expression)
            .field("subVersion", self.version)
            .field("expressionType", self.expression_type)
    }

    fn reply(&self, reply: Command) -> Result<PullReply, ReplyError> {
        let code = ResponseCode::from(reply.code);
        let Some(status) = status(code) else { return Err(refused(code, reply)) };
        Ok(PullReply {
            status,
            next: number(&reply, "nextBeginOffset")?,
            min: number(&reply, "minOffset")?,
            max: number(&reply, "maxOffset")?,
            offset_delta: reply.fields.get("offsetDelta").and_then(|text| text.parse().ok()).unwrap_or(0),
            remark: words(reply.remark),
            messages: reply.body,
        })
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all codes but these four are refusals")]
fn status(code: ResponseCode) -> Option<PullStatus> {
    match code {
        ResponseCode::Success => Some(PullStatus::Found),
        ResponseCode::PullNotFound => Some(PullStatus::NotFound),
        ResponseCode::PullRetryImmediately => Some(PullStatus::NoMatch),
        ResponseCode::PullOffsetMoved => Some(PullStatus::OffsetMoved),
        _ => None,
    }
}

/// Asks a broker for the stored message at a place in its commit log.
#[derive(Debug, Clone)]
pub struct ViewMessage {
    /// The topic, by which 5.x checks permissions.
    pub topic: Arc<str>,
    /// The place in the commit log.
    pub log_offset: i64,
}

impl Request for ViewMessage {
    /// One stored message: see [`crate::codec::StoredMessages`].
    type Reply = Bytes;

    const NAME: &'static str = "view the message";

    fn command(&self) -> Command {
        Command::request(33).field("topic", &self.topic).field("offset", self.log_offset)
    }

    fn reply(&self, reply: Command) -> Result<Bytes, ReplyError> {
        Ok(accepted(reply)?.body)
    }
}
