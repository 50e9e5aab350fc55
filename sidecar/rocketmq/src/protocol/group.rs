use std::{collections::BTreeSet, sync::Arc};

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::{ReplyError, Request, ResponseCode, accepted, json};
use crate::codec::{
    Command, java_hash,
    lenient::{self, Value},
};

/// A queue, as lock requests name it. Brokers compare the three parts exactly.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageQueue {
    /// The topic.
    pub topic: Arc<str>,
    /// The broker's name as the route spells it.
    pub broker_name: Arc<str>,
    /// The queue on that broker.
    pub queue_id: i32,
}

impl MessageQueue {
    /// A queue out of a lenient document.
    pub(super) fn from_value(value: &Value<'_>) -> Option<Self> {
        let text = |name| value.get(name).and_then(Value::as_str).map(Arc::from);
        Some(Self {
            topic: text("topic")?,
            broker_name: text("brokerName")?,
            queue_id: value.get("queueId")?.as_i32()?,
        })
    }
}

/// What a member wants of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionData {
    /// The topic.
    pub topic: String,
    /// `*`, tags joined by `||`, or an SQL expression.
    pub expression: String,
    /// The tags of a tag expression; empty for all and for SQL.
    pub tags: BTreeSet<String>,
    /// Whether the expression is SQL.
    pub sql: bool,
    /// When it was last changed, in Unix milliseconds.
    pub version: i64,
}

impl SubscriptionData {
    /// Everything, or what carries one of the tags in `a || b`.
    pub fn tags(topic: impl Into<String>, expression: &str, version: i64) -> Self {
        let tags: BTreeSet<_> =
            expression.split("||").map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
        let all = tags.is_empty() || tags.contains("*");
        let tags = if all { BTreeSet::new() } else { tags };
        let expression = if all { "*".to_owned() } else { expression.trim().to_owned() };
        Self { topic: topic.into(), expression, tags, sql: false, version }
    }

    /// What an SQL expression selects.
    pub fn sql(topic: impl Into<String>, expression: &str, version: i64) -> Self {
        Self {
            topic: topic.into(),
            expression: expression.to_owned(),
            tags: BTreeSet::new(),
            sql: true,
            version,
        }
    }

    /// The protocol's name of the expression's kind.
    pub fn expression_type(&self) -> &'static str {
        if self.sql { "SQL92" } else { "TAG" }
    }

    /// Whether a message with this tag is wanted. Brokers compare hashes only, so each pulled message is checked.
    /// SQL is judged by the broker alone.
    pub fn matches(&self, tag: Option<&str>) -> bool {
        self.tags.is_empty() || tag.is_some_and(|tag| self.tags.contains(tag))
    }
}

impl Serialize for SubscriptionData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let codes: BTreeSet<i32> = self.tags.iter().map(|tag| java_hash(tag)).collect();
        let mut body = serializer.serialize_struct("SubscriptionData", 7)?;
        body.serialize_field("topic", &self.topic)?;
        body.serialize_field("subString", &self.expression)?;
        body.serialize_field("tagsSet", &self.tags)?;
        body.serialize_field("codeSet", &codes)?;
        body.serialize_field("subVersion", &self.version)?;
        body.serialize_field("expressionType", self.expression_type())?;
        body.serialize_field("classFilterMode", &false)?;
        body.end()
    }
}

/// Makes the sender a member of a group, or keeps it one: sent every 30 s to every broker of the topics.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The member.
    pub client_id: String,
    /// The group.
    pub group: String,
    /// All topics of the group, the same from every member: the last heartbeat's set replaces the group's.
    pub subscriptions: Vec<SubscriptionData>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeartbeatBody<'a> {
    #[serde(rename = "clientID")]
    client_id: &'a str,
    producer_data_set: [(); 0],
    consumer_data_set: [ConsumerData<'a>; 1],
    heartbeat_fingerprint: i32,
    without_sub: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConsumerData<'a> {
    group_name: &'a str,
    consume_type: &'static str,
    message_model: &'static str,
    consume_from_where: &'static str,
    unit_mode: bool,
    subscription_data_set: &'a [SubscriptionData],
}

impl Request for Heartbeat {
    type Reply = ();

    const NAME: &'static str = "send a heartbeat";

