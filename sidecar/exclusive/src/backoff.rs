//! When the next try to connect is due.

use std::time::Duration;

use lockstep_model::Moment;

use crate::Pace;

/// A connection that stood so long was a good one: the next failure is the first.
const HEALTHY: Duration = Duration::from_secs(60);
/// Waits at most so long after a failure that may be over in a moment: after the first, and after the last of many.
const QUICK: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Waits at most so long after a refusal. The first ones may be those of a broker that is about to start or to end.
const REFUSED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What went wrong since all was well.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    refusals: u32,
    up_since: Option<Moment>,
}

impl Backoff {
    /// There is a connection. Whether it is a good one is seen later: a broker may accept and drop.
    pub(super) fn connected(&mut self, now: Moment) {
        self.up_since = Some(now);
        self.refusals = 0;
    }

    /// The connection is lost, or there was none to be had: when to try again. `jitter` is any number.
    pub(super) fn failed(&mut self, pace: Pace, now: Moment, jitter: u16) -> Moment {
        if self.up_since.take().is_some_and(|since| now.since(since) >= HEALTHY) {
            self.failures = 0;
        }
        let share = |full: Duration| full * u32::from(jitter) / u32::from(u16::MAX);
        now + match pace {
            Pace::Quick | Pace::Reconnect => {
                let full = QUICK.0.saturating_mul(1 << self.failures.min(10)).min(QUICK.1);
                self.failures = self.failures.saturating_add(1);
                // Full jitter: the members of a group lose a broker at the same moment.
                share(full)
            }
            Pace::Slow => {
                let full = REFUSED.0.saturating_mul(4_u32.saturating_pow(self.refusals)).min(REFUSED.1);
                self.refusals = self.refusals.saturating_add(1);
                full / 2 + share(full / 2)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest waits, in milliseconds, when a failure of that pace follows the other at once.
    fn waits(backoff: &mut Backoff, pace: Pace, count: usize) -> Vec<u64> {
        let wait = |_| backoff.failed(pace, Moment::ZERO, u16::MAX).as_nanos() / 1_000_000;
        (0..count).map(wait).collect()
    }

    #[test]
    fn failures_are_quick_at_first_and_each_member_waits_for_another_time() {
        assert_eq!(waits(&mut Backoff::default(), Pace::Quick, 7), [200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(Backoff::default().failed(Pace::Quick, Moment::ZERO, 0), Moment::ZERO);
    }

    #[test]
    fn refusals_are_soon_some_seconds_apart_whatever_the_jitter() {
        let mut backoff = Backoff::default();
        assert_eq!(waits(&mut backoff, Pace::Slow, 5), [1000, 4000, 16_000, 30_000, 30_000]);
        assert_eq!(backoff.failed(Pace::Slow, Moment::ZERO, 0), Moment::from_millis(15_000));
        // They have a count of their own: what came before makes them no slower, and they nothing else.
        assert_eq!(waits(&mut backoff, Pace::Quick, 1), [200]);
        assert_eq!(waits(&mut backoff, Pace::Slow, 1), [30_000]);
        backoff.connected(Moment::ZERO);
        assert_eq!(waits(&mut backoff, Pace::Slow, 1), [1000]);
    }

    #[test]
    fn a_broker_that_accepts_and_drops_is_not_hammered() {
        let mut backoff = Backoff::default();
        let mut now = Moment::ZERO;
        let mut wait = |stood: u64| {
            backoff.connected(now);
            now += Duration::from_secs(stood);
            let next = backoff.failed(Pace::Quick, now, u16::MAX);
            let wait = next.since(now).as_millis();
            now = next;
            wait
        };
        let waited: Vec<_> = [0, 1, 10, 30, 59, 59, 0].map(&mut wait).into();
        assert_eq!(waited, [200, 400, 800, 1600, 3200, 5000, 5000]);
        // One that was good for a minute is made again at once.
        assert_eq!([60, 0].map(wait), [200, 400]);
    }
}
