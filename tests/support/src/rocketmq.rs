//! A small RocketMQ client for tests: administration and fast publishing, independent of the adapter under test.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use lockstep_history::Event;
use serde_json::{Value, json};

use crate::time::{now_micros, pause};

/// The answers that there is no such topic, and that a group has no position. From the servers' `ResponseCode`.
const TOPIC_NOT_EXIST: i64 = 17;
const QUERY_NOT_FOUND: i64 = 22;
/// The answer of a broker that took nothing since it has too much to do.
const SYSTEM_BUSY: i64 = 2;
/// How many sends are on their way at a time.
const PIPELINE: usize = 64;
/// How often the messages of one call are sent again in total, and how long a busy broker is left alone first.
const RESENDS: usize = 100;
const LEFT_ALONE: Duration = Duration::from_millis(200);

/// A reply.
#[derive(Debug)]
struct Reply {
    opaque: u64,
    code: i64,
    remark: String,
    fields: Value,
    body: Vec<u8>,
}

/// A connection to a server.
#[derive(Debug)]
struct Connection {
    stream: BufReader<TcpStream>,
    opaque: u64,
}

impl Connection {
    fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(15)))?;
        Ok(Self { stream: BufReader::new(stream), opaque: 0 })
    }

    fn send(&mut self, code: u32, fields: &Value, body: &[u8]) -> io::Result<()> {
        self.opaque += 1;
        let header = json!({
            "code": code, "language": "OTHER", "version": 473, "opaque": self.opaque, "flag": 0,
            "serializeTypeCurrentRPC": "JSON", "extFields": fields,
        });
        let header = header.to_string();
        let length = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes();
        let total = length(4 + header.len() + body.len());
        let frame = [&total[..], &length(header.len()), header.as_bytes(), body].concat();
        self.stream.get_mut().write_all(&frame)
    }

    fn publish(&mut self, topic: &str, queue: u32, message: &Outgoing) -> io::Result<()> {
        let batch = message.needs_a_batch();
        // One letter a field: the second version of the request.
        let fields = json!({
            "a": "lockstep-tests", "b": topic, "c": "TBW102", "d": "4", "e": queue.to_string(), "f": "0",
            "g": (now_micros() / 1_000).to_string(), "h": "0", "i": message.properties(), "j": "0", "k": "false",
            "m": batch.to_string(),
        });
        if batch {
            return self.send(320, &fields, &message.batch());
        }
        self.send(310, &fields, &message.body)
    }

    fn receive(&mut self) -> io::Result<Reply> {
        let mut word = [0; 4];
        self.stream.read_exact(&mut word)?;
        let mut frame = vec![0; u32::from_be_bytes(word) as usize];
        self.stream.read_exact(&mut frame)?;
        let (word, rest) = frame.split_at(4);
        let header = (u32::from_be_bytes(word.try_into().unwrap()) & 0xff_ffff) as usize;
        let (header, body) = rest.split_at(header);
        let header: Value = serde_json::from_slice(header)?;
        Ok(Reply {
            opaque: header["opaque"].as_u64().unwrap_or(0),
            code: header["code"].as_i64().unwrap_or(-1),
            remark: header["remark"].as_str().unwrap_or_default().to_owned(),
            fields: header["extFields"].clone(),
            body: body.to_vec(),
        })
    }

    fn call(&mut self, code: u32, fields: &Value, body: &[u8]) -> io::Result<Reply> {
        self.send(code, fields, body)?;
        self.receive()
    }
}

/// A message to be published.
#[derive(Debug, Clone, Default)]
pub struct Outgoing {
    /// The content.
    pub body: Vec<u8>,
    /// The sharding key.
    pub key: Option<String>,
    /// The tag.
    pub tag: Option<String>,
    /// Further properties; names and values must not hold the bytes 1 and 2.
    pub properties: Vec<(String, String)>,
    /// One more, whose bytes need not be text.
    pub raw_property: Option<(Vec<u8>, Vec<u8>)>,
}

