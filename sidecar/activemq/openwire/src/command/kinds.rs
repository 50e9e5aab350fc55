//! The commands' fields, in the order on the wire.

use bytes::Bytes;

use crate::{
    BrokerId, ConnectionId, ConsumerId, DecodeError, Destination, EncodeError, ProducerId, SessionId, Text,
    Throwable,
    field::{Field, Object, structure},
    reader::Reader,
    writer::Writer,
};

structure! {
    /// Who the broker is.
    BrokerInfo {
        /// Its id.
        id: Option<BrokerId>,
        /// Where it listens.
        url: Option<Text>,
        /// Its peers; none are told.
        peers: Vec<BrokerId>,
        /// Its name.
        name: Option<Text>,
        /// Whether it stands by for another.
        slave: bool,
        /// Whether another stands by for it.
        master: bool,
        /// Whether it survives a failure.
        fault_tolerant: bool,
        /// Whether a bridge of it goes both ways.
        duplex: bool,
        /// Whether it is a bridge.
        network: bool,
        /// Its number of the connection.
        connection: i64,
        /// Where blobs are put.
        upload_url: Option<Text>,
        /// Settings of a bridge.
        network_properties: Option<Text>,
    }
}

structure! {
    /// Opens the connection.
    ConnectionInfo {
        /// Its id. A broker ends another connection of the same id.
        id: ConnectionId,
        /// The client's id, one connection each.
        client: Option<Text>,
        /// The password.
        password: Option<Text>,
        /// The user.
        user: Option<Text>,
        /// The brokers that it came through.
        path: Vec<BrokerId>,
        /// Whether it is a broker that stands by.
        master_connector: bool,
        /// Whether [`ConnectionControl`] is understood.
        manageable: bool,
        /// Whether it is the client that decides.
        client_master: bool,
        /// Whether the client survives a broker's failure.
        fault_tolerant: bool,
        /// Whether it was there before.
        reconnect: bool,
        /// The client's address.
        address: Option<Text>,
    }
}

structure! {
    /// Begins to consume.
    ConsumerInfo {
        /// Its id.
        id: ConsumerId,
        /// Whether it only looks.
        browser: bool,
        /// From where.
        destination: Option<Destination>,
        /// How many messages it may have unacknowledged; 0 = each is pulled.
        prefetch: i32,
        /// Topics: how many more are kept for it; 0 = the broker's setting.
        pending_most: i32,
        /// Whether the broker hands over in a thread of its own.
        dispatch_async: bool,
        /// Which messages.
        selector: Option<Text>,
        /// The client's id.
        client: Option<Text>,
        /// A durable subscription's name.
        subscription: Option<Text>,
        /// Whether those of its own connection are left out.
        no_local: bool,
        /// Whether no other consumer gets any while it is there.
        exclusive: bool,
        /// Topics: whether it gets older ones.
        retroactive: bool,
        /// The highest ones get messages first.
        priority: u8,
        /// The brokers that it came through.
        path: Vec<BrokerId>,
        /// A filter of the broker's own; never set.
        predicate: Option<BrokerId>,
        /// Whether it is a bridge's.
        network: bool,
        /// Whether it acknowledges late.
        optimized_ack: bool,
        /// Whether it acknowledges each by itself.
        no_range_acks: bool,
        /// The consumers that it stands for.
        network_path: Vec<ConsumerId>,
    }
}

structure! {
    /// Begins to produce.
    ProducerInfo {
        /// Its id.
        id: ProducerId,
        /// To where; `None` = each message says.
        destination: Option<Destination>,
        /// The brokers that it came through.
        path: Vec<BrokerId>,
        /// Whether the broker hands over in a thread of its own.
        dispatch_async: bool,
        /// Bytes that it may send before [`ProducerAck`]; 0 = any.
        window: i32,
    }
}

/// What is done to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operation {
    /// It is created.
    #[default]
    Add,
    /// It is removed.
    Remove,
}

impl Field for Operation {
    fn read(from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        match from.u8(what)? {
            0 => Ok(Self::Add),
            1 => Ok(Self::Remove),
            kind => Err(DecodeError::Type { what, kind }),
        }
    }

    fn write(&self, to: &mut Writer<'_>, _: &'static str) -> Result<(), EncodeError> {
        to.u8(match self {
            Self::Add => 0,
            Self::Remove => 1,
        });
        Ok(())
    }
}

