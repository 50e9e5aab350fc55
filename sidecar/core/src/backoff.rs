//! How long to wait: full jitter between nothing and a growing ceiling, from a seed.

use std::time::Duration;

use crate::Backoff;

/// A small deterministic generator (splitmix64): jitter needs no more.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Anything from nothing to `ceiling`.
    pub(crate) fn full(&mut self, ceiling: Duration) -> Duration {
        let nanos = u64::try_from(ceiling.as_nanos()).unwrap_or(u64::MAX);
        // The high half of the product is uniform in 0..=nanos without a division.
        let product = u128::from(self.next()) * (u128::from(nanos) + 1);
        Duration::from_nanos(u64::try_from(product >> 64).unwrap_or(nanos))
    }

    /// Anything from half of `ceiling` to `ceiling`, for waits that must not be empty.
    pub(crate) fn half(&mut self, ceiling: Duration) -> Duration {
        let half = ceiling / 2;
        half + self.full(half)
    }
}

impl Backoff {
    /// The most a wait may be after so many tries.
    pub(crate) fn ceiling(self, tries: u32) -> Duration {
        match self {
            Self::Exponential { initial, max } => doubled(initial, tries.saturating_sub(1), max),
            Self::Constant { initial, max: _ } => initial,
        }
    }

    /// Where `Block` tries on.
    pub(crate) fn longest(self) -> Duration {
        match self {
            Self::Exponential { initial: _, max } | Self::Constant { initial: _, max } => max,
        }
    }
}

/// `initial` doubled `times` over, at most `max`.
pub(crate) fn doubled(initial: Duration, times: u32, max: Duration) -> Duration {
    initial.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(max)
}
