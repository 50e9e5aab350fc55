use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;

use super::{MessageQueue, ReplyError, SubscriptionData, json};
use crate::codec::{
    Command,
    lenient::{self, Value},
};

/// What a broker asks of a consumer.
#[derive(Debug, Clone)]
pub enum BrokerRequest {
    /// Members of the group came or went (40): allocate again soon.
    MembersChanged {
        /// The group.
        group: String,
    },
    /// An operator resets the group's offsets (220): stop the queues, drop what is buffered, commit these.
    ResetOffsets(OffsetReset),
    /// An operator asks for the offsets of owned queues (221): answer with [`ConsumerStatus`].
    QueryStatus {
        /// The group.
        group: String,
        /// The topic.
        topic: String,
    },
    /// An operator asks how the member is doing (307): answer with [`RunningInfo`].
    QueryRunningInfo(RunningInfoRequest),
    /// An operator wants a message consumed out of order (309): refused, since it breaks the order by design.
    ConsumeDirectly(ConsumeDirectly),
}

/// Offsets as an operator wants them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetReset {
    /// The group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The new offset of each queue.
    pub offsets: BTreeMap<MessageQueue, i64>,
}

/// Who is asked how it is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningInfoRequest {
    /// The group.
    pub group: String,
    /// The member.
    pub client_id: String,
}

/// Which message is to be consumed.
#[derive(Debug, Clone)]
pub struct ConsumeDirectly {
    /// The group.
    pub group: String,
    /// The member.
    pub client_id: String,
    /// The broker's id of the message.
    pub message_id: String,
    /// The stored message.
    pub message: Bytes,
}

impl BrokerRequest {
    /// Reads a broker's request; `None` for a code that is not known.
    pub(crate) fn parse(command: &Command) -> Option<Result<Self, ReplyError>> {
        let field =
            |name: &'static str| command.fields.get(name).map(str::to_owned).ok_or(ReplyError::Part(name));
        match command.code {
            40 => Some(field("consumerGroup").map(|group| Self::MembersChanged { group })),
            220 => Some(reset(command).map(Self::ResetOffsets)),
            221 => {
                Some(field("group").and_then(|group| Ok(Self::QueryStatus { group, topic: field("topic")? })))
            }
            307 => Some(field("consumerGroup").and_then(|group| {
                Ok(Self::QueryRunningInfo(RunningInfoRequest { group, client_id: field("clientId")? }))
            })),
            309 => Some(field("consumerGroup").and_then(|group| {
                Ok(Self::ConsumeDirectly(ConsumeDirectly {
                    group,
                    client_id: field("clientId")?,
                    message_id: field("msgId")?,
                    message: command.body.clone(),
                }))
            })),
            _ => None,
        }
    }
}

fn reset(command: &Command) -> Result<OffsetReset, ReplyError> {
    let field =
        |name: &'static str| command.fields.get(name).map(str::to_owned).ok_or(ReplyError::Part(name));
    let value = lenient::parse(&command.body)?;
    let table = value.get("offsetTable").unwrap_or(&value);
    Ok(OffsetReset { group: field("group")?, topic: field("topic")?, offsets: offsets(table)? })
}

/// Offsets by queue, in each of the forms that peers write: an object with queues as keys, an array of pairs, or an
/// array of queues with an offset inside.
fn offsets(table: &Value<'_>) -> Result<BTreeMap<MessageQueue, i64>, ReplyError> {
    const PART: ReplyError = ReplyError::Part("offsetTable");
    if let Some(members) = table.members() {
        let pair = |(queue, offset): &(Value<'_>, Value<'_>)| Some((key(queue)?, offset.as_i64()?));
        return members.iter().map(|member| pair(member).ok_or(PART)).collect();
    }
    let item = |item: &Value<'_>| match item.items() {
        Some([queue, offset]) => Some((key(queue)?, offset.as_i64()?)),
        Some(_) => None,
        None => Some((MessageQueue::from_value(item)?, item.get("offset")?.as_i64()?)),
    };
    table.items().ok_or(PART)?.iter().map(|value| item(value).ok_or(PART)).collect()
}

/// A queue as a key: an object, or an object written into a string.
fn key(value: &Value<'_>) -> Option<MessageQueue> {
    match value.as_str() {
        Some(text) => MessageQueue::from_value(&lenient::parse(text.as_bytes()).ok()?),
        None => MessageQueue::from_value(value),
    }
}

/// The answer to a question for the offsets of owned queues.
#[derive(Debug, Clone, Default)]
pub struct ConsumerStatus {
    /// The next offset of each.
    pub offsets: BTreeMap<MessageQueue, i64>,
}

impl ConsumerStatus {
    /// The answer's body.
    pub fn body(&self) -> Bytes {
        let mut text = br#"{"consumerTable":{},"messageQueueTable":"#.to_vec();
        object_keyed(&mut text, self.offsets.iter());
        text.push(b'}');
        Bytes::from(text)
    }
}

/// How one queue is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// The committed offset.
    pub commit_offset: i64,
    /// The first buffered offset.
    pub cached_msg_min_offset: i64,
    /// The last buffered offset.
    pub cached_msg_max_offset: i64,
    /// How many are buffered.
    pub cached_msg_count: u64,
    /// How large they are.
    #[serde(rename = "cachedMsgSizeInMiB")]
    pub cached_msg_size_in_mib: u64,
    /// Whether its lock is held.
    pub locked: bool,
    /// How often it was tried to unlock it.
    pub try_unlock_times: u64,
    /// When it was last locked, in Unix milliseconds.
    pub last_lock_timestamp: i64,
    /// Whether it is being given up; the protocol spells it so.
    pub droped: bool,
    /// When it was last pulled, in Unix milliseconds.
    pub last_pull_timestamp: i64,
    /// When it was last consumed, in Unix milliseconds.
    pub last_consume_timestamp: i64,
}

/// The answer to a question how the member is doing.
#[derive(Debug, Clone, Default)]
pub struct RunningInfo {
    /// Names and values for people, for example `PROP_CONSUMEORDERLY` = `true`.
    pub properties: BTreeMap<&'static str, String>,
    /// What it subscribed to.
    pub subscriptions: Vec<SubscriptionData>,
    /// Its queues.
    pub queues: BTreeMap<MessageQueue, QueueStatus>,
}

impl RunningInfo {
    /// The answer's body.
    pub fn body(&self) -> Bytes {
        let mut text = br#"{"properties":"#.to_vec();
        text.extend(json(&self.properties));
        text.extend_from_slice(br#","subscriptionSet":"#);
        text.extend(json(&self.subscriptions));
        text.extend_from_slice(br#","statusTable":{},"mqTable":"#);
        object_keyed(&mut text, self.queues.iter());
        text.push(b'}');
        Bytes::from(text)
    }
}

/// Appends an object with queues as keys, in the form that the servers' library reads and no strict writer can write.
fn object_keyed<'a>(text: &mut Vec<u8>, entries: impl Iterator<Item = (&'a MessageQueue, impl Serialize)>) {
    text.push(b'{');
    for (index, (queue, value)) in entries.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend(json(queue));
        text.push(b':');
        text.extend(json(&value));
    }
    text.push(b'}');
}
