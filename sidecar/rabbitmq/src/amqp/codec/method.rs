use bytes::{BufMut, Bytes, BytesMut};

use super::{
    Malformed, Table,
    frame::{Kind, frame},
    take::Take,
};

/// What a client sends first: the protocol's name and version (AMQP 0-9-1, 4.2.2).
pub(in crate::amqp) const PROTOCOL_HEADER: &[u8; 8] = b"AMQP\x00\x00\x09\x01";

/// Class numbers.
const CONNECTION: u16 = 10;
const CHANNEL: u16 = 20;
const QUEUE: u16 = 50;
pub(super) const BASIC: u16 = 60;
const CONFIRM: u16 = 85;

/// A method that a broker sends to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::amqp) enum Method {
    Start {
        properties: Table,
        mechanisms: Bytes,
    },
    Tune {
        channels: u16,
        frame: u32,
        heartbeat: u16,
    },
    OpenOk,
    Close {
        code: u16,
        text: Bytes,
        class: u16,
        method: u16,
    },
    CloseOk,
    Blocked {
        reason: Bytes,
    },
    Unblocked,
    ChannelOpenOk,
    ChannelFlow {
        active: bool,
    },
    ChannelClose {
        code: u16,
        text: Bytes,
        class: u16,
        method: u16,
    },
    ChannelCloseOk,
    DeclareOk {
        messages: u32,
        consumers: u32,
    },
    DeleteOk,
    QosOk,
    ConsumeOk,
    /// The broker ends a consumer; answered unless it says otherwise.
    Cancel {
        tag: Bytes,
        no_wait: bool,
    },
    CancelOk,
    Deliver {
        tag: u64,
        redelivered: bool,
        exchange: Bytes,
        routing_key: Bytes,
    },
    Return {
        code: u16,
        text: Bytes,
        exchange: Bytes,
        routing_key: Bytes,
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
    SelectOk,
}

