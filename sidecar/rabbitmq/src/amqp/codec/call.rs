use bytes::{BufMut, BytesMut};

use super::{
    frame::{Kind, frame},
    method::{BASIC, CHANNEL, CONFIRM, CONNECTION, QUEUE},
};

/// What a client sends first: the protocol's name and version (AMQP 0-9-1, 4.2.2).
pub(in crate::amqp) const PROTOCOL_HEADER: &[u8; 8] = b"AMQP\x00\x00\x09\x01";

/// The reply code of a close that nothing is wrong with.
const SUCCESS: u16 = 200;

/// A method that we send on channel 0.
#[derive(Debug, Clone, Copy)]
pub(in crate::amqp) enum ConnectionCall<'a> {
    StartOk { properties: &'a [u8], mechanism: &'a str, response: &'a [u8] },
    TuneOk { channels: u16, frame: u32, heartbeat: u16 },
    Open { vhost: &'a str },
    Close,
    CloseOk,
}

impl ConnectionCall<'_> {
    /// Appends the method's frame; `None`, and nothing appended, when a text is longer than the protocol can say.
    pub(in crate::amqp) fn write(&self, out: &mut BytesMut) -> Option<()> {
        method_frame(0, out, |out| self.payload(out))
    }

    fn payload(&self, out: &mut BytesMut) -> Option<()> {
        out.put_u16(CONNECTION);
        out.put_u16(match self {
            Self::StartOk { .. } => 11,
            Self::TuneOk { .. } => 31,
            Self::Open { .. } => 40,
            Self::Close => 50,
            Self::CloseOk => 51,
        });
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
            Self::Close => put_close(out),
            Self::CloseOk => {}
        }
        Some(())
    }
}

/// A method that we send on a channel.
#[derive(Debug, Clone, Copy)]
pub(in crate::amqp) enum Call<'a> {
    Open,
    FlowOk { active: bool },
    Close,
    CloseOk,
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
        method_frame(channel, out, |out| {
            let (class, method) = self.number();
            out.put_u16(class);
            out.put_u16(method);
            self.arguments(out)
        })
    }

    fn arguments(&self, out: &mut BytesMut) -> Option<()> {
        match *self {
            // Not used any more.
            Self::Open => out.put_u8(0),
            Self::FlowOk { active } => out.put_u8(active.into()),
            Self::Close => put_close(out),
            Self::CloseOk => {}
            Self::Declare { queue, passive, durable, arguments } => {
                put_queue(out, queue)?;
                out.put_u8(bits(&[passive, durable]));
                put_long(out, arguments)?;
            }
            Self::Delete { queue } => {
                put_queue(out, queue)?;
                // Whether it is used or empty or not.
                out.put_u8(0);
            }
            Self::Qos { prefetch } => {
                // No limit in bytes, which RabbitMQ does not have; for each consumer on its own.
                out.put_u32(0);
                out.put_u16(prefetch);
                out.put_u8(0);
            }
            Self::Consume { queue, tag, arguments } => {
                put_queue(out, queue)?;
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
            Self::Ack { tag, multiple } => put_settlement(out, tag, multiple.into()),
            Self::Nack { tag, requeue } => put_settlement(out, tag, bits(&[false, requeue])),
            Self::Reject { tag, requeue } => put_settlement(out, tag, requeue.into()),
            Self::Select => out.put_u8(0),
        }
        Some(())
    }

    /// Class and number (AMQP 0-9-1, 1.2 to 1.8; confirm and basic.nack are RabbitMQ's).
    const fn number(&self) -> (u16, u16) {
        match self {
            Self::Open => (CHANNEL, 10),
            Self::FlowOk { .. } => (CHANNEL, 21),
            Self::Close => (CHANNEL, 40),
            Self::CloseOk => (CHANNEL, 41),
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

fn method_frame(
    channel: u16,
    out: &mut BytesMut,
    payload: impl FnOnce(&mut BytesMut) -> Option<()>,
) -> Option<()> {
    let start = out.len();
    let mut whole = None;
    frame(out, Kind::Method, channel, |out| whole = payload(out));
    if whole.is_none() {
        out.truncate(start);
    }
    whole
}

/// Truth values share an octet, the first in its lowest bit.
fn bits(values: &[bool]) -> u8 {
    values.iter().rev().fold(0, |octet, value| octet << 1 | u8::from(*value))
}

/// No method of the peer is to blame.
fn put_close(out: &mut BytesMut) {
    out.put_u16(SUCCESS);
    out.put_u8(0);
    out.put_u32(0);
}

fn put_settlement(out: &mut BytesMut, tag: u64, bits: u8) {
    out.put_u64(tag);
    out.put_u8(bits);
}

/// A queue's name, behind a number that is not used any more.
fn put_queue(out: &mut BytesMut, queue: &str) -> Option<()> {
    out.put_u16(0);
    put_short(out, queue.as_bytes())
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
