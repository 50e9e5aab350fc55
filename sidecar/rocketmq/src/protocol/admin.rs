use std::collections::BTreeMap;

use serde::Serialize;

use super::{BrokerAddresses, ReplyError, Request, SubscriptionData, accepted, json, route};
use crate::codec::{
    Command,
    lenient::{self, Value},
};

/// Asks a broker whether it would take a subscription. Refused with `SubscriptionParseFailed` for a bad expression.
#[derive(Debug, Clone)]
pub struct CheckClientConfig {
    /// The member.
    pub client_id: String,
    /// The group.
    pub group: String,
    /// What is to be checked.
    pub subscription: SubscriptionData,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckBody<'a> {
    client_id: &'a str,
    group: &'a str,
    subscription_data: &'a SubscriptionData,
}

impl Request for CheckClientConfig {
    type Reply = ();

    const NAME: &'static str = "check the subscription";

    fn command(&self) -> Command {
        let body = CheckBody {
            client_id: &self.client_id,
            group: &self.group,
            subscription_data: &self.subscription,
        };
        Command::request(46).body(json(&body))
    }

    fn reply(&self, reply: Command) -> Result<(), ReplyError> {
        accepted(reply).map(drop)
    }
}

/// Asks a broker about itself. A 4.9 broker refuses with `SystemError` in its first moments, before it has statistics.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeInfoRequest;

/// What a broker says about itself: names and values for people, of which two are used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BrokerRuntimeInfo {
    /// When it started, by its own clock, in Unix milliseconds.
    pub boot_ms: Option<i64>,
    /// Its version, for example `V5_3_3`.
    pub version: Option<String>,
    /// All that it says.
    pub table: BTreeMap<String, String>,
}

impl Request for RuntimeInfoRequest {
    type Reply = BrokerRuntimeInfo;

    const NAME: &'static str = "query the broker's runtime information";

    fn command(&self) -> Command {
        Command::request(28)
    }

    fn reply(&self, reply: Command) -> Result<BrokerRuntimeInfo, ReplyError> {
        let reply = accepted(reply)?;
        let value = lenient::parse(&reply.body)?;
        let members = value.get("table").and_then(Value::members).ok_or(ReplyError::Part("table"))?;
        let pair = |(name, value): &(Value<'_>, Value<'_>)| Some((name.to_text()?, value.to_text()?));
        let table: BTreeMap<_, _> = members.iter().filter_map(pair).collect();
        Ok(BrokerRuntimeInfo {
            boot_ms: table.get("bootTimestamp").and_then(|text| text.parse().ok()),
            version: table.get("brokerVersionDesc").cloned(),
            table,
        })
    }
}

/// Asks a broker for a topic's settings. Refused with `TopicNotExist` when it has no such topic, and with
/// `RequestCodeNotSupported` by 4.9.
#[derive(Debug, Clone)]
pub struct TopicConfigRequest {
    /// The topic.
    pub topic: String,
}

/// A topic's settings on one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicConfig {
    /// Queues for consumers.
    pub read_queues: i32,
    /// Queues for producers.
    pub write_queues: i32,
    /// Permission bits: 4 read, 2 write, 1 inherit.
    pub permission: i32,
    /// For example `queue.type` = `BatchCQ`, `message.type` = `FIFO`.
    pub attributes: BTreeMap<String, String>,
}

impl Request for TopicConfigRequest {
    type Reply = TopicConfig;

    const NAME: &'static str = "query the topic's settings";

    fn command(&self) -> Command {
        Command::request(351).field("topic", &self.topic)
    }

    fn reply(&self, reply: Command) -> Result<TopicConfig, ReplyError> {
        let reply = accepted(reply)?;
        let value = lenient::parse(&reply.body)?;
        let number =
            |name: &'static str| value.get(name).and_then(Value::as_i32).ok_or(ReplyError::Part(name));
        let attributes = value.get("attributes").and_then(Value::members).unwrap_or_default();
        let pair = |(name, value): &(Value<'_>, Value<'_>)| Some((name.to_text()?, value.to_text()?));
        Ok(TopicConfig {
            read_queues: number("readQueueNums")?,
            write_queues: number("writeQueueNums")?,
            permission: number("perm")?,
            attributes: attributes.iter().filter_map(pair).collect(),
        })
    }
}

/// Asks a broker for a group's settings. Refused with `SubscriptionGroupNotExist` when it has no such group, and with
/// `RequestCodeNotSupported` by 4.9.
#[derive(Debug, Clone)]
pub struct GroupConfigRequest {
    /// The group.
    pub group: String,
}

