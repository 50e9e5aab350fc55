//! The adaptive limit of concurrent attempts.

/// Starts at 1, doubles per success, halves on overload, never above `max`.
#[derive(Debug)]
pub(crate) struct Limit {
    now: u32,
    max: u32,
}

impl Limit {
    pub(crate) fn new(max: u32) -> Self {
        Self { now: 1, max: max.max(1) }
    }

    pub(crate) fn get(&self) -> u32 {
        self.now
    }

    pub(crate) fn set_max(&mut self, max: u32) {
        self.max = max.max(1);
        self.now = self.now.min(self.max);
    }

    pub(crate) fn success(&mut self) {
        self.now = self.now.saturating_mul(2).min(self.max);
    }

    pub(crate) fn overload(&mut self) {
        self.now = (self.now / 2).max(1);
    }
}
