//! Names of things: who is who on a connection, and where messages go.

use std::fmt;

use bytes::Bytes;

use crate::{
    DecodeError, EncodeError, Text,
    field::{Field, Object, object},
    reader::Reader,
    writer::Writer,
};

object! {
    /// A connection, named by its client.
    ConnectionId = 120 {
        /// Unlike any other's; Java's clients take `ID:host-port-millis-seq:n`.
        value: Text,
    }
}

object! {
    /// A session of a connection.
    SessionId = 121 {
        /// The connection's id.
        connection: Text,
        /// From 1.
        value: i64,
    }
}

object! {
    /// A consumer of a session.
    ConsumerId = 122 {
        /// The connection's id.
        connection: Text,
        /// The session's number.
        session: i64,
        /// From 1.
        value: i64,
    }
}

object! {
    /// A producer of a session. Its two numbers stand the other way round than a consumer's.
    ProducerId = 123 {
        /// The connection's id.
        connection: Text,
        /// From 1.
        value: i64,
        /// The session's number.
        session: i64,
    }
}

object! {
    /// A broker.
    BrokerId = 124 {
        /// Classic: begins with `ID:` unless it was given one; Artemis: a UUID.
        value: Text,
    }
}

object! {
    /// A message. Two are the same when producer and its number are.
    MessageId = 110 {
        /// An id of another form that a producer (or a protocol other than OpenWire) has given.
        text: Option<Text>,
        /// Who sent it.
        producer: ProducerId,
        /// The producer's number.
        producer_sequence: i64,
        /// Classic: the broker's number of arrival. Artemis: the number of the delivery on its consumer.
        broker_sequence: i64,
    }
}

/// `JMSMessageID`: what [`MessageId::text`] says, with `ID:` in front of it, else who sent it and the number.
impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) if text.bytes().starts_with(b"ID:") => write!(f, "{text}"),
            Some(text) => write!(f, "ID:{text}"),
            None => {
                let ProducerId { connection, value, session } = &self.producer;
                write!(f, "{connection}:{session}:{value}:{}", self.producer_sequence)
            }
        }
    }
}

object! {
    /// A transaction of one connection.
    LocalTransactionId = 111 {
        /// Its number.
        value: i64,
        /// Whose it is.
        connection: Option<ConnectionId>,
    }
}

object! {
    /// A transaction of several resources.
    XaTransactionId = 112 {
        /// The format of both.
        format: i32,
        /// Its id.
        global: Option<Bytes>,
        /// The branch's.
        branch: Option<Bytes>,
    }
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionId {
    /// Of one connection.
    Local(LocalTransactionId),
    /// Of several resources.
    Xa(XaTransactionId),
}

impl Object for TransactionId {
    fn kind(&self) -> u8 {
        match self {
            Self::Local(id) => id.kind(),
            Self::Xa(id) => id.kind(),
        }
    }

    fn read_as(kind: u8, from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        if kind == 111 {
            LocalTransactionId::read_as(kind, from, what).map(Self::Local)
        } else {
            XaTransactionId::read_as(kind, from, what).map(Self::Xa)
        }
    }

    fn write_body(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self {
            Self::Local(id) => id.write_body(to),
            Self::Xa(id) => id.write_body(to),
        }
    }
}

/// Where messages go and come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Destination {
    /// What it is.
    pub kind: DestinationKind,
    /// Its name, without options.
    pub name: Text,
}

/// What a destination is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DestinationKind {
    /// Each message is for one consumer.
    #[default]
    Queue,
    /// Each message is for all subscribers.
    Topic,
    /// A queue that ends with its connection.
    TempQueue,
    /// A topic that ends with its connection.
    TempTopic,
}

impl Destination {
    /// A queue.
    pub fn queue(name: &str) -> Self {
        Self { kind: DestinationKind::Queue, name: name.into() }
    }

    /// A topic.
    pub fn topic(name: &str) -> Self {
        Self { kind: DestinationKind::Topic, name: name.into() }
    }
}

/// As ActiveMQ's tools show it, for example `queue://orders`.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            DestinationKind::Queue => "queue",
            DestinationKind::Topic => "topic",
            DestinationKind::TempQueue => "temp-queue",
            DestinationKind::TempTopic => "temp-topic",
        };
        write!(f, "{scheme}://{}", self.name)
    }
}

impl Object for Destination {
    fn kind(&self) -> u8 {
        match self.kind {
            DestinationKind::Queue => 100,
            DestinationKind::Topic => 101,
            DestinationKind::TempQueue => 102,
            DestinationKind::TempTopic => 103,
        }
    }

    fn read_as(kind: u8, from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        let kind = match kind {
            100 => DestinationKind::Queue,
            101 => DestinationKind::Topic,
            102 => DestinationKind::TempQueue,
            103 => DestinationKind::TempTopic,
            _ => return Err(DecodeError::Type { what, kind }),
        };
        Ok(Self { kind, name: Field::read(from, what)? })
    }

    fn write_body(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        Field::write(&self.name, to, "Destination.name")
    }
}

/// An exception of Java, without its stack. The class is nothing but a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throwable {
    /// For example `java.lang.SecurityException`.
    pub class: Text,
    /// What it says.
    pub message: Option<Text>,
}

impl Throwable {
    /// The class's name without its package: ActiveMQ 6 has moved those of JMS.
    pub fn class_name(&self) -> String {
        let class = self.class.decoded();
        class.rsplit('.').next().unwrap_or_default().to_owned()
    }
}

impl fmt::Display for Throwable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message {
            Some(message) => write!(f, "{}: {message}", self.class),
            None => write!(f, "{}", self.class),
        }
    }
}

impl Field for Option<Throwable> {
    fn read(from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        if !from.bool(what)? {
            return Ok(None);
        }
        Ok(Some(Throwable { class: Field::read(from, what)?, message: Field::read(from, what)? }))
    }

    fn write(&self, to: &mut Writer<'_>, what: &'static str) -> Result<(), EncodeError> {
        to.bool(self.is_some());
        let Some(Throwable { class, message }) = self else { return Ok(()) };
        Field::write(class, to, what)?;
        Field::write(message, to, what)
    }
}
