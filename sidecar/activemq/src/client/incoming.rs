//! What a broker says, by what it means to us.

use std::time::Duration;

use bytes::Bytes;
use lockstep_openwire::{
    BrokerInfo, Command, ConnectionError, ConsumerControl, DispatchStart, Frame, MessageDispatch, Response,
    Text, Throwable, WireFormatInfo, decode,
};
use tracing::debug;

use super::{
    Budget, ClientError, DeliveryEvent, Dispatch, Exception, Undecodable, frames::LongFrame, wire::broken,
};

/// Type numbers of OpenWire's commands: those that are read.
const WIRE_FORMAT: u8 = 1;
const BROKER: u8 = 2;
const KEEP_ALIVE: u8 = 10;
const CONNECTION_ERROR: u8 = 16;
const CONSUMER_CONTROL: u8 = 17;
const DISPATCH: u8 = 21;
const RESPONSE: u8 = 30;
const RESPONSE_MOST: u8 = 34;

/// What a broker says.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The answer to one of our commands.
    Answer { command: i32, result: Result<(), ClientError> },
    /// Something for a consumer.
    Delivery { consumer: i64, event: DeliveryEvent },
    /// A sign of life, which may ask for one.
    KeepAlive { answer: bool },
    /// A failure of the whole connection, or of something in it that is not told.
    Failed { exception: Exception, whole: bool },
    /// Who the broker is.
    Broker(Introduction),
    /// How the broker wants to speak.
    WireFormat(PeerFormat),
    /// What needs no reaction.
    Note(&'static str),
}

/// Who a broker is.
#[derive(Debug)]
pub(super) struct Introduction {
    pub(super) id: String,
    pub(super) name: String,
}

/// How a broker wants to speak.
#[derive(Debug)]
pub(super) struct PeerFormat {
    pub(super) version: i32,
    pub(super) provider_version: String,
    /// `None` = it watches for no signs of life.
    pub(super) inactivity: Option<Duration>,
}

/// Reads a frame. What a message holds is counted by the budget.
///
/// # Errors
/// It can't be read, and something may wait for it.
pub(super) fn read(frame: Bytes, budget: &Budget) -> Result<Incoming, ClientError> {
    match frame.first().copied() {
        Some(DISPATCH) => read_dispatch(budget.lend(frame)),
        Some(BROKER) => read_broker(frame),
        Some(WIRE_FORMAT | KEEP_ALIVE | CONNECTION_ERROR | CONSUMER_CONTROL | RESPONSE..=RESPONSE_MOST) => {
            meaning(decode(frame)?)
        }
        // What is not needed is not read, so that nothing in it can be wrong.
        Some(kind) => {
            debug!(kind, "skipped a command");
            Ok(Incoming::Note("a command that is not for a consumer"))
        }
        None => Err(broken("a frame without content")),
    }
}

/// Reads what is left of a frame that was too long.
///
/// # Errors
/// It would have brought a message, and which can't be read.
pub(super) fn read_long(frame: LongFrame, budget: &Budget) -> Result<Incoming, ClientError> {
    let LongFrame { size, start, tail } = frame;
    if start.first() != Some(&DISPATCH) {
        return Ok(Incoming::Note("a frame that is too long and brings no message"));
    }
    // A copy, so that the rest of the buffer is not held.
    let start = budget.lend(Bytes::copy_from_slice(&start));
    undecodable(start, tail, Undecodable::Oversize { size })
}

fn read_dispatch(frame: Bytes) -> Result<Incoming, ClientError> {
    let error = match decode(frame.clone()) {
        Ok(decoded) => return meaning(decoded),
        Err(error) => error,
    };
    // The count of redeliveries is the last field.
    let tail = frame.last_chunk().copied().unwrap_or_default();
    undecodable(frame, tail, Undecodable::Malformed { reason: error.to_string().into() })
}

fn undecodable(start: Bytes, tail: [u8; 4], why: Undecodable) -> Result<Incoming, ClientError> {
    let DispatchStart { consumer, destination, id } = DispatchStart::read(start)?;
    let redeliveries = u32::try_from(i32::from_be_bytes(tail)).unwrap_or(0);
    let dispatch = Dispatch { destination, id, redeliveries, message: Err(why) };
    Ok(Incoming::Delivery { consumer: consumer.value, event: DeliveryEvent::Message(dispatch) })
}

