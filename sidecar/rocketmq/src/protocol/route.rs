use std::collections::BTreeMap;

use super::{ReplyError, Request, accepted};
use crate::codec::{
    Command,
    lenient::{self, Value},
};

/// Permission bit of a topic: may be read.
const READ: i32 = 4;

/// Asks a name server where a topic lies. Refused with `TopicNotExist` when nowhere.
#[derive(Debug, Clone)]
pub struct RouteRequest {
    /// The topic.
    pub topic: String,
}

/// Where a topic lies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicRoute {
    /// Its queues on each broker.
    pub queues: Vec<TopicQueues>,
    /// The addresses of brokers; one with queues may be missing while it restarts.
    pub brokers: Vec<BrokerAddresses>,
    /// Whether queues are mapped over brokers (static topics), which is not supported.
    pub logical: bool,
}

/// A topic's queues on one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicQueues {
    /// The broker's name, spelled as it must be in lock requests.
    pub broker: String,
    /// Consumers read queues 0 to this, exclusive.
    pub read_queues: i32,
    /// Producers write queues 0 to this, exclusive.
    pub write_queues: i32,
    /// Permission bits: 4 read, 2 write, 1 inherit.
    pub permission: i32,
}

impl TopicQueues {
    /// Whether consumers may read it.
    pub fn readable(&self) -> bool {
        self.permission & READ != 0
    }
}

/// One broker's addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddresses {
    /// Its cluster.
    pub cluster: String,
    /// Its name.
    pub broker: String,
    /// `host:port` by broker id; 0 is the master.
    pub addresses: BTreeMap<i64, String>,
}

impl BrokerAddresses {
    /// The master's address.
    pub fn master(&self) -> Option<&str> {
        self.addresses.get(&0).map(String::as_str)
    }
}

impl Request for RouteRequest {
    type Reply = TopicRoute;

    const NAME: &'static str = "look up the route";

    fn command(&self) -> Command {
        Command::request(105).field("topic", &self.topic).field("acceptStandardJsonOnly", true)
    }

    fn reply(&self, reply: Command) -> Result<TopicRoute, ReplyError> {
        let reply = accepted(reply)?;
        let value = lenient::parse(&reply.body)?;
        let list = |name| value.get(name).and_then(Value::items).unwrap_or_default();
        let mapped = value.get("topicQueueMappingByBroker").and_then(Value::members).unwrap_or_default();
        Ok(TopicRoute {
            queues: list("queueDatas").iter().map(queues).collect::<Result<_, _>>()?,
            brokers: list("brokerDatas").iter().map(broker).collect::<Result<_, _>>()?,
            logical: !mapped.is_empty(),
        })
    }
}

fn queues(value: &Value<'_>) -> Result<TopicQueues, ReplyError> {
    let number = |name: &'static str| value.get(name).and_then(Value::as_i32).ok_or(ReplyError::Part(name));
    Ok(TopicQueues {
        broker: string(value, "brokerName")?,
        read_queues: number("readQueueNums")?,
        write_queues: number("writeQueueNums")?,
        permission: number("perm")?,
    })
}

pub(super) fn broker(value: &Value<'_>) -> Result<BrokerAddresses, ReplyError> {
    let addresses =
        value.get("brokerAddrs").and_then(Value::members).ok_or(ReplyError::Part("brokerAddrs"))?;
    let address = |(id, address): &(Value<'_>, Value<'_>)| Some((id.as_i64()?, address.as_str()?.to_owned()));
    Ok(BrokerAddresses {
        cluster: value.get("cluster").and_then(Value::as_str).unwrap_or_default().to_owned(),
        broker: string(value, "brokerName")?,
        addresses: addresses.iter().filter_map(address).collect(),
    })
}

fn string(value: &Value<'_>, name: &'static str) -> Result<String, ReplyError> {
    value.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(ReplyError::Part(name))
}
