use bytes::{Buf, Bytes};

/// Big-endian reads that answer `None` when too few bytes are left, and then take none.
pub(super) trait Take {
    fn take_u8(&mut self) -> Option<u8>;
    fn take_u16(&mut self) -> Option<u16>;
    fn take_u32(&mut self) -> Option<u32>;
    fn take_u64(&mut self) -> Option<u64>;
    /// That many bytes, as a slice of the same buffer.
    fn take_bytes(&mut self, count: usize) -> Option<Bytes>;
    /// A string with a length of one byte.
    fn take_short(&mut self) -> Option<Bytes>;
    /// A string or table with a length of four bytes.
    fn take_long(&mut self) -> Option<Bytes>;
}

impl Take for Bytes {
    fn take_u8(&mut self) -> Option<u8> {
        self.try_get_u8().ok()
    }

    fn take_u16(&mut self) -> Option<u16> {
        self.try_get_u16().ok()
    }

    fn take_u32(&mut self) -> Option<u32> {
        self.try_get_u32().ok()
    }

    fn take_u64(&mut self) -> Option<u64> {
        self.try_get_u64().ok()
    }

    fn take_bytes(&mut self, count: usize) -> Option<Bytes> {
        (count <= self.len()).then(|| self.split_to(count))
    }

    fn take_short(&mut self) -> Option<Bytes> {
        let length = usize::from(*self.first()?);
        let mut text = self.take_bytes(1 + length)?;
        text.advance(1);
        Some(text)
    }

    fn take_long(&mut self) -> Option<Bytes> {
        let length = u32::from_be_bytes(*self.first_chunk()?) as usize;
        let mut content = self.take_bytes(length.checked_add(4)?)?;
        content.advance(4);
        Some(content)
    }
}
