//! Waiting for conditions, and the one clock of a history.

use std::{
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(5);

/// Microseconds since 1970: the clock of histories, the same for all processes of the machine.
pub fn now_micros() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros())
        .unwrap_or(u64::MAX)
}

/// Waits until `condition` holds.
///
/// # Panics
/// When it does not within `limit`; `what` says what was waited for.
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, limit, || condition().then_some(()));
}

/// Waits until `probe` gives a value.
///
/// # Panics
/// When it does not within `limit`; `what` says what was waited for.
pub fn wait_for<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain until {what}");
        pause(POLL);
    }
}

/// Waits between two looks at something that is expensive to look at.
pub fn pause(duration: Duration) {
    thread::sleep(duration);
}
