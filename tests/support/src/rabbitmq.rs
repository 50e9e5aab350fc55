//! A small RabbitMQ client for tests: declarations, confirmed publishing, and what the broker counts; independent of the
//! adapter under test. All its queues are durable, and messages go to them by the default exchange.

mod wire;

use std::{collections::BTreeSet, io, time::Duration};

use serde_json::Value;

use self::wire::{Arguments, Wire, refusal};
use crate::{
    http,
    time::{now_micros, wait_for},
};

/// The header with a message's place among those of its queue: what the broker numbers anew on each channel.
pub const PLACE: &str = "place";
/// The header with the ordering key.
pub const KEY: &str = "key";
/// The exchange, there from the start, to which messages with a routing key of their own go.
const TOPIC: &str = "amq.topic";

/// How many publishes are on their way at a time.
const PIPELINE: usize = 256;
/// `guest:guest`.
const GUEST: &str = "Basic Z3Vlc3Q6Z3Vlc3Q=";
/// How long the management API may take to tell anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// An argument of a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// A text.
    Text(&'static str),
    /// A number.
    Number(i64),
    /// A truth value.
    Flag(bool),
}

/// A declaration's arguments by name.
pub type Declaration = [(&'static str, Argument)];

/// The right declaration of an ordered queue.
pub const ORDERED: &Declaration =
    &[("x-queue-type", Argument::Text("quorum")), ("x-single-active-consumer", Argument::Flag(true))];

/// The same for brokers that limit deliveries unless they are told not to, from 4.0 on.
pub const ORDERED_WITHOUT_LIMIT: &Declaration = &[
    ("x-queue-type", Argument::Text("quorum")),
    ("x-single-active-consumer", Argument::Flag(true)),
    ("x-delivery-limit", Argument::Number(-1)),
];

/// A message to be published.
#[derive(Debug, Clone, Default)]
pub struct Outgoing {
    /// The content.
    pub body: Vec<u8>,
    /// The ordering key, as a header.
    pub key: Option<String>,
    /// The routing key, under which the message goes to the queues that are bound to it; `None` is the one queue's name.
    pub route: Option<String>,
    /// The producer's id.
    pub id: Option<String>,
    /// The place, as a header.
    pub place: Option<u64>,
    /// Further headers with texts, whose bytes need not be UTF-8.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Further entries of the headers as they are written: name, kind and value.
    pub raw_headers: Vec<u8>,
}

impl Outgoing {
    /// A message of a body alone.
    pub fn of(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// The flags of the properties and the properties: headers, persistence, id.
    fn properties(&self) -> Vec<u8> {
        let mut table = Vec::new();
        let place = self.place.map(|place| (PLACE, place));
        if let Some((name, place)) = place {
            push_name(&mut table, name.as_bytes(), b'l');
            table.extend(place.to_be_bytes());
        }
        let key = self.key.as_ref().map(|key| (KEY.as_bytes(), key.as_bytes()));
        let headers = self.headers.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        for (name, value) in key.into_iter().chain(headers) {
            push_name(&mut table, name, b'S');
            push_long(&mut table, value);
        }
        table.extend(&self.raw_headers);
        let id = self.id.as_deref().unwrap_or_default();
        // Headers and delivery mode, and the message id where there is one.
        let flags: u16 = 0x3000 | if id.is_empty() { 0 } else { 0x0080 };
        let mut properties = flags.to_be_bytes().to_vec();
        push_long(&mut properties, &table);
        properties.push(2);
        if !id.is_empty() {
            properties.push(u8::try_from(id.len()).unwrap());
            properties.extend(id.as_bytes());
        }
        properties
    }
}

/// A header whose value is a table in a table in a table, so many levels deep, as an entry of the headers.
pub fn nested(name: &str, levels: usize) -> Vec<u8> {
    let mut inner = Vec::new();
    for _ in 0..levels {
        let mut outer = Vec::with_capacity(inner.len() + 8);
        push_name(&mut outer, b"n", b'F');
        push_long(&mut outer, &inner);
        inner = outer;
    }
    let mut entry = Vec::new();
    push_name(&mut entry, name.as_bytes(), b'F');
    push_long(&mut entry, &inner);
    entry
}

fn push_name(out: &mut Vec<u8>, name: &[u8], kind: u8) {
    out.push(u8::try_from(name.len()).unwrap());
    out.extend(name);
    out.push(kind);
}

fn push_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
    out.extend(bytes);
}

/// A message that was taken to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The content.
    pub body: Vec<u8>,
    /// Flags and properties as they came.
    pub properties: Vec<u8>,
}

impl Taken {
    /// The place that its producer gave it.
    pub fn place(&self) -> Option<u64> {
        let mut entry = Vec::new();
        push_name(&mut entry, PLACE.as_bytes(), b'l');
        let at = self.properties.windows(entry.len()).position(|part| part == entry)?;
        let value = self.properties.get(at + entry.len()..)?.first_chunk()?;
        Some(u64::from_be_bytes(*value))
    }
}

/// What a broker counts of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that wait.
    pub ready: u64,
    /// Messages that a consumer has and did not acknowledge.
    pub unacknowledged: u64,
    /// Consumers.
    pub consumers: u64,
}

