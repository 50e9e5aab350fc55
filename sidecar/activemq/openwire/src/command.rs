//! Commands: what both sides say to each other.

mod kinds;
mod messages;

use bytes::{Bytes, BytesMut};

pub use self::{
    kinds::{
        BrokerInfo, ConnectionControl, ConnectionError, ConnectionInfo, ConsumerControl, ConsumerInfo,
        DestinationInfo, Operation, ProducerInfo, RemoveInfo, RemoveSubscriptionInfo, Removed, Response,
    },
    messages::{AckType, MessageAck, MessageDispatch, MessagePull, ProducerAck},
};
use crate::{
    DecodeError, EncodeError, Message, SessionId, WireFormatInfo, field::Field, message::Kind,
    reader::Reader, writer::Writer,
};

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// How the peer wants to speak: the first of all.
    WireFormat(WireFormatInfo),
    /// Who the broker is.
    Broker(BrokerInfo),
    /// Opens the connection.
    Connection(ConnectionInfo),
    /// Opens a session.
    Session(SessionId),
    /// Begins to consume.
    Consumer(Box<ConsumerInfo>),
    /// Begins to produce.
    Producer(ProducerInfo),
    /// Creates or removes a destination.
    Destination(DestinationInfo),
    /// Ends a durable subscription.
    RemoveSubscription(RemoveSubscriptionInfo),
    /// A sign of life.
    KeepAlive,
    /// The connection is closed.
    Shutdown,
    /// Ends a connection, session, consumer or producer.
    Remove(RemoveInfo),
    /// Something without an answer has failed.
    ConnectionError(ConnectionError),
    /// Changes a consumer.
    ConsumerControl(ConsumerControl),
    /// Tells of other brokers.
    ConnectionControl(Box<ConnectionControl>),
    /// Gives a producer room.
    ProducerAck(ProducerAck),
    /// Asks for one message.
    Pull(MessagePull),
    /// Hands a message over, or says that there is none.
    Dispatch(Box<MessageDispatch>),
    /// Says what became of a message.
    Ack(Box<MessageAck>),
    /// Answers a command.
    Response(Response),
    /// Sends a message.
    Message(Box<Message>),
    /// What is not known here, by its type's number. It can only be skipped.
    Unknown(u8),
}

/// A command with what stands in front of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its number on the connection; 0 for what has none.
    pub number: i32,
    /// Whether an answer is wanted.
    pub answer: bool,
    /// What it says.
    pub command: Command,
}

/// What stands in front of most commands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Header {
    number: i32,
    answer: bool,
}

impl Header {
    pub(crate) fn read(from: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { number: from.i32("a command's number")?, answer: from.bool("a command's wish")? })
    }

    pub(crate) fn write(self, to: &mut Writer<'_>) {
        to.i32(self.number);
        to.bool(self.answer);
    }
}

/// The numbers of types that have no header.
const WIRE_FORMAT: u8 = 1;

/// Reads a frame without its size. What stands behind the fields that are known is skipped.
///
/// # Errors
/// It is no command of a version that is spoken, or it ends too early.
pub fn decode(frame: Bytes) -> Result<Frame, DecodeError> {
    let mut from = Reader::new(frame);
    let kind = from.u8("a command's type")?;
    if kind == WIRE_FORMAT {
        let command = Command::WireFormat(WireFormatInfo::read(&mut from)?);
        return Ok(Frame { number: 0, answer: false, command });
    }
    if !is_known(kind) {
        return Ok(Frame { number: 0, answer: false, command: Command::Unknown(kind) });
    }
    let Header { number, answer } = Header::read(&mut from)?;
    Ok(Frame { number, answer, command: read_body(kind, &mut from)? })
}