/// Brokers of a network may tell of their peers behind their id: whatever is there, the id tells enough.
fn read_broker(frame: Bytes) -> Result<Incoming, ClientError> {
    let id = broker_id(&frame);
    match (decode(frame), id) {
        (Ok(decoded), _) => meaning(decoded),
        (Err(_), Some(id)) => Ok(Incoming::Broker(Introduction { id, name: String::new() })),
        (Err(error), None) => Err(error.into()),
    }
}

/// The id in a `BrokerInfo`: behind type, number and wish stands an object of type 124 with a text.
fn broker_id(frame: &[u8]) -> Option<String> {
    let id = frame.get(6..)?.strip_prefix(&[1, 124, 1])?;
    let length: usize = id.first_chunk().copied().map(u16::from_be_bytes)?.into();
    let id = id.get(2..)?.get(..length)?;
    Some(String::from_utf8_lossy(id).into_owned())
}

fn meaning(frame: Frame) -> Result<Incoming, ClientError> {
    Ok(match frame.command {
        Command::Response(Response { to, exception }) => Incoming::Answer {
            command: to,
            result: exception.map_or(Ok(()), |thrown| Err(ClientError::of_exception(Exception::of(&thrown)))),
        },
        Command::Dispatch(dispatch) => delivery(*dispatch)?,
        Command::ConsumerControl(ConsumerControl { close: true, consumer: Some(consumer), .. }) => {
            Incoming::Delivery { consumer: consumer.value, event: DeliveryEvent::Cancelled }
        }
        Command::ConsumerControl(_) => Incoming::Note("another prefetch of a consumer"),
        Command::ConnectionError(ConnectionError { exception, connection }) => Incoming::Failed {
            exception: exception.as_ref().map(Exception::of).unwrap_or_default(),
            whole: connection.is_some(),
        },
        Command::WireFormat(info) => Incoming::WireFormat(PeerFormat::of(&info)),
        Command::Broker(BrokerInfo { id, name, .. }) => Incoming::Broker(Introduction {
            id: id.map(|id| id.value.decoded().into_owned()).unwrap_or_default(),
            name: name.as_ref().map(text).unwrap_or_default(),
        }),
        Command::KeepAlive => Incoming::KeepAlive { answer: frame.answer },
        Command::Connection(_)
        | Command::Session(_)
        | Command::Consumer(_)
        | Command::Producer(_)
        | Command::Destination(_)
        | Command::RemoveSubscription(_)
        | Command::Remove(_)
        | Command::Shutdown
        | Command::ConnectionControl(_)
        | Command::ProducerAck(_)
        | Command::Pull(_)
        | Command::Ack(_)
        | Command::Message(_)
        | Command::Unknown(_) => Incoming::Note("a command that is not for a consumer"),
    })
}

fn delivery(dispatch: MessageDispatch) -> Result<Incoming, ClientError> {
    let MessageDispatch { consumer, destination, message, redeliveries } = dispatch;
    let consumer = consumer.value;
    let Some(message) = message else {
        return Ok(Incoming::Delivery { consumer, event: DeliveryEvent::Nothing });
    };
    let destination = destination
        .or_else(|| message.fields.destination.clone())
        .ok_or_else(|| broken("a message from nowhere"))?;
    let dispatch = Dispatch {
        destination,
        id: message.fields.id.clone(),
        redeliveries: u32::try_from(redeliveries).unwrap_or(0),
        message: Ok(Box::new(message)),
    };
    Ok(Incoming::Delivery { consumer, event: DeliveryEvent::Message(dispatch) })
}

impl PeerFormat {
    fn of(info: &WireFormatInfo) -> Self {
        Self {
            version: info.version,
            provider_version: info.provider_version().map(text).unwrap_or_default(),
            inactivity: info.inactivity(),
        }
    }
}

impl Exception {
    fn of(thrown: &Throwable) -> Self {
        Self {
            class: (*thrown.class.decoded()).into(),
            message: thrown.message.as_ref().map(|message| (*message.decoded()).into()).unwrap_or_default(),
        }
    }
}

fn text(text: &Text) -> String {
    text.decoded().into_owned()
}