impl Outgoing {
    fn properties(&self) -> String {
        let mut all: Vec<(&str, &str)> = vec![("WAIT", "true")];
        all.extend(self.key.as_deref().map(|key| ("__SHARDINGKEY", key)));
        all.extend(self.tag.as_deref().map(|tag| ("TAGS", tag)));
        all.extend(self.properties.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        all.iter().map(|(name, value)| format!("{name}\u{1}{value}\u{2}")).collect()
    }

    /// Brokers fail at a request without a body, and headers are text; in a batch they take both.
    fn needs_a_batch(&self) -> bool {
        self.body.is_empty() || self.raw_property.is_some()
    }

    /// The body of a batch with this message alone: sizes and lengths before its body and its properties.
    fn batch(&self) -> Vec<u8> {
        let mut properties = self.properties().into_bytes();
        if let Some((name, value)) = &self.raw_property {
            properties.extend([name.as_slice(), &[1], value, &[2]].concat());
        }
        let body = u32::try_from(self.body.len()).unwrap();
        let length = u16::try_from(properties.len()).unwrap();
        let total = 5 * 4 + body + 2 + u32::from(length);
        let words = [total, 0, 0, 0, body].map(u32::to_be_bytes).concat();
        [&words, &self.body, length.to_be_bytes().as_slice(), &properties].concat()
    }
}

/// The brokers of one cluster, by name.
#[derive(Debug, Clone)]
pub struct Cluster {
    brokers: BTreeMap<String, String>,
}

impl Cluster {
    /// Brokers by name and address.
    pub fn new(brokers: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { brokers: brokers.into_iter().collect() }
    }

    /// Creates or changes a topic on all brokers, with so many queues on each.
    pub fn create_topic(&self, topic: &str, queues: u32) {
        let queues = queues.to_string();
        let fields = json!({
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        });
        self.each(|connection| must(connection.call(17, &fields, b""), "create a topic"));
    }

    /// Creates a consumer group on all brokers.
    pub fn create_group(&self, group: &str) {
        let config = json!({
            "groupName": group, "consumeEnable": true, "consumeFromMinEnable": true, "consumeBroadcastEnable": true,
            "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1,
            "notifyConsumerIdsChangedEnable": true, "groupSysFlag": 0, "consumeTimeoutMinute": 15,
        });
        self.each(|connection| {
            must(connection.call(200, &json!({}), config.to_string().as_bytes()), "create a group")
        });
    }

    /// Publishes messages to one queue and gives the position of each. The broker may take those of one pipeline in
    /// another order than they were sent in. What a busy broker refuses is sent again, at most 100 times in all.
    ///
    /// # Panics
    /// When the broker does not take one.
    pub fn publish(&self, topic: &str, broker: &str, queue: u32, messages: &[Outgoing]) -> Vec<u64> {
        let mut connection = self.connect(broker);
        let mut positions = vec![0; messages.len()];
        let mut left: VecDeque<usize> = (0..messages.len()).collect();
        let mut on_their_way = BTreeMap::new();
        let mut resends = 0;
        loop {
            while on_their_way.len() < PIPELINE
                && let Some(index) = left.pop_front()
            {
                connection.publish(topic, queue, &messages[index]).unwrap();
                on_their_way.insert(connection.opaque, index);
            }
            if on_their_way.is_empty() {
                return positions;
            }
            let reply = connection.receive();
            let busy = reply.as_ref().is_ok_and(|reply| reply.code == SYSTEM_BUSY);
            if busy && resends < RESENDS {
                resends += 1;
                left.extend(on_their_way.remove(&reply.unwrap().opaque));
                pause(LEFT_ALONE);
                continue;
            }
            let reply = must(reply, "publish");
            let index = on_their_way.remove(&reply.opaque).unwrap();
            positions[index] = number(&reply.fields["queueOffset"]).unwrap();
        }
    }

    /// The group's committed position of a queue; `None` when there is none.
    pub fn committed(&self, group: &str, topic: &str, broker: &str, queue: u32) -> Option<u64> {
        let fields = json!({
            "consumerGroup": group, "topic": topic, "queueId": queue.to_string(), "setZeroIfNotFound": "false",
        });
        let reply = self.connect(broker).call(14, &fields, b"");
        let reply = must_unless(QUERY_NOT_FOUND, reply, "ask for a committed position")?;
        Some(number(&reply.fields["offset"]).unwrap())
    }

