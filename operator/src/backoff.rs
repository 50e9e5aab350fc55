//! How long a group waits after a failure.

use std::time::Duration;

/// The wait after a first failure. Conflicts and single lost answers are over by then.
pub const FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
pub const LONGEST: Duration = Duration::from_secs(60);

/// The wait after `failures` in a row (at least 1): doubled each time, and between half and all of that by `dice`, so that
/// groups that failed together are not tried together.
pub fn delay(failures: u32, dice: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(7);
    let full = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    let half = full / 2;
    half + half.mul_f64(f64::from(dice) / f64::from(u32::MAX))
}

/// A number for [`delay`]; without the system's randomness a fixed one, which only costs the spread.
pub fn dice() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_half_a_second_to_a_minute() {
        let longest: Vec<u128> = (0..10).map(|failures| delay(failures, u32::MAX).as_millis()).collect();
        assert_eq!(longest, [500, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(delay(u32::MAX, u32::MAX), LONGEST);
    }

    #[test]
    fn a_wait_is_at_least_half_of_its_longest() {
        for failures in 1..12 {
            assert_eq!(delay(failures, 0) * 2, delay(failures, u32::MAX));
            assert!(delay(failures, 12_345_678) >= delay(failures, 0));
        }
    }
}