/// A consumer group's settings on one broker; sent whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupConfig {
    /// The group.
    pub group_name: String,
    /// Whether it may consume at all.
    pub consume_enable: bool,
    /// Whether it may start at the first offset.
    pub consume_from_min_enable: bool,
    /// Whether it may broadcast.
    pub consume_broadcast_enable: bool,
    /// Whether pops are ordered (5.x); pulls do not care.
    pub consume_message_orderly: bool,
    /// Queues of its retry topic.
    pub retry_queue_nums: i32,
    /// Redeliveries before the dead-letter topic.
    pub retry_max_times: i32,
    /// The broker id to read from.
    pub broker_id: i32,
    /// The broker id to read from when reading is slow.
    pub which_broker_when_consume_slowly: i32,
    /// Whether members are told when others come and go.
    pub notify_consumer_ids_changed_enable: bool,
}

impl GroupConfig {
    /// A group with the broker's defaults.
    pub fn new(group: impl Into<String>) -> Self {
        Self {
            group_name: group.into(),
            consume_enable: true,
            consume_from_min_enable: true,
            consume_broadcast_enable: true,
            consume_message_orderly: false,
            retry_queue_nums: 1,
            retry_max_times: 16,
            broker_id: 0,
            which_broker_when_consume_slowly: 1,
            notify_consumer_ids_changed_enable: true,
        }
    }
}

impl Request for GroupConfigRequest {
    type Reply = GroupConfig;

    const NAME: &'static str = "query the group's settings";

    fn command(&self) -> Command {
        Command::request(352).field("group", &self.group)
    }

    fn reply(&self, reply: Command) -> Result<GroupConfig, ReplyError> {
        let reply = accepted(reply)?;
        let value = lenient::parse(&reply.body)?;
        let default = GroupConfig::new(&self.group);
        let truth = |name, default| value.get(name).and_then(Value::as_bool).unwrap_or(default);
        let number = |name, default| value.get(name).and_then(Value::as_i32).unwrap_or(default);
        Ok(GroupConfig {
            consume_enable: truth("consumeEnable", true),
            consume_from_min_enable: truth("consumeFromMinEnable", true),
            consume_broadcast_enable: truth("consumeBroadcastEnable", true),
            consume_message_orderly: truth("consumeMessageOrderly", false),
            retry_queue_nums: number("retryQueueNums", default.retry_queue_nums),
            retry_max_times: number("retryMaxTimes", default.retry_max_times),
            broker_id: number("brokerId", default.broker_id),
            which_broker_when_consume_slowly: number(
                "whichBrokerWhenConsumeSlowly",
                default.which_broker_when_consume_slowly,
            ),
            notify_consumer_ids_changed_enable: truth("notifyConsumerIdsChangedEnable", true),
            group_name: default.group_name,
        })
    }
}

/// Creates or changes a topic on one broker.
#[derive(Debug, Clone)]
pub struct CreateTopic {
    /// The topic.
    pub topic: String,
    /// Queues for consumers and for producers.
    pub queues: i32,
    /// For example `+message.type=FIFO`; 4.9 ignores them.
    pub attributes: Option<String>,
}

impl Request for CreateTopic {
    type Reply = ();

    const NAME: &'static str = "create the topic";

    fn command(&self) -> Command {
        Command::request(17)
            .field("topic", &self.topic)
            .field("defaultTopic", "TBW102")
            .field("readQueueNums", self.queues)
            .field("writeQueueNums", self.queues)
            .field("perm", 6)
            .field("topicFilterType", "SINGLE_TAG")
            .field("topicSysFlag", 0)
            .field("order", false)
            .field_if("attributes", self.attributes.as_ref())
    }

    fn reply(&self, reply: Command) -> Result<(), ReplyError> {
        accepted(reply).map(drop)
    }
}

/// Creates or changes a consumer group on one broker.
#[derive(Debug, Clone)]
pub struct CreateGroup(pub GroupConfig);

impl Request for CreateGroup {
    type Reply = ();

    const NAME: &'static str = "create the group";

    fn command(&self) -> Command {
        Command::request(200).body(json(&self.0))
    }

    fn reply(&self, reply: Command) -> Result<(), ReplyError> {
        accepted(reply).map(drop)
    }
}

/// Asks a name server for all brokers.
#[derive(Debug, Clone, Copy)]
pub struct ClusterInfoRequest;

/// All brokers that a name server knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterInfo {
    /// Their addresses.
    pub brokers: Vec<BrokerAddresses>,
}

impl Request for ClusterInfoRequest {
    type Reply = ClusterInfo;

    const NAME: &'static str = "list the brokers";

    fn command(&self) -> Command {
        Command::request(106)
    }

    fn reply(&self, reply: Command) -> Result<ClusterInfo, ReplyError> {
        let reply = accepted(reply)?;
        let value = lenient::parse(&reply.body)?;
        let table = value.get("brokerAddrTable").and_then(Value::members).unwrap_or_default();
        let brokers = table.iter().map(|(_, broker)| route::broker(broker)).collect::<Result<_, _>>()?;
        Ok(ClusterInfo { brokers })
    }
}