    /// The end of what the broker has indexed, which may be less than it has stored.
    pub fn end_of(&self, topic: &str, broker: &str, queue: u32) -> u64 {
        let fields = json!({"topic": topic, "queueId": queue.to_string()});
        let reply = must(self.connect(broker).call(30, &fields, b""), "ask for a queue's end");
        number(&reply.fields["offset"]).unwrap()
    }

    /// The end of what the broker has indexed; `None` when the topic is not there.
    pub fn try_end_of(&self, topic: &str, broker: &str, queue: u32) -> Option<u64> {
        let fields = json!({"topic": topic, "queueId": queue.to_string()});
        let reply = self.connect(broker).call(30, &fields, b"");
        let reply = must_unless(TOPIC_NOT_EXIST, reply, "ask for a queue's end")?;
        Some(number(&reply.fields["offset"]).unwrap())
    }

    /// The client ids that are members of the group on a broker.
    pub fn members(&self, group: &str, broker: &str) -> Vec<String> {
        let reply = self.connect(broker).call(38, &json!({"consumerGroup": group}), b"").unwrap();
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let ids = body["consumerIdList"].as_array().cloned().unwrap_or_default();
        ids.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Tries to lock a queue under a client id of one's own; whether it was granted. A granted lock starves the real
    /// members, so give it back.
    pub fn lock(&self, group: &str, client: &str, topic: &str, broker: &str, queue: u32) -> bool {
        let body = lock_body(group, client, topic, broker, queue);
        let reply = must(self.connect(broker).call(41, &json!({}), body.as_bytes()), "lock");
        let granted: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        granted["lockOKMQSet"].as_array().is_some_and(|queues| !queues.is_empty())
    }

    /// Gives a lock back.
    pub fn unlock(&self, group: &str, client: &str, topic: &str, broker: &str, queue: u32) {
        let body = lock_body(group, client, topic, broker, queue);
        must(self.connect(broker).call(42, &json!({}), body.as_bytes()), "unlock");
    }

    /// The brokers' names.
    pub fn brokers(&self) -> impl Iterator<Item = &str> {
        self.brokers.keys().map(String::as_str)
    }

    /// The committed positions of all queues of a topic, as events for a history; brokers that are down are left out.
    pub fn commits(&self, group: &str, topic: &str, queues: u32) -> Vec<Event> {
        let mut events = Vec::new();
        for (name, address) in &self.brokers {
            let Ok(mut connection) = Connection::open(address) else { continue };
            for queue in 0..queues {
                let fields = json!({
                    "consumerGroup": group, "topic": topic, "queueId": queue.to_string(), "setZeroIfNotFound": "false",
                });
                let Ok(reply) = connection.call(14, &fields, b"") else { break };
                if let Some(position) = number(&reply.fields["offset"]) {
                    let queue = queue_name(topic, name, queue).into();
                    events.push(Event::Commit { at: now_micros(), queue, position });
                }
            }
        }
        events
    }

    fn connect(&self, broker: &str) -> Connection {
        let address = &self.brokers[broker];
        Connection::open(address)
            .unwrap_or_else(|error| panic!("{broker} at {address} can't be reached: {error}"))
    }

    fn each(&self, mut work: impl FnMut(&mut Connection) -> Reply) {
        for broker in self.brokers.keys() {
            work(&mut self.connect(broker));
        }
    }
}

/// A queue's name, as the sidecar writes it.
pub fn queue_name(topic: &str, broker: &str, queue: u32) -> String {
    format!("{topic}/{broker}/{queue}")
}

fn lock_body(group: &str, client: &str, topic: &str, broker: &str, queue: u32) -> String {
    let queue = json!({"topic": topic, "brokerName": broker, "queueId": queue});
    json!({"consumerGroup": group, "clientId": client, "mqSet": [queue]}).to_string()
}

/// Numbers are strings in headers.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The same with one refusal that says that there is nothing.
fn must_unless(nothing: i64, reply: io::Result<Reply>, what: &str) -> Option<Reply> {
    let none = reply.as_ref().is_ok_and(|reply| reply.code == nothing);
    if none { None } else { Some(must(reply, what)) }
}

fn must(reply: io::Result<Reply>, what: &str) -> Reply {
    let reply = reply.unwrap_or_else(|error| panic!("failed to {what}: {error}"));
    assert!(reply.code == 0, "failed to {what}: code {}, {}", reply.code, reply.remark);
    reply
}