/// A node, as a client of it.
#[derive(Debug, Clone)]
pub struct Node {
    amqp: String,
    management: String,
    vhost: String,
}

impl Node {
    /// A node by its addresses for AMQP and for the management API, with the virtual host `/`.
    pub fn new(amqp: impl Into<String>, management: impl Into<String>) -> Self {
        Self { amqp: amqp.into(), management: management.into(), vhost: "/".to_owned() }
    }

    /// The same node with another virtual host.
    #[must_use]
    pub fn with_vhost(self, vhost: &str) -> Self {
        Self { vhost: vhost.to_owned(), ..self }
    }

    /// The address for AMQP.
    pub fn amqp(&self) -> &str {
        &self.amqp
    }

    /// The address of the management API.
    pub fn management(&self) -> &str {
        &self.management
    }

    /// Declares a durable queue.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn declare(&self, queue: &str, arguments: &Declaration) {
        let mut table = Vec::new();
        for (name, argument) in arguments {
            match argument {
                Argument::Text(text) => {
                    push_name(&mut table, name.as_bytes(), b'S');
                    push_long(&mut table, text.as_bytes());
                }
                Argument::Number(number) => {
                    push_name(&mut table, name.as_bytes(), b'l');
                    table.extend(number.to_be_bytes());
                }
                Argument::Flag(flag) => {
                    push_name(&mut table, name.as_bytes(), b't');
                    table.push(u8::from(*flag));
                }
            }
        }
        let declare = Arguments::default().short(0).text(queue).byte(2).bytes(&table);
        must(self.wire().call((50, 10), declare, (50, 11)), "declare a queue");
    }

    /// Sends a queue what is published with routing keys like `pattern`, where `#` stands for any words.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn bind(&self, queue: &str, pattern: &str) {
        let bind = Arguments::default().short(0).text(queue).text(TOPIC).text(pattern).byte(0).bytes(&[]);
        must(self.wire().call((50, 20), bind, (50, 21)), "bind a queue");
    }

    /// Deletes a queue with all that is in it.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn delete(&self, queue: &str) {
        let delete = Arguments::default().short(0).text(queue).byte(0);
        must(self.wire().call((50, 40), delete, (50, 41)), "delete a queue");
    }

    /// Publishes messages to one queue, in their order, and waits until the broker has confirmed all.
    ///
    /// # Panics
    /// When the broker does not take one.
    pub fn publish(&self, queue: &str, messages: &[Outgoing]) {
        let mut wire = self.wire();
        must(wire.call((85, 10), Arguments::default().byte(0), (85, 11)), "ask for confirms");
        // Publishes of a channel are numbered from 1.
        let mut numbered = (1_u64..).zip(messages);
        let mut open = BTreeSet::new();
        loop {
            while open.len() < PIPELINE
                && let Some((number, message)) = numbered.next()
            {
                let to = message.route.as_deref().map_or(("", queue), |route| (TOPIC, route));
                must(wire.publish(to, &message.properties(), &message.body), "publish");
                open.insert(number);
            }
            if open.is_empty() {
                return;
            }
            must(confirm(&mut wire, &mut open), "publish");
        }
    }

    /// Looks at up to `most` messages of a queue, which all go back to it.
    ///
    /// # Panics
    /// When the broker refuses, as it does for queues with a single active consumer.
    pub fn peek(&self, queue: &str, most: usize) -> Vec<Taken> {
        let mut wire = self.wire();
        let mut taken = Vec::new();
        while taken.len() < most {
            must(wire.send(1, (60, 70), Arguments::default().short(0).text(queue).byte(0)), "take a message");
            let method = must(wire.method(), "take a message");
            match method.id {
                (60, 71) => {}
                (60, 72) => break,
                _ => panic!("failed to take a message: {}", refusal(&method)),
            }
            let (properties, body) = must(wire.content(), "take a message");
            taken.push(Taken { body, properties });
        }
        // All goes back with the channel, before the answer.
        let close = Arguments::default().short(200).text("").short(0).short(0);
        must(wire.call((20, 40), close, (20, 41)), "close a channel");
        taken
    }

    /// How many messages wait in a queue, exactly and at once; those that consumers have are not counted.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn ready(&self, queue: &str) -> u64 {
        let declare = Arguments::default().short(0).text(queue).byte(1).bytes(&[]);
        let answer = must(self.wire().call((50, 10), declare, (50, 11)), "look at a queue").arguments;
        let counts = &answer[1 + usize::from(answer[0])..];
        u32::from_be_bytes(counts[..4].try_into().unwrap()).into()
    }

    /// One request to the management API; `None` when nobody answers or it is refused.
    pub fn api(&self, method: &str, path: &str, body: &str) -> Option<Value> {
        let headers = [("authorization", GUEST), ("content-type", "application/json")];
        let path = format!("/api{path}");
        let (status, answer) = http::ask(&self.management, method, &path, &headers, body.as_bytes()).ok()?;
        let fine = (200..300).contains(&status);
        fine.then(|| serde_json::from_slice(&answer).unwrap_or_default())
    }

    /// What the broker's statistics, which are up to two seconds old, say of a queue; `None` when it is not there.
    pub fn counts(&self, queue: &str) -> Option<Counts> {
        let found = self.api("GET", &format!("/queues/{}/{queue}", self.vhost.replace('/', "%2F")), "")?;
        let number = |name: &str| found[name].as_u64();
        Some(Counts {
            ready: number("messages_ready")?,
            unacknowledged: number("messages_unacknowledged")?,
            consumers: number("consumers")?,
        })
    }

    /// The names that clients gave to the connections that are open, and how many channels and consumers there are. What a
    /// deleted queue's consumers were is not counted, as the API goes on telling them.
    ///
    /// # Panics
    /// When the management API does not answer.
    pub fn sessions(&self) -> (Vec<String>, usize, u64) {
        let list = |path: &str| {
            let what = format!("the management API tells {path}");
            wait_for(&what, PATIENCE, || self.api("GET", path, "")?.as_array().cloned())
        };
        let name = |connection: &Value| {
            let properties = &connection["client_properties"];
            properties["connection_name"].as_str().unwrap_or_default().to_owned()
        };
        let connections = list("/connections").iter().map(name).collect();
        let consumers = list("/queues").iter().filter_map(|queue| queue["consumers"].as_u64()).sum();
        (connections, list("/channels").len(), consumers)
    }

    fn wire(&self) -> Wire {
        let start = now_micros();
        Wire::open(&self.amqp, &self.vhost, "guest", "guest").unwrap_or_else(|error| {
            let after = (now_micros() - start) / 1_000;
            panic!("the broker at {} can't be used after {after} ms: {error}", self.amqp)
        })
    }
}

/// Takes off what the broker confirms next.
fn confirm(wire: &mut Wire, open: &mut BTreeSet<u64>) -> io::Result<()> {
    let method = wire.method()?;
    if method.id != (60, 80) {
        return Err(refusal(&method));
    }
    let (number, multiple) = method.arguments.split_at(8);
    let number = u64::from_be_bytes(number.try_into().unwrap());
    if multiple == [1] {
        open.retain(|other| *other > number);
    } else {
        open.remove(&number);
    }
    Ok(())
}

fn must<T>(outcome: io::Result<T>, what: &str) -> T {
    outcome.unwrap_or_else(|error| panic!("failed to {what}: {error}"))
}