/// Appends a frame with its size. [`Command::Unknown`] is written as a type without anything.
///
/// # Errors
/// Something is too long; nothing is appended then.
pub fn encode(out: &mut BytesMut, number: i32, answer: bool, command: &Command) -> Result<(), EncodeError> {
    let start = out.len();
    let result = encode_at(out, start, Header { number, answer }, command);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn encode_at(out: &mut BytesMut, start: usize, header: Header, command: &Command) -> Result<(), EncodeError> {
    let mut to = Writer(out);
    to.i32(0);
    to.u8(kind(command));
    if !matches!(command, Command::WireFormat(_) | Command::Unknown(_)) {
        header.write(&mut to);
    }
    write_body(command, &mut to)?;
    let length = out.len().saturating_sub(start).saturating_sub(4);
    let size = i32::try_from(length).map_err(|_| EncodeError { what: "a frame", length })?;
    if let Some(place) = out.get_mut(start..).and_then(|frame| frame.first_chunk_mut()) {
        *place = size.to_be_bytes();
    }
    Ok(())
}

/// Reads a command that stands in a field, behind its type's number.
pub(crate) fn read_nested(kind: u8, from: &mut Reader, what: &'static str) -> Result<Command, DecodeError> {
    // Advisories tell of connections, consumers and producers, of their ends and of destinations. Messages within messages
    // would be read without end.
    if !matches!(kind, 2..=6 | 8 | 12) {
        return Err(DecodeError::Type { what, kind });
    }
    Header::read(from)?;
    read_body(kind, from)
}

/// Writes a command into a field, behind what says that it is there.
pub(crate) fn write_nested(command: &Command, to: &mut Writer<'_>) -> Result<(), EncodeError> {
    to.u8(kind(command));
    Header::default().write(to);
    write_body(command, to)
}

const fn is_known(kind: u8) -> bool {
    matches!(kind, 2..=6 | 8..=12 | 16..=34) && !matches!(kind, 33)
}

const fn kind(command: &Command) -> u8 {
    match command {
        Command::WireFormat(_) => WIRE_FORMAT,
        Command::Broker(_) => 2,
        Command::Connection(_) => 3,
        Command::Session(_) => 4,
        Command::Consumer(_) => 5,
        Command::Producer(_) => 6,
        Command::Destination(_) => 8,
        Command::RemoveSubscription(_) => 9,
        Command::KeepAlive => 10,
        Command::Shutdown => 11,
        Command::Remove(_) => 12,
        Command::ConnectionError(_) => 16,
        Command::ConsumerControl(_) => 17,
        Command::ConnectionControl(_) => 18,
        Command::ProducerAck(_) => 19,
        Command::Pull(_) => 20,
        Command::Dispatch(_) => 21,
        Command::Ack(_) => 22,
        Command::Response(response) => response.kind(),
        Command::Message(message) => message.number(),
        Command::Unknown(kind) => *kind,
    }
}

fn read_body(kind: u8, from: &mut Reader) -> Result<Command, DecodeError> {
    Ok(match kind {
        2 => Command::Broker(BrokerInfo::read(from)?),
        3 => Command::Connection(ConnectionInfo::read(from)?),
        4 => Command::Session(Field::read(from, "SessionInfo.session")?),
        5 => Command::Consumer(Box::new(ConsumerInfo::read(from)?)),
        6 => Command::Producer(ProducerInfo::read(from)?),
        8 => Command::Destination(DestinationInfo::read(from)?),
        9 => Command::RemoveSubscription(RemoveSubscriptionInfo::read(from)?),
        10 => Command::KeepAlive,
        11 => Command::Shutdown,
        12 => Command::Remove(RemoveInfo::read(from)?),
        16 => Command::ConnectionError(ConnectionError::read(from)?),
        17 => Command::ConsumerControl(ConsumerControl::read(from)?),
        18 => Command::ConnectionControl(Box::new(ConnectionControl::read(from)?)),
        19 => Command::ProducerAck(ProducerAck::read(from)?),
        20 => Command::Pull(MessagePull::read(from)?),
        21 => Command::Dispatch(Box::new(MessageDispatch::read(from)?)),
        22 => Command::Ack(Box::new(MessageAck::read(from)?)),
        30..=34 => Command::Response(Response::read(kind, from)?),
        _ => match Kind::of(kind) {
            Some(known) => Command::Message(Box::new(Message::read(known, from)?)),
            None => Command::Unknown(kind),
        },
    })
}

fn write_body(command: &Command, to: &mut Writer<'_>) -> Result<(), EncodeError> {
    match command {
        Command::WireFormat(info) => info.write(to),
        Command::Broker(info) => info.write(to),
        Command::Connection(info) => info.write(to),
        Command::Session(id) => Field::write(id, to, "SessionInfo.session"),
        Command::Consumer(info) => info.write(to),
        Command::Producer(info) => info.write(to),
        Command::Destination(info) => info.write(to),
        Command::RemoveSubscription(info) => info.write(to),
        Command::KeepAlive | Command::Shutdown | Command::Unknown(_) => Ok(()),
        Command::Remove(info) => info.write(to),
        Command::ConnectionError(error) => error.write(to),
        Command::ConsumerControl(control) => control.write(to),
        Command::ConnectionControl(control) => control.write(to),
        Command::ProducerAck(ack) => ack.write(to),
        Command::Pull(pull) => pull.write(to),
        Command::Dispatch(dispatch) => dispatch.write(to),
        Command::Ack(ack) => ack.write(to),
        Command::Response(response) => response.write(to),
        Command::Message(message) => message.write(to),
    }
}
