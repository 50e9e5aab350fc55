//! A small client of ActiveMQ for tests: queues, publishing that waits for the broker's answers, browsing, and what the
//! broker counts; independent of the codec and the adapter under test. All that it publishes is persistent.

mod wire;

use std::io;

use serde_json::{Value, json};

use self::wire::{Fields, Reader, Wire, modified};
use crate::{http, time::now_micros};

/// The property with a message's place among those of its queue: what the broker numbers anew for each consumer.
pub const PLACE: &str = "place";
/// The property with the ordering key, where it is not the message group.
pub const KEY: &str = "key";

const CONSUMER_INFO: u8 = 5;
const PRODUCER_INFO: u8 = 6;
const DESTINATION_INFO: u8 = 8;
const SHUTDOWN_INFO: u8 = 11;
const REMOVE_INFO: u8 = 12;
/// So many messages are published before one is waited for.
const BATCH: usize = 100;
/// More than a test looks at.
const MANY: i32 = 100_000;
/// The smallest part in which an empty compression stores bytes has at most so many.
const STORED_MOST: usize = 0xffff;

/// What kind of message it is, by its type in OpenWire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// A message without a body.
    Base = 23,
    /// Bytes as they are.
    #[default]
    Bytes = 24,
    /// Names and typed values.
    Map = 25,
    /// A serialized object of Java.
    Object = 26,
    /// Typed values in a row.
    Stream = 27,
    /// A text.
    Text = 28,
}

/// A message to be published.
#[derive(Debug, Clone, Default)]
pub struct Outgoing {
    /// Its kind.
    pub kind: Kind,
    /// The body as that kind is written; `None` = there is none.
    pub content: Option<Vec<u8>>,
    /// Whether the content is compressed.
    pub compressed: bool,
    /// The message group.
    pub group: Option<String>,
    /// The ordering key, as a property.
    pub key: Option<String>,
    /// The place, as a property.
    pub place: Option<u64>,
    /// Further properties with texts.
    pub properties: Vec<(String, String)>,
    /// Further properties as they are written, and how many: name, type and value.
    pub raw_properties: (i32, Vec<u8>),
}

impl Outgoing {
    /// Bytes.
    pub fn of(body: impl Into<Vec<u8>>) -> Self {
        Self { content: Some(body.into()), ..Self::default() }
    }

    /// A text.
    pub fn text(body: &str) -> Self {
        let bytes = modified(body);
        let length = i32::try_from(bytes.len()).unwrap();
        let content = Some([&length.to_be_bytes()[..], &bytes].concat());
        Self { kind: Kind::Text, content, ..Self::default() }
    }

    /// The same with its content compressed, as the kind wants it.
    #[must_use]
    pub fn compressed(mut self) -> Self {
        let plain = self.content.take().unwrap_or_default();
        let length = i32::try_from(plain.len()).unwrap().to_be_bytes();
        let prefix: &[u8] = if self.kind == Kind::Bytes { &length } else { &[] };
        self.content = Some([prefix, &deflated(&plain)].concat());
        Self { compressed: true, ..self }
    }

    /// The properties as one map.
    fn marshalled(&self) -> Vec<u8> {
        let place = self.place.map(|place| (PLACE, i64::try_from(place).unwrap()));
        let key = self.key.as_deref().map(|key| (KEY, key));
        let texts = self.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let texts: Vec<_> = key.into_iter().chain(texts).collect();
        let count = texts.len() + usize::from(place.is_some());
        let mut map = (i32::try_from(count).unwrap() + self.raw_properties.0).to_be_bytes().to_vec();
        if let Some((name, place)) = place {
            push_short(&mut map, name);
            map.push(6);
            map.extend(place.to_be_bytes());
        }
        for (name, value) in texts {
            push_short(&mut map, name);
            map.push(9);
            push_short(&mut map, value);
        }
        map.extend(&self.raw_properties.1);
        map
    }

    /// The fields of the message, for the one producer of a connection.
    fn fields(&self, connection: &str, queue: &str, number: i64) -> Fields {
        let now = i64::try_from(now_micros() / 1_000).unwrap();
        let fields = producer(Fields::default(), connection).queue(queue).zeros(2);
        let id = producer(fields.object(110).byte(0), connection).long(number).long(0);
        // Neither an original transaction nor a sequence in the group nor a correlation; it never expires.
        let fields = id.byte(0).maybe_text(self.group.as_deref()).int(0).byte(0).byte(1).long(0).byte(4);
        let fields = fields.byte(0).long(now).byte(0).maybe_bytes(self.content.as_deref());
        let fields = fields.maybe_bytes(Some(&self.marshalled())).zeros(2).byte(u8::from(self.compressed));
        // No redelivery, no path, no arrival, and nothing of what only brokers write.
        fields.int(0).byte(0).long(0).zeros(3).byte(0).long(0).long(0).byte(0)
    }
}

