use std::time::Duration;

use tokio::time::Instant;

use super::BackoffCause;

/// First wait after a failed connect.
const FIRST: Duration = Duration::from_millis(100);
/// Longest wait: a broker that came back is used within this time.
const LONGEST: Duration = Duration::from_secs(3);

/// Waits between connects to one address, doubling and jittered so that the members of a group do not come at once.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    until: Option<(Instant, BackoffCause)>,
}

impl Backoff {
    /// How long nothing is tried, and why.
    pub(super) fn remaining(&self, now: Instant) -> Option<(Duration, BackoffCause)> {
        let (until, cause) = self.until.as_ref()?;
        let left = until.checked_duration_since(now).filter(|left| !left.is_zero())?;
        Some((left, cause.clone()))
    }

    /// Whether nothing failed since the last success.
    pub(super) fn is_first(&self) -> bool {
        self.failures == 0
    }

    /// A connect failed, or its connection was of no use. `jitter` is any number.
    pub(super) fn failed(&mut self, now: Instant, cause: BackoffCause, jitter: u16) {
        let full = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        let share = full / 2 * u32::from(jitter) / u32::from(u16::MAX);
        self.failures = self.failures.saturating_add(1);
        self.until = Some((now + full / 2 + share, cause));
    }

    /// A connection was of use.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Backoff, LONGEST};
    use crate::remoting::{ConnectError, Lost};

    #[test]
    fn waits_double_up_to_the_longest_and_end_with_success() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        let mut waits = Vec::new();
        for _ in 0..8 {
            backoff.failed(now, ConnectError::Address.into(), u16::MAX);
            waits.push(backoff.remaining(now).unwrap().0);
        }
        let millis = [100, 200, 400, 800, 1600, 3000, 3000, 3000];
        assert_eq!(waits, millis.map(Duration::from_millis));
        backoff.succeeded();
        assert!(backoff.remaining(now).is_none());
    }

    #[test]
    fn jitter_takes_off_half_at_most_and_the_wait_passes() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        for _ in 0..40 {
            backoff.failed(now, Lost::Closed.into(), 0);
        }
        assert_eq!(backoff.remaining(now).unwrap().0, LONGEST / 2);
        assert!(backoff.remaining(now + LONGEST / 2).is_none());
    }
}
