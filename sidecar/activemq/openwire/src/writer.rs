use bytes::{BufMut, BytesMut};

use crate::{EncodeError, Text};

/// Appends fields to a frame.
#[derive(Debug)]
pub(crate) struct Writer<'a>(pub(crate) &'a mut BytesMut);

impl Writer<'_> {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.put_u8(value);
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.0.put_u8(value.into());
    }

    pub(crate) fn i16(&mut self, value: i16) {
        self.0.put_i16(value);
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.0.put_i32(value);
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.0.put_i64(value);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Bytes behind their length of four bytes.
    pub(crate) fn long(&mut self, bytes: &[u8], what: &'static str) -> Result<(), EncodeError> {
        let length = bytes.len();
        self.i32(i32::try_from(length).map_err(|_| EncodeError { what, length })?);
        self.raw(bytes);
        Ok(())
    }

    /// A text behind its length of two bytes.
    pub(crate) fn text(&mut self, text: &Text, what: &'static str) -> Result<(), EncodeError> {
        let length = text.bytes().len();
        self.0.put_u16(u16::try_from(length).map_err(|_| EncodeError { what, length })?);
        self.raw(text.bytes());
        Ok(())
    }
}
