use bytes::{Buf, Bytes};

/// Big-endian reads that answer `None` when too few bytes are left, and then take none.
pub(super) trait Take {
    fn take_u8(&mut self) -> Option<u8>;
    fn take_u16(&mut self) -> Option<u16>;
    fn take_i16(&mut self) -> Option<i16>;
    fn take_u32(&mut self) -> Option<u32>;
    fn take_i32(&mut self) -> Option<i32>;
    fn take_i64(&mut self) -> Option<i64>;
    /// That many bytes, as a slice of the same buffer.
    fn take_bytes(&mut self, count: usize) -> Option<Bytes>;
}

impl Take for Bytes {
    fn take_u8(&mut self) -> Option<u8> {
        self.try_get_u8().ok()
    }

    fn take_u16(&mut self) -> Option<u16> {
        self.try_get_u16().ok()
    }

    fn take_i16(&mut self) -> Option<i16> {
        self.try_get_i16().ok()
    }

    fn take_u32(&mut self) -> Option<u32> {
        self.try_get_u32().ok()
    }

    fn take_i32(&mut self) -> Option<i32> {
        self.try_get_i32().ok()
    }

    fn take_i64(&mut self) -> Option<i64> {
        self.try_get_i64().ok()
    }

    fn take_bytes(&mut self, count: usize) -> Option<Bytes> {
        (count <= self.len()).then(|| self.split_to(count))
    }
}