    fn command(&self) -> Command {
        let body = HeartbeatBody {
            client_id: &self.client_id,
            producer_data_set: [],
            consumer_data_set: [ConsumerData {
                group_name: &self.group,
                consume_type: "CONSUME_PASSIVELY",
                message_model: "CLUSTERING",
                // Start positions are decided by the member; brokers only show this.
                consume_from_where: "CONSUME_FROM_FIRST_OFFSET",
                unit_mode: false,
                subscription_data_set: &self.subscriptions,
            }],
            heartbeat_fingerprint: 0,
            without_sub: false,
        };
        Command::request(34).body(json(&body))
    }

    fn reply(&self, reply: Command) -> Result<(), ReplyError> {
        accepted(reply).map(drop)
    }
}

/// Ends a membership.
#[derive(Debug, Clone)]
pub struct Unregister {
    /// The member.
    pub client_id: String,
    /// The group.
    pub group: String,
}

impl Request for Unregister {
    type Reply = ();

    const NAME: &'static str = "unregister";

    fn command(&self) -> Command {
        Command::request(35).field("clientID", &self.client_id).field("consumerGroup", &self.group)
    }

    fn reply(&self, reply: Command) -> Result<(), ReplyError> {
        accepted(reply).map(drop)
    }
}

/// Asks a broker for a group's members: one entry a connection, so one client id may stand there twice.
#[derive(Debug, Clone)]
pub struct MemberList {
    /// The group.
    pub group: String,
}

impl Request for MemberList {
    type Reply = Vec<String>;

    const NAME: &'static str = "list the group's members";

    fn command(&self) -> Command {
        Command::request(38).field("consumerGroup", &self.group)
    }

    fn reply(&self, reply: Command) -> Result<Vec<String>, ReplyError> {
        let code = ResponseCode::from(reply.code);
        let remark = reply.remark.as_deref().unwrap_or_default();
        // There is no code of its own for a group without members.
        if code == ResponseCode::SystemError && remark.starts_with("no consumer for this group") {
            return Ok(Vec::new());
        }
        let reply = accepted(reply)?;
        let value = lenient::parse(&reply.body)?;
        let ids =
            value.get("consumerIdList").and_then(Value::items).ok_or(ReplyError::Part("consumerIdList"))?;
        Ok(ids.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LockBody<'a> {
    consumer_group: &'a str,
    client_id: &'a str,
    only_this_broker: bool,
    mq_set: &'a [MessageQueue],
}

/// Locks queues on their broker's master, or renews their locks. The reply holds those that are granted; success alone
/// means nothing.
#[derive(Debug, Clone)]
pub struct LockQueues {
    /// The group.
    pub group: String,
    /// The member.
    pub client_id: String,
    /// Queues of one broker.
    pub queues: Vec<MessageQueue>,
}

impl Request for LockQueues {
    type Reply = BTreeSet<MessageQueue>;

    const NAME: &'static str = "lock queues";

    fn command(&self) -> Command {
        Command::request(41).body(lock_body(&self.group, &self.client_id, &self.queues))
    }

    fn reply(&self, reply: Command) -> Result<BTreeSet<MessageQueue>, ReplyError> {
        let reply = accepted(reply)?;
        let value = lenient::parse(&reply.body)?;
        let granted =
            value.get("lockOKMQSet").and_then(Value::items).ok_or(ReplyError::Part("lockOKMQSet"))?;
        Ok(granted.iter().filter_map(MessageQueue::from_value).collect())
    }
}

/// Unlocks queues on their broker's master. Success also for queues that were not held.
#[derive(Debug, Clone)]
pub struct UnlockQueues {
    /// The group.
    pub group: String,
    /// The member.
    pub client_id: String,
    /// Queues of one broker.
    pub queues: Vec<MessageQueue>,
}

impl Request for UnlockQueues {
    type Reply = ();

    const NAME: &'static str = "unlock queues";

    fn command(&self) -> Command {
        Command::request(42).body(lock_body(&self.group, &self.client_id, &self.queues))
    }

    fn reply(&self, reply: Command) -> Result<(), ReplyError> {
        accepted(reply).map(drop)
    }
}

fn lock_body(consumer_group: &str, client_id: &str, mq_set: &[MessageQueue]) -> Vec<u8> {
    json(&LockBody { consumer_group, client_id, only_this_broker: false, mq_set })
}
