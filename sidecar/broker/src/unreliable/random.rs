use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{Fate, PerMille, Unreliability};

/// The longest delay of one side of a call, so that both sides end within a settling call's own timeout of 5 s.
const DELAY_MAX: Duration = Duration::from_secs(2);

/// SplitMix64: a sequence that is the same for a seed on every machine.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below the bound; zero for the bound zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    pub(super) fn happens(&mut self, probability: PerMille) -> bool {
        self.below(1_000) < u64::from(probability.0)
    }

    /// A time up to the bound.
    pub(super) fn up_to(&mut self, bound: Duration) -> Duration {
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.below(nanos.saturating_add(1)))
    }

    pub(super) fn fate(&mut self, unreliability: Unreliability) -> Fate {
        let delay = unreliability.delay.min(DELAY_MAX);
        Fate {
            happens: !self.happens(unreliability.not_done),
            answered: !self.happens(unreliability.answer_lost),
            before: self.up_to(delay),
            after: self.up_to(delay),
        }
    }
}

/// One sequence for all copies of a half.
#[derive(Debug, Clone)]
pub(super) struct SharedRandom(Arc<Mutex<Random>>);

impl SharedRandom {
    pub(super) fn new(random: Random) -> Self {
        Self(Arc::new(Mutex::new(random)))
    }

    pub(super) fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