fn push_short(out: &mut Vec<u8>, text: &str) {
    let bytes = modified(text);
    out.extend(u16::try_from(bytes.len()).unwrap().to_be_bytes());
    out.extend(bytes);
}

fn producer(fields: Fields, connection: &str) -> Fields {
    fields.object(123).text(connection).long(1).long(1)
}

fn consumer(fields: Fields, connection: &str) -> Fields {
    fields.object(122).text(connection).long(1).long(1)
}

/// A stream of zlib that compresses nothing: RFC 1950 around the stored blocks of RFC 1951.
fn deflated(plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut parts = plain.chunks(STORED_MOST).peekable();
    if plain.is_empty() {
        out.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(part) = parts.next() {
        let length = u16::try_from(part.len()).unwrap();
        out.push(u8::from(parts.peek().is_none()));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(part);
    }
    let sum = |(low, high): (u32, u32), byte: &u8| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    };
    let (low, high) = plain.iter().fold((1, 0), sum);
    out.extend((high << 16 | low).to_be_bytes());
    out
}

/// A message that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The body as it is written.
    pub content: Vec<u8>,
    /// Its properties as they are written.
    pub properties: Vec<u8>,
    /// How often it was redelivered, as a consumer would be told.
    pub redeliveries: i32,
}

impl Taken {
    /// Its place.
    pub fn place(&self) -> Option<u64> {
        let name = b"\0\x05place\x06";
        let at = self.properties.windows(name.len()).position(|part| part == name)? + name.len();
        Some(u64::from_be_bytes(self.properties.get(at..at + 8)?.try_into().unwrap()))
    }

    /// A property's text.
    pub fn property(&self, name: &str) -> Option<String> {
        let mut wanted = Vec::new();
        push_short(&mut wanted, name);
        let at = self.properties.windows(wanted.len()).position(|part| part == wanted)? + wanted.len();
        let mut value = Reader(&self.properties[at..]);
        (value.byte() == 9).then(|| String::from_utf8_lossy(value.short_text()).into_owned())
    }

    /// Reads a dispatch; `None` where it has no message.
    fn read(dispatch: &[u8]) -> Option<Self> {
        let mut reader = Reader(dispatch);
        reader.object();
        reader.object();
        if !reader.flag() {
            return None;
        }
        reader.take(6);
        // Producer, destination, transaction, original destination, id, original transaction.
        (0..6).for_each(|_| reader.object());
        reader.text();
        reader.int();
        reader.text();
        reader.take(10);
        reader.object();
        reader.long();
        reader.text();
        let content = reader.bytes().unwrap_or_default().to_vec();
        let properties = reader.bytes().unwrap_or_default().to_vec();
        let counter = dispatch.len().checked_sub(4).map(|at| Reader(&dispatch[at..]).int());
        Some(Self { content, properties, redeliveries: counter? })
    }
}

/// What the broker counts of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Messages that are not acknowledged, whether a consumer has them or not.
    pub unsettled: u64,
    /// Those that consumers have.
    pub in_flight: u64,
    /// Consumers.
    pub consumers: u64,
}

/// A client of one broker.
#[derive(Debug, Clone)]
pub struct Node {
    openwire: String,
    beans: String,
    artemis: bool,
}

impl Node {
    /// A client of the broker at this address, whose MBeans are served at the other one.
    pub const fn new(openwire: String, beans: String, artemis: bool) -> Self {
        Self { openwire, beans, artemis }
    }

    /// The address for OpenWire.
    pub fn openwire(&self) -> &str {
        &self.openwire
    }

    /// Whether the broker is Artemis.
    pub const fn is_artemis(&self) -> bool {
        self.artemis
    }

