use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use super::codec::{Kind, frame_ends};

/// Bodies up to this size are copied behind their header; larger ones are written from where they are.
const COPIED: usize = 16 * 1024;

/// All that goes out on a connection, in the order in which it was asked.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// What comes before the tail.
    parts: VecDeque<Bytes>,
    /// Where frames are appended.
    tail: BytesMut,
    /// Of the parts.
    length: usize,
}

impl Outbox {
    /// Bytes that wait to be written.
    pub(super) fn len(&self) -> usize {
        self.length + self.tail.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where frames are appended.
    pub(super) fn tail(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    /// Appends a body in frames whose payload is at most `most` bytes.
    pub(super) fn body(&mut self, channel: u16, body: &Bytes, most: usize) {
        let mut rest = body.clone();
        while !rest.is_empty() {
            let payload = rest.split_to(rest.len().min(most));
            // A maximum is a u32.
            let size = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            let (head, end) = frame_ends(Kind::Body, channel, size);
            self.tail.extend_from_slice(&head);
            if payload.len() <= COPIED {
                self.tail.extend_from_slice(&payload);
            } else {
                let before = self.tail.split().freeze();
                self.length += before.len() + payload.len();
                self.parts.extend([before, payload]);
            }
            self.tail.extend_from_slice(&[end]);
        }
    }

    /// What is to be written next; empty when nothing is.
    pub(super) fn front(&self) -> &[u8] {
        self.parts.front().map_or(&self.tail, |part| part)
    }

    /// Drops what was written of [`Outbox::front`].
    pub(super) fn written(&mut self, count: usize) {
        let Some(part) = self.parts.front_mut() else {
            self.tail.advance(count.min(self.tail.len()));
            return;
        };
        let count = count.min(part.len());
        part.advance(count);
        self.length -= count;
        if part.is_empty() {
            self.parts.pop_front();
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