impl Method {
    /// Reads a method frame's payload. Arguments that are not needed are passed over; what follows the last one that is
    /// needed is ignored, as later versions may append.
    pub(in crate::amqp) fn parse(payload: Bytes) -> Result<Self, Malformed> {
        let mut rest = payload;
        let (Some(class), Some(method)) = (rest.take_u16(), rest.take_u16()) else {
            return Err(Malformed::Method { class: 0, method: 0 });
        };
        let parsed = match class {
            CONNECTION => connection(method, &mut rest),
            CHANNEL => channel(method, &mut rest),
            QUEUE => queue(method, &mut rest),
            BASIC => basic(method, &mut rest),
            CONFIRM => Some((method == 11).then_some(Self::SelectOk)),
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
    Some(Some(match method {
        10 => {
            // The version, 0-9.
            rest.take_u16()?;
            let properties = Table::from_raw(rest.take_long()?);
            Method::Start { properties, mechanisms: rest.take_long()? }
        }
        30 => {
            Method::Tune { channels: rest.take_u16()?, frame: rest.take_u32()?, heartbeat: rest.take_u16()? }
        }
        41 => Method::OpenOk,
        50 => {
            let (code, text, class, method) = close(rest)?;
            Method::Close { code, text, class, method }
        }
        51 => Method::CloseOk,
        60 => Method::Blocked { reason: rest.take_short()? },
        61 => Method::Unblocked,
        _ => return Some(None),
    }))
}

fn channel(method: u16, rest: &mut Bytes) -> Parsed {
    Some(Some(match method {
        11 => Method::ChannelOpenOk,
        20 => Method::ChannelFlow { active: rest.take_u8()? & 1 != 0 },
        40 => {
            let (code, text, class, method) = close(rest)?;
            Method::ChannelClose { code, text, class, method }
        }
        41 => Method::ChannelCloseOk,
        _ => return Some(None),
    }))
}

fn close(rest: &mut Bytes) -> Option<(u16, Bytes, u16, u16)> {
    Some((rest.take_u16()?, rest.take_short()?, rest.take_u16()?, rest.take_u16()?))
}

fn queue(method: u16, rest: &mut Bytes) -> Parsed {
    Some(Some(match method {
        11 => {
            rest.take_short()?;
            Method::DeclareOk { messages: rest.take_u32()?, consumers: rest.take_u32()? }
        }
        41 => Method::DeleteOk,
        _ => return Some(None),
    }))
}

fn basic(method: u16, rest: &mut Bytes) -> Parsed {
    Some(Some(match method {
        11 => Method::QosOk,
        21 => Method::ConsumeOk,
        30 => Method::Cancel { tag: rest.take_short()?, no_wait: rest.take_u8()? & 1 != 0 },
        31 => Method::CancelOk,
        50 => Method::Return {
            code: rest.take_u16()?,
            text: rest.take_short()?,
            exchange: rest.take_short()?,
            routing_key: rest.take_short()?,
        },
        60 => {
            // The consumer's tag: a channel has one inbox.
            rest.take_short()?;
            Method::Deliver {
                tag: rest.take_u64()?,
                redelivered: rest.take_u8()? & 1 != 0,
                exchange: rest.take_short()?,
                routing_key: rest.take_short()?,
            }
        }
        80 => Method::Ack { tag: rest.take_u64()?, multiple: rest.take_u8()? & 1 != 0 },
        120 => Method::Nack { tag: rest.take_u64()?, multiple: rest.take_u8()? & 1 != 0 },
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

/// A method that we send.
#[derive(Debug, Clone, Copy)]
pub(in crate::amqp) enum Call<'a> {
    StartOk { properties: &'a [u8], mechanism: &'a str, response: &'a [u8] },
    TuneOk { channels: u16, frame: u32, heartbeat: u16 },
    Open { vhost: &'a str },
    Close { code: u16, text: &'a str },
    CloseOk,
    ChannelOpen,
    ChannelFlowOk { active: bool },
    ChannelClose,
    ChannelCloseOk,
    Declare { queue: &'a str, passive: bool, durable: bool, arguments: &'a [u8] },
    Delete { queue: &'a str },
    Qos { prefetch: u16 },
    Consume { queue: &'a str, tag: &'a str, arguments: &'a [u8] },
    Cancel { tag: &'a str },
    CancelOk { tag: &'a [u8] },
    Publish { exchange: &'a str, routing_key: &'a str, mandatory: bool },
    Ack { tag: u64, multiple: bool },
    Nack { tag: u64, requeue: bool },
    Reject { tag: u64, requeue: bool },
    Select,
}

impl Call<'_> {
    /// Appends the method's frame; `None`, and nothing appended, when a text is longer than the protocol can say.
    pub(in crate::amqp) fn write(&self, channel: u16, out: &mut BytesMut) -> Option<()> {
        let start = out.len();
        let mut whole = None;
        frame(out, Kind::Method, channel, |out| whole = self.payload(out));
        if whole.is_none() {
            out.truncate(start);
        }
        whole
    }

    fn payload(&self, out: &mut BytesMut) -> Option<()> {
        let (class, method) = self.number();
        out.put_u16(class);
        out.put_u16(method);
        match *self {
            Self::StartOk { properties, mechanism, response } => {
                put_long(out, properties)?;
                put_short(out, mechanism.as_bytes())?;
                put_long(out, response)?;
                put_short(out, b"en_US")?;
            }
            Self::TuneOk { channels, frame, heartbeat } => {
                out.put_u16(channels);
                out.put_u32(frame);
                out.put_u16(heartbeat);
            }
            Self::Open { vhost } => {
                put_short(out, vhost.as_bytes())?;
                // Two that are not used any more.
                out.put_u16(0);
            }
            Self::Close { code, text } => put_close(out, code, text)?,
            Self::CloseOk | Self::ChannelCloseOk => {}
            // Not used any more.
            Self::ChannelOpen => out.put_u8(0),
            Self::ChannelFlowOk { active } => out.put_u8(active.into()),
            Self::ChannelClose => put_close(out, 200, "")?,
            Self::Declare { queue, passive, durable, arguments } => {
                out.put_u16(0);
                put_short(out, queue.as_bytes())?;
                out.put_u8(bits(&[passive, durable]));
                put_long(out, arguments)?;
            }
            Self::Delete { queue } => {
                out.put_u16(0);
                put_short(out, queue.as_bytes())?;
                out.put_u8(0);
            }
            Self::Qos { prefetch } => {
                // No limit in bytes, which RabbitMQ does not have; for each consumer on its own.
                out.put_u32(0);
                out.put_u16(prefetch);
                out.put_u8(0);
            }
            Self::Consume { queue, tag, arguments } => {
                out.put_u16(0);
                put_short(out, queue.as_bytes())?;
                put_short(out, tag.as_bytes())?;
                // Acknowledged, not exclusive, answered.
                out.put_u8(0);
                put_long(out, arguments)?;
            }
            Self::Cancel { tag } => {
                put_short(out, tag.as_bytes())?;
                out.put_u8(0);
            }
            Self::CancelOk { tag } => put_short(out, tag)?,
            Self::Publish { exchange, routing_key, mandatory } => {
                out.put_u16(0);
                put_short(out, exchange.as_bytes())?;
                put_short(out, routing_key.as_bytes())?;
                out.put_u8(mandatory.into());
            }
            Self::Ack { tag, multiple } => {
                out.put_u64(tag);
                out.put_u8(multiple.into());
            }
            Self::Nack { tag, requeue } => {
                out.put_u64(tag);
                out.put_u8(bits(&[false, requeue]));
            }
            Self::Reject { tag, requeue } => {
                out.put_u64(tag);
                out.put_u8(requeue.into());
            }
            Self::Select => out.put_u8(0),
        }
        Some(())
    }

    /// Class and number (AMQP 0-9-1, 1.2 to 1.8; confirm and basic.nack are RabbitMQ's).
    const fn number(&self) -> (u16, u16) {
        match self {
            Self::StartOk { .. } => (CONNECTION, 11),
            Self::TuneOk { .. } => (CONNECTION, 31),
            Self::Open { .. } => (CONNECTION, 40),
            Self::Close { .. } => (CONNECTION, 50),
            Self::CloseOk => (CONNECTION, 51),
            Self::ChannelOpen => (CHANNEL, 10),
            Self::ChannelFlowOk { .. } => (CHANNEL, 21),
            Self::ChannelClose => (CHANNEL, 40),
            Self::ChannelCloseOk => (CHANNEL, 41),
            Self::Declare { .. } => (QUEUE, 10),
            Self::Delete { .. } => (QUEUE, 40),
            Self::Qos { .. } => (BASIC, 10),
            Self::Consume { .. } => (BASIC, 20),
            Self::Cancel { .. } => (BASIC, 30),
            Self::CancelOk { .. } => (BASIC, 31),
            Self::Publish { .. } => (BASIC, 40),
            Self::Ack { .. } => (BASIC, 80),
            Self::Reject { .. } => (BASIC, 90),
            Self::Nack { .. } => (BASIC, 120),
            Self::Select => (CONFIRM, 10),
        }
    }
}

/// Truth values share an octet, the first in its lowest bit.
fn bits(values: &[bool]) -> u8 {
    values.iter().rev().fold(0, |octet, value| octet << 1 | u8::from(*value))
}

fn put_close(out: &mut BytesMut, code: u16, text: &str) -> Option<()> {
    out.put_u16(code);
    put_short(out, text.as_bytes())?;
    // No method of the peer is to blame.
    out.put_u32(0);
    Some(())
}

fn put_short(out: &mut BytesMut, text: &[u8]) -> Option<()> {
    out.put_u8(u8::try_from(text.len()).ok()?);
    out.extend_from_slice(text);
    Some(())
}

fn put_long(out: &mut BytesMut, content: &[u8]) -> Option<()> {
    out.put_u32(u32::try_from(content.len()).ok()?);
    out.extend_from_slice(content);
    Some(())
}