    /// Makes a queue.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn create(&self, queue: &str) {
        self.with(|wire| {
            let id = wire.id.clone();
            let info = Fields::default().object(120).text(&id).queue(queue).byte(0).long(0).byte(0);
            wire.call(DESTINATION_INFO, info)
        })
        .unwrap_or_else(|error| panic!("failed to create {queue}: {error}"));
    }

    /// Publishes messages to one queue, in their order, and waits until the broker has all.
    ///
    /// # Panics
    /// When the broker does not take one.
    pub fn publish(&self, queue: &str, messages: &[Outgoing]) {
        self.with(|wire| {
            let id = wire.id.clone();
            wire.call(PRODUCER_INFO, producer(Fields::default(), &id).byte(0).byte(0).byte(0).int(0))?;
            for (number, message) in (1_i64..).zip(messages) {
                let fields = message.fields(&id, queue, number);
                let index = usize::try_from(number).unwrap();
                if index == messages.len() || index.is_multiple_of(BATCH) {
                    wire.call(message.kind as u8, fields)?;
                } else {
                    wire.send(message.kind as u8, fields, false)?;
                }
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("failed to publish to {queue}: {error}"));
    }

    /// Looks at all messages of a queue, which stay there: in their order, with how often each was redelivered.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn browse(&self, queue: &str) -> Vec<Taken> {
        self.with(|wire| {
            let id = wire.id.clone();
            let info = consumer(Fields::default(), &id).byte(1).queue(queue).int(MANY).int(0).byte(0);
            // Neither selector nor name; not exclusive, of no priority, over no bridge.
            wire.call(CONSUMER_INFO, info.zeros(13))?;
            let mut taken = Vec::new();
            while let Some(mut one) = Taken::read(&wire.dispatch()?) {
                // Artemis counts deliveries, less one for that which a consumer gets, and a look is none.
                one.redeliveries += i32::from(self.artemis);
                taken.push(one);
            }
            Ok(taken)
        })
        .unwrap_or_else(|error| panic!("failed to look into {queue}: {error}"))
    }

    /// What the broker counts of a queue; `None` when it is not there, or nobody answers.
    pub fn counts(&self, queue: &str) -> Option<Counts> {
        let (bean, unsettled, in_flight) = if self.artemis {
            let address = format!("component=addresses,address=\"{queue}\",subcomponent=queues");
            let bean = format!("{ARTEMIS},{address},routing-type=\"anycast\",queue=\"{queue}\"");
            (bean, "MessageCount", "DeliveringCount")
        } else {
            (format!("{CLASSIC},destinationType=Queue,destinationName={queue}"), "QueueSize", "InFlightCount")
        };
        let value = self.bean(&bean, &[unsettled, in_flight, "ConsumerCount"])?;
        let number = |name: &str| value[name].as_u64();
        Some(Counts {
            unsettled: number(unsettled)?,
            in_flight: number(in_flight)?,
            consumers: number("ConsumerCount")?,
        })
    }

    /// How many connections are open, beside none of this client's; `None` when nobody answers.
    pub fn connections(&self) -> Option<u64> {
        let (bean, name) =
            if self.artemis { (ARTEMIS, "ConnectionCount") } else { (CLASSIC, "CurrentConnectionsCount") };
        self.bean(bean, &[name])?[name].as_u64()
    }

    /// Whether a user with this name and password is let in.
    pub fn admits(&self, user: &str, password: &str) -> bool {
        Wire::open(&self.openwire, Some((user, password))).is_ok()
    }

    fn bean(&self, bean: &str, attributes: &[&str]) -> Option<Value> {
        let request = json!({"type": "read", "mbean": bean, "attribute": attributes}).to_string();
        let headers = [("content-type", "application/json")];
        let answer = http::ask(&self.beans, "POST", "/jolokia/", &headers, request.as_bytes()).ok()?;
        let mut said: Value = serde_json::from_slice(&answer.1).ok()?;
        (said["status"] == 200).then(|| said["value"].take())
    }

    /// Does something over a connection of its own, which is closed in order.
    fn with<T>(&self, act: impl FnOnce(&mut Wire) -> io::Result<T>) -> io::Result<T> {
        let mut wire = Wire::open(&self.openwire, None)?;
        let done = act(&mut wire)?;
        let id = wire.id.clone();
        // -1: nothing was delivered, so that nothing counts as redelivered.
        wire.call(REMOVE_INFO, Fields::default().object(120).text(&id).long(-1))?;
        wire.send(SHUTDOWN_INFO, Fields::default(), false)?;
        Ok(done)
    }
}

const CLASSIC: &str = "org.apache.activemq:type=Broker,brokerName=t";
const ARTEMIS: &str = "org.apache.activemq.artemis:broker=\"t\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_written_as_java_writes_them_and_compression_is_zlibs() {
        assert_eq!(modified("a\0\u{e9}\u{20ac}"), b"a\xc0\x80\xc3\xa9\xe2\x82\xac");
        assert_eq!(modified("\u{1f600}"), b"\xed\xa0\xbd\xed\xb8\x80");
        // The checksum of RFC 1950's usual example.
        assert_eq!(deflated(b"Wikipedia"), b"\x78\x01\x01\x09\0\xf6\xffWikipedia\x11\xe6\x03\x98");
        let long = deflated(&[b'x'; STORED_MOST + 1]);
        assert_eq!((long[2], long[STORED_MOST + 7]), (0, 1), "only the last part is the last");
    }

    #[test]
    fn properties_are_found_again() {
        let properties = vec![("cause".to_owned(), "no".to_owned())];
        let sent = Outgoing { place: Some(7), properties, ..Outgoing::of("x") };
        let taken = Taken { content: Vec::new(), properties: sent.marshalled(), redeliveries: 0 };
        assert_eq!((taken.place(), taken.property("cause").as_deref()), (Some(7), Some("no")));
        assert_eq!(taken.property("caus"), None);
    }
}
