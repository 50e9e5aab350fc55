use std::sync::Arc;

use bytes::Bytes;

use super::{ReplyError, Request, ResponseCode, accepted, number, refused};
use crate::codec::Command;

/// Has the broker copy a message out of its own log into the group's dead-letter topic (`delay_level` -1) or its retry
/// topic. Sent to the master that stores it.
#[derive(Debug, Clone)]
pub struct SendBack {
    /// The group.
    pub group: Arc<str>,
    /// The topic that the message lies in.
    pub topic: Arc<str>,
    /// Its place in the commit log.
    pub log_offset: i64,
    /// Its id for people.
    pub message_id: String,
    /// -1: dead letter at once. 0: the broker chooses. Above: a delay level.
    pub delay_level: i32,
    /// The most redeliveries, which a broker may use instead of the group's.
    pub max_reconsume_times: Option<i32>,
}

impl Request for SendBack {
    type Reply = ();

    const NAME: &'static str = "send the message back";

    fn command(&self) -> Command {
        Command::request(36)
            .field("offset", self.log_offset)
            .field("group", &self.group)
            .field("delayLevel", self.delay_level)
            .field("originMsgId", &self.message_id)
            .field("originTopic", &self.topic)
            .field("unitMode", false)
            .field_if("maxReconsumeTimes", self.max_reconsume_times)
    }

    fn reply(&self, reply: Command) -> Result<(), ReplyError> {
        accepted(reply).map(drop)
    }
}

/// Stores a message.
#[derive(Debug, Clone)]
pub struct SendMessage {
    /// The producer's group.
    pub group: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// The queue on the broker that is asked; -1 lets it choose.
    pub queue_id: i32,
    /// See [`crate::codec::sys_flag`].
    pub sys_flag: i32,
    /// The producer's own flag.
    pub flag: i32,
    /// When it was made, in Unix milliseconds.
    pub born_ms: i64,
    /// Properties in their text form: see [`crate::codec::write_properties`].
    pub properties: String,
    /// The redeliveries to store with it.
    pub reconsume_times: i32,
    /// The content.
    pub body: Bytes,
}

/// How surely a message is stored. Stored it is in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendStatus {
    /// As the broker is set up to.
    Stored,
    /// The disk did not confirm in time.
    FlushDiskTimeout,
    /// The slave did not confirm in time.
    FlushSlaveTimeout,
    /// There is no slave.
    SlaveNotAvailable,
}

/// Where a message was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendReply {
    /// How surely.
    pub status: SendStatus,
    /// The broker's id of it.
    pub message_id: String,
    /// The queue.
    pub queue_id: i32,
    /// The place in the queue.
    pub queue_offset: i64,
}

impl Request for SendMessage {
    type Reply = SendReply;

    const NAME: &'static str = "send the message";

    fn command(&self) -> Command {
        // Names of one letter, in the protocol's second form of this request.
        Command::request(310)
            .field("a", &self.group)
            .field("b", &self.topic)
            .field("c", "TBW102")
            .field("d", 4)
            .field("e", self.queue_id)
            .field("f", self.sys_flag)
            .field("g", self.born_ms)
            .field("h", self.flag)
            .field("i", &self.properties)
            .field("j", self.reconsume_times)
            .field("k", false)
            .field("m", false)
            .body(self.body.clone())
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "all codes but these four are refusals")]
    fn reply(&self, reply: Command) -> Result<SendReply, ReplyError> {
        let status = match ResponseCode::from(reply.code) {
            ResponseCode::Success => SendStatus::Stored,
            ResponseCode::FlushDiskTimeout => SendStatus::FlushDiskTimeout,
            ResponseCode::FlushSlaveTimeout => SendStatus::FlushSlaveTimeout,
            ResponseCode::SlaveNotAvailable => SendStatus::SlaveNotAvailable,
            code => return Err(refused(code, reply)),
        };
        Ok(SendReply {
            status,
            message_id: reply.fields.get("msgId").unwrap_or_default().to_owned(),
            queue_id: number(&reply, "queueId")?,
            queue_offset: number(&reply, "queueOffset")?,
        })
    }
}
