use bytes::{Buf, Bytes};

use crate::{DecodeError, Text};

type Result<T> = std::result::Result<T, DecodeError>;

/// Takes fields off the front of a frame. What it gives are slices of it.
#[derive(Debug)]
pub(crate) struct Reader(Bytes);

impl Reader {
    pub(crate) const fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8> {
        self.0.try_get_u8().map_err(|_| DecodeError::Truncated(what))
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16> {
        self.0.try_get_u16().map_err(|_| DecodeError::Truncated(what))
    }

    pub(crate) fn i32(&mut self, what: &'static str) -> Result<i32> {
        self.0.try_get_i32().map_err(|_| DecodeError::Truncated(what))
    }

    pub(crate) fn i64(&mut self, what: &'static str) -> Result<i64> {
        self.0.try_get_i64().map_err(|_| DecodeError::Truncated(what))
    }

    /// Any byte but 0 is true, as Java reads it.
    pub(crate) fn bool(&mut self, what: &'static str) -> Result<bool> {
        Ok(self.u8(what)? != 0)
    }

    pub(crate) fn take(&mut self, length: usize, what: &'static str) -> Result<Bytes> {
        if length > self.left() {
            return Err(DecodeError::Truncated(what));
        }
        Ok(self.0.split_to(length))
    }

    /// Bytes behind their length of four bytes.
    pub(crate) fn long(&mut self, what: &'static str) -> Result<Bytes> {
        let length = self.i32(what)?;
        let bytes = usize::try_from(length).map_err(|_| DecodeError::Length { what, length })?;
        self.take(bytes, what)
    }

    /// A text behind its length of two bytes.
    pub(crate) fn text(&mut self, what: &'static str) -> Result<Text> {
        let length = self.u16(what)?;
        Ok(Text::raw(self.take(length.into(), what)?))
    }
}
