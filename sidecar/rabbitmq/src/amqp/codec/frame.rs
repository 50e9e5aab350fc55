use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::Malformed;

/// Type, channel and size in front of a frame's payload (AMQP 0-9-1, 4.2.3).
const HEAD: usize = 7;

/// The last byte of each frame.
const END: u8 = 0xCE;

/// What a frame has beside its payload; the agreed maximum counts it.
pub(in crate::amqp) const OVERHEAD: u32 = 8;

/// The smallest maximum that may be agreed on (AMQP 0-9-1, 4.2.3).
pub(in crate::amqp) const FRAME_LEAST: u32 = 4096;

/// The longest header frame that is read. Brokers send one as large as the publisher made it and add to it with each
/// dead-lettering, whatever maximum was agreed on.
pub(in crate::amqp) const HEADER_MOST: u32 = 1024 * 1024;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::amqp) enum Kind {
    Method,
    Header,
    Body,
    Heartbeat,
}

impl Kind {
    const fn number(self) -> u8 {
        match self {
            Self::Method => 1,
            Self::Header => 2,
            Self::Body => 3,
            Self::Heartbeat => 8,
        }
    }
}

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::amqp) enum Frame {
    /// As it came.
    Whole { kind: Kind, channel: u16, payload: Bytes },
    /// The start of a header frame that is longer than [`HEADER_MOST`]: its class, weight and body size. What follows
    /// of it is read and dropped.
    LongHeader { channel: u16, start: Bytes, size: u32 },
}

/// Takes frames off a buffer.
#[derive(Debug)]
pub(in crate::amqp) struct FrameReader {
    /// The agreed maximum, overhead included.
    most: u32,
    /// Bytes of a long header frame that are still to be dropped, its end included.
    dropping: usize,
}

impl FrameReader {
    /// `most` is the agreed maximum of a frame, overhead included.
    pub(in crate::amqp) const fn new(most: u32) -> Self {
        Self { most, dropping: 0 }
    }

    /// How many more bytes complete the frame at the front of `buffer`, when its size is known.
    pub(in crate::amqp) fn missing(&self, buffer: &[u8]) -> usize {
        let size = buffer.get(3..HEAD).and_then(|size| size.first_chunk()).copied().map(u32::from_be_bytes);
        size.filter(|size| *size <= self.most.max(HEADER_MOST))
            .map_or(0, |size| (HEAD + 1 + size as usize).saturating_sub(buffer.len()))
    }

    /// Takes one frame off the front of `buffer` without copying its payload; `None` until it is there.
    ///
    /// # Errors
    /// The connection can't be used any more.
    pub(in crate::amqp) fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, Malformed> {
        if self.dropping > 1 {
            let dropped = buffer.len().min(self.dropping - 1);
            buffer.advance(dropped);
            self.dropping -= dropped;
        }
        if self.dropping > 0 {
            if self.dropping > 1 || buffer.is_empty() {
                return Ok(None);
            }
            check_end(buffer.get_u8())?;
            self.dropping = 0;
        }
        let mut head: &[u8] = buffer;
        let (Ok(kind), Ok(channel), Ok(size)) = (head.try_get_u8(), head.try_get_u16(), head.try_get_u32())
        else {
            // A peer that speaks something else shows it in its first byte.
            return buffer.first().map_or(Ok(None), |kind| self.kind(*kind).map(|_| None));
        };
        let kind = self.kind(kind)?;
        let most = self.most.saturating_sub(OVERHEAD);
        if size > most && kind != Kind::Header {
            return Err(Malformed::FrameSize { size, most: self.most });
        }
        let length = size as usize;
        if kind == Kind::Header && size > HEADER_MOST.max(most) {
            const START: usize = 12;
            if buffer.len() < HEAD + START {
                return Ok(None);
            }
            buffer.advance(HEAD);
            let start = buffer.split_to(START).freeze();
            self.dropping = length - START + 1;
            return Ok(Some(Frame::LongHeader { channel, start, size }));
        }
        if buffer.len() < HEAD + length + 1 {
            return Ok(None);
        }
        buffer.advance(HEAD);
        let payload = buffer.split_to(length).freeze();
        check_end(buffer.get_u8())?;
        Ok(Some(Frame::Whole { kind, channel, payload }))
    }

    fn kind(&self, number: u8) -> Result<Kind, Malformed> {
        match number {
            1 => Ok(Kind::Method),
            2 => Ok(Kind::Header),
            3 => Ok(Kind::Body),
            8 => Ok(Kind::Heartbeat),
            // "AMQP", the header of the versions that the peer does speak.
            b'A' => Err(Malformed::Protocol),
            other => Err(Malformed::FrameType(other)),
        }
    }
}

fn check_end(end: u8) -> Result<(), Malformed> {
    if end == END { Ok(()) } else { Err(Malformed::FrameEnd(end)) }
}

/// Appends a frame whose payload is written by `payload`.
pub(in crate::amqp) fn frame(
    out: &mut BytesMut,
    kind: Kind,
    channel: u16,
    payload: impl FnOnce(&mut BytesMut),
) {
    let start = out.len();
    out.put_u8(kind.number());
    out.put_u16(channel);
    out.put_u32(0);
    payload(out);
    // Callers keep payloads below the agreed maximum, which is a u32.
    let size = u32::try_from(out.len() - start - HEAD).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start + 3..start + HEAD) {
        place.copy_from_slice(&size.to_be_bytes());
    }
    out.put_u8(END);
}

/// What goes before and after a payload that is written elsewhere.
pub(in crate::amqp) fn frame_ends(kind: Kind, channel: u16, size: u32) -> ([u8; HEAD], u8) {
    let [high, low] = channel.to_be_bytes();
    let [a, b, c, d] = size.to_be_bytes();
    ([kind.number(), high, low, a, b, c, d], END)
}