structure! {
    /// Creates or removes a destination.
    DestinationInfo {
        /// Whose it is.
        connection: Option<ConnectionId>,
        /// Which.
        destination: Option<Destination>,
        /// What is done.
        operation: Operation,
        /// How long that may take, in milliseconds.
        timeout: i64,
        /// The brokers that it came through.
        path: Vec<BrokerId>,
    }
}

structure! {
    /// Ends a durable subscription.
    RemoveSubscriptionInfo {
        /// Whose connection asks.
        connection: Option<ConnectionId>,
        /// The subscription's name.
        subscription: Option<Text>,
        /// The client's id that it belongs to.
        client: Option<Text>,
    }
}

structure! {
    /// Ends something.
    RemoveInfo {
        /// What.
        id: Option<Removed>,
        /// The last message that counts as delivered, by [`MessageId::broker_sequence`]; -1 = none, -2 = all.
        last_delivered: i64,
    }
}

/// What can be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// A connection with all that belongs to it.
    Connection(ConnectionId),
    /// A session with its consumers.
    Session(SessionId),
    /// A consumer.
    Consumer(ConsumerId),
    /// A producer.
    Producer(ProducerId),
}

impl Object for Removed {
    fn kind(&self) -> u8 {
        match self {
            Self::Connection(id) => id.kind(),
            Self::Session(id) => id.kind(),
            Self::Consumer(id) => id.kind(),
            Self::Producer(id) => id.kind(),
        }
    }

    fn read_as(kind: u8, from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        Ok(match kind {
            120 => Self::Connection(Object::read_as(kind, from, what)?),
            121 => Self::Session(Object::read_as(kind, from, what)?),
            122 => Self::Consumer(Object::read_as(kind, from, what)?),
            _ => Self::Producer(Object::read_as(kind, from, what)?),
        })
    }

    fn write_body(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self {
            Self::Connection(id) => id.write_body(to),
            Self::Session(id) => id.write_body(to),
            Self::Consumer(id) => id.write_body(to),
            Self::Producer(id) => id.write_body(to),
        }
    }
}

structure! {
    /// Something without an answer has failed.
    ConnectionError {
        /// What.
        exception: Option<Throwable>,
        /// The connection, where it fails as a whole.
        connection: Option<ConnectionId>,
    }
}

structure! {
    /// Changes a consumer.
    ConsumerControl {
        /// What it consumes.
        destination: Option<Destination>,
        /// It is to end.
        close: bool,
        /// Which.
        consumer: Option<ConsumerId>,
        /// How many messages it may have unacknowledged.
        prefetch: i32,
        /// Its messages are to be dropped.
        flush: bool,
        /// It is to go on.
        start: bool,
        /// It is to pause.
        stop: bool,
    }
}

structure! {
    /// Tells of other brokers.
    ConnectionControl {
        /// The connection is to close.
        close: bool,
        /// The client is to end.
        exit: bool,
        /// The broker survives a failure.
        fault_tolerant: bool,
        /// The connection is to go on.
        resume: bool,
        /// The connection is to pause.
        suspend: bool,
        /// The brokers of the cluster, with commas between them.
        brokers: Option<Text>,
        /// Where to connect to instead.
        reconnect_to: Option<Text>,
        /// Whether to connect there now.
        rebalance: bool,
        /// A secret of the broker's.
        token: Option<Bytes>,
    }
}

/// Answers a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The command's number.
    pub to: i32,
    /// Why it failed; `None` = it did not. Data that is answered is skipped.
    pub exception: Option<Throwable>,
}

impl Response {
    pub(super) const fn kind(&self) -> u8 {
        if self.exception.is_some() { 31 } else { 30 }
    }

    pub(super) fn read(kind: u8, from: &mut Reader) -> Result<Self, DecodeError> {
        let to = from.i32("Response.to")?;
        let unnamed = || Throwable { class: Text::default(), message: None };
        let exception = if kind == 31 {
            Some(
                Field::read(from, "ExceptionResponse.exception")
                    .map(|e: Option<_>| e.unwrap_or_else(unnamed))?,
            )
        } else {
            None
        };
        Ok(Self { to, exception })
    }

    pub(super) fn write(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        to.i32(self.to);
        if self.exception.is_some() {
            self.exception.write(to, "ExceptionResponse.exception")
        } else {
            Ok(())
        }
    }
}
