use bytes::Bytes;

use super::{Malformed, Table, take::Take};

/// Class numbers.
pub(super) const CONNECTION: u16 = 10;
pub(super) const CHANNEL: u16 = 20;
pub(super) const QUEUE: u16 = 50;
pub(in crate::amqp) const BASIC: u16 = 60;
pub(super) const CONFIRM: u16 = 85;

/// A method that a broker sends to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::amqp) enum Method {
    /// On channel 0.
    Connection(ConnectionMethod),
    /// Answers the oldest open question of its channel.
    Answer(Answer),
    /// Content follows.
    Content(ContentMethod),
    /// Anything else on a channel.
    Channel(ChannelMethod),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::amqp) enum ConnectionMethod {
    Start { properties: Table, mechanisms: Bytes },
    Tune { channels: u16, frame: u32, heartbeat: u16 },
    OpenOk,
    Close(Closed),
    CloseOk,
    Blocked { reason: Bytes },
    Unblocked,
}

/// Why a channel or connection is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::amqp) struct Closed {
    pub(in crate::amqp) code: u16,
    pub(in crate::amqp) text: Bytes,
    pub(in crate::amqp) class: u16,
    pub(in crate::amqp) method: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::amqp) enum Answer {
    ChannelOpen,
    Declare { messages: u32, consumers: u32 },
    Delete,
    Qos,
    Consume,
    Cancel,
    Select,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::amqp) enum ContentMethod {
    Deliver { tag: u64, redelivered: bool, exchange: Bytes, routing_key: Bytes },
    Return { code: u16, text: Bytes, exchange: Bytes, routing_key: Bytes },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::amqp) enum ChannelMethod {
    Flow {
        active: bool,
    },
    Close(Closed),
    CloseOk,
    /// The broker ends a consumer; answered unless it says otherwise.
    Cancel {
        tag: Bytes,
        no_wait: bool,
    },
    /// Publishes are confirmed.
    Ack {
        tag: u64,
        multiple: bool,
    },
    /// Publishes are not taken.
    Nack {
        tag: u64,
        multiple: bool,
    },
}

impl Method {
    /// Reads a method frame's payload. Arguments that are not needed are passed over; what follows the last one that is
    /// needed is ignored, as later versions may append.
    ///
    /// # Errors
    /// It is cut short, or no method that is sent to a client like this one.
    pub(in crate::amqp) fn parse(payload: Bytes) -> Result<Self, Malformed> {
        let mut rest = payload;
        let (Some(class), Some(method)) = (rest.take_u16(), rest.take_u16()) else {
            return Err(Malformed::Method { class: 0, method: 0 });
        };
        let rest = &mut rest;
        let parsed = match class {
            CONNECTION => connection(method, rest),
            CHANNEL => channel(method, rest),
            QUEUE => queue(method, rest),
            BASIC => basic(method, rest),
            CONFIRM => Some((method == 11).then_some(Self::Answer(Answer::Select))),
            _ => Some(None),
        };
        match parsed {
            Some(Some(method)) => Ok(method),
            Some(None) => Err(Malformed::Unexpected { class, method }),
            None => Err(Malformed::Method { class, method }),
        }
    }
}

/// `None` when it is cut short, `Some(None)` when there is no such method for us.
type Parsed = Option<Option<Method>>;

fn connection(method: u16, rest: &mut Bytes) -> Parsed {
    Some(Some(Method::Connection(match method {
        10 => {
            // The version, 0-9.
            rest.take_u16()?;
            let properties = Table::from_raw(rest.take_long()?);
            ConnectionMethod::Start { properties, mechanisms: rest.take_long()? }
        }
        30 => ConnectionMethod::Tune {
            channels: rest.take_u16()?,
            frame: rest.take_u32()?,
            heartbeat: rest.take_u16()?,
        },
        41 => ConnectionMethod::OpenOk,
        50 => ConnectionMethod::Close(closed(rest)?),
        51 => ConnectionMethod::CloseOk,
        60 => ConnectionMethod::Blocked { reason: rest.take_short()? },
        61 => ConnectionMethod::Unblocked,
        _ => return Some(None),
    })))
}

fn channel(method: u16, rest: &mut Bytes) -> Parsed {
    Some(Some(match method {
        11 => Method::Answer(Answer::ChannelOpen),
        20 => Method::Channel(ChannelMethod::Flow { active: rest.take_u8()? & 1 != 0 }),
        40 => Method::Channel(ChannelMethod::Close(closed(rest)?)),
        41 => Method::Channel(ChannelMethod::CloseOk),
        _ => return Some(None),
    }))
}

fn closed(rest: &mut Bytes) -> Option<Closed> {
    Some(Closed {
        code: rest.take_u16()?,
        text: rest.take_short()?,
        class: rest.take_u16()?,
        method: rest.take_u16()?,
    })
}

fn queue(method: u16, rest: &mut Bytes) -> Parsed {
    Some(Some(Method::Answer(match method {
        11 => {
            // The queue's name.
            rest.take_short()?;
            Answer::Declare { messages: rest.take_u32()?, consumers: rest.take_u32()? }
        }
        41 => Answer::Delete,
        _ => return Some(None),
    })))
}

fn basic(method: u16, rest: &mut Bytes) -> Parsed {
    Some(Some(match method {
        11 => Method::Answer(Answer::Qos),
        21 => Method::Answer(Answer::Consume),
        30 => Method::Channel(ChannelMethod::Cancel {
            tag: rest.take_short()?,
            no_wait: rest.take_u8()? & 1 != 0,
        }),
        31 => Method::Answer(Answer::Cancel),
        50 => Method::Content(ContentMethod::Return {
            code: rest.take_u16()?,
            text: rest.take_short()?,
            exchange: rest.take_short()?,
            routing_key: rest.take_short()?,
        }),
        60 => {
            // The consumer's tag: a channel has one inbox.
            rest.take_short()?;
            Method::Content(ContentMethod::Deliver {
                tag: rest.take_u64()?,
                redelivered: rest.take_u8()? & 1 != 0,
                exchange: rest.take_short()?,
                routing_key: rest.take_short()?,
            })
        }
        80 => {
            Method::Channel(ChannelMethod::Ack { tag: rest.take_u64()?, multiple: rest.take_u8()? & 1 != 0 })
        }
        120 => {
            Method::Channel(ChannelMethod::Nack { tag: rest.take_u64()?, multiple: rest.take_u8()? & 1 != 0 })
        }
        _ => return Some(None),
    }))
}

/// What stands before a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::amqp) struct ContentHead {
    /// Of the body, in bytes.
    pub(in crate::amqp) size: u64,
    /// Flags and properties, unread.
    pub(in crate::amqp) properties: Bytes,
}

impl ContentHead {
    /// Reads a header frame's payload, or its start.
    pub(in crate::amqp) fn parse(payload: Bytes) -> Result<Self, Malformed> {
        let mut rest = payload;
        let head = rest.take_u16().zip(rest.take_u16()).zip(rest.take_u64());
        match head {
            Some(((BASIC, _), size)) => Ok(Self { size, properties: rest }),
            _ => Err(Malformed::Order("content header")),
        }
    }
}
