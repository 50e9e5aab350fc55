use bytes::{Buf, Bytes, BytesMut};

use super::{ClientError, wire::broken};

/// The size in front of a frame, which does not count itself.
const PREFIX: usize = 4;

/// What is kept of the start of a frame that is too long: more than what says which message it is takes.
const START: usize = 64 * 1024;

/// What is kept of its end: the count of redeliveries is the last field of a dispatch.
const TAIL: usize = 4;

/// One frame, without its size.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// As it came.
    Whole(Bytes),
    /// One that was too long, read and dropped.
    Long(LongFrame),
}

/// What is left of a frame that was too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LongFrame {
    /// Of the frame, in bytes.
    pub(super) size: u64,
    /// Its start.
    pub(super) start: Bytes,
    /// Its last bytes.
    pub(super) tail: [u8; TAIL],
}

/// A frame that is being dropped.
#[derive(Debug)]
struct Dropping {
    size: u64,
    start: Bytes,
    /// Bytes that are still to come, the last ones included.
    rest: usize,
}

/// Takes frames off a buffer.
#[derive(Debug)]
pub(super) struct FrameReader {
    most: usize,
    /// Whether a longer frame ends the connection rather than being dropped.
    strict: bool,
    dropping: Option<Dropping>,
}

impl FrameReader {
    /// Drops what is longer than `most` bytes.
    pub(super) fn new(most: u32) -> Self {
        Self { most: usize::try_from(most).unwrap_or(usize::MAX), strict: false, dropping: None }
    }

    /// For a peer that may be anything: what is longer than `most` bytes is no frame.
    pub(super) fn strict(most: u32) -> Self {
        Self { strict: true, ..Self::new(most) }
    }

    /// How many more bytes are needed to go on, when that is known.
    pub(super) fn missing(&self, buffer: &[u8]) -> usize {
        if let Some(dropping) = &self.dropping {
            return dropping.rest.saturating_sub(buffer.len());
        }
        let size = buffer.first_chunk().copied().map_or(0, u32::from_be_bytes);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let needed = if size > self.most { START } else { size };
        (PREFIX + needed).saturating_sub(buffer.len())
    }

    /// Takes one frame off the front of `buffer` without copying it; `None` until it is there.
    ///
    /// # Errors
    /// What comes is no frame.
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, ClientError> {
        if self.dropping.is_some() {
            return Ok(self.drop_rest(buffer));
        }
        let Some(prefix) = buffer.first_chunk().copied() else { return Ok(None) };
        let size = usize::try_from(i32::from_be_bytes(prefix)).unwrap_or(0);
        if size == 0 {
            return Err(broken("a frame without content"));
        }
        if size <= self.most {
            if buffer.len() < PREFIX + size {
                return Ok(None);
            }
            buffer.advance(PREFIX);
            return Ok(Some(Frame::Whole(buffer.split_to(size).freeze())));
        }
        if self.strict {
            return Err(broken("a frame that is too long for what was expected"));
        }
        let kept = START.min(size.saturating_sub(TAIL));
        if buffer.len() < PREFIX + kept {
            return Ok(None);
        }
        buffer.advance(PREFIX);
        let start = buffer.split_to(kept).freeze();
        self.dropping = Some(Dropping { size: size as u64, start, rest: size - kept });
        Ok(self.drop_rest(buffer))
    }

    fn drop_rest(&mut self, buffer: &mut BytesMut) -> Option<Frame> {
        let dropping = self.dropping.as_mut()?;
        let dropped = buffer.len().min(dropping.rest.saturating_sub(TAIL));
        buffer.advance(dropped);
        dropping.rest -= dropped;
        let tail = buffer.get(..dropping.rest).map(|tail| {
            let mut last = [0; TAIL];
            last.iter_mut().rev().zip(tail.iter().rev()).for_each(|(to, from)| *to = *from);
            last
        })?;
        let Dropping { size, start, rest } = self.dropping.take()?;
        buffer.advance(rest);
        Some(Frame::Long(LongFrame { size, start, tail }))
    }
}
