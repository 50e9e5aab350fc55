//! Every constant of the engine in one place. All are documented bounds; none is a setting.

use std::time::Duration;

/// No attempt starts and nothing is settled or committed so shortly before a lease ends (I9).
pub const LEASE_RESERVE: Duration = Duration::from_millis(500);

/// Finished deliveries of a `PerQueue` queue that the broker has not confirmed, at most: the duplicate bound of a crash.
pub const UNCONFIRMED_MOST: u64 = 32;

/// Distinct messages answered `Misconfigured` without a `Done` between, at which it opens.
pub const BREAKER_MESSAGES: usize = 3;

/// The wait before the first probe; it doubles with each.
pub const PROBE_FIRST: Duration = Duration::from_secs(1);

/// The longest wait between two probes.
pub const PROBE_LONGEST: Duration = Duration::from_secs(30);

/// So many finished deliveries are committed at once.
pub const COMMIT_COUNT: u64 = 16;

/// Or the oldest of them is so old, or the queue has nothing else to do: with many busy queues, 40 commits a second each
/// cost a tenth of what the deliveries cost, and a crash repeats what was finished in that time.
pub const COMMIT_AGE: Duration = Duration::from_millis(25);

/// A cursor that only passed filtered messages is committed so often at most.
pub const COMMIT_GAP: Duration = Duration::from_secs(1);

/// Heads whose attempts are remembered while they are in no lane, at most.
pub const SPENT_MOST: usize = 65_536;

/// A fetch never asks for more.
pub const FETCH_MOST: u32 = 1_024;

/// A fetch that brings nothing sooner than this is suspect: a source waits by itself.
pub const FUTILE_WITHIN: Duration = Duration::from_millis(50);

/// So many suspect fetches in a row are asked again at once; after that the wait doubles from 10 ms.
pub const FUTILE_MOST: u32 = 3;

/// The first wait after them.
pub const FUTILE_FIRST: Duration = Duration::from_millis(10);

/// The longest.
pub const FUTILE_LONGEST: Duration = Duration::from_secs(1);

/// Health must be stable so long before the group is joined again after a hand-over; it doubles with each hand-over.
pub const REJOIN_FIRST: Duration = Duration::from_secs(5);

/// The longest such wait.
pub const REJOIN_LONGEST: Duration = Duration::from_secs(300);

/// After so much unbroken health earlier hand-overs are forgotten.
pub const CALM: Duration = Duration::from_secs(600);

/// A running attempt is cancelled so long before its lease ends unrenewed (I9).
pub const CANCEL_LEAD: Duration = Duration::from_millis(100);

/// Heads are looked at for their age at least so far apart.
pub const AGE_STEP: Duration = Duration::from_secs(1);

/// A snooze that names no time, or a shorter one, lasts so long.
pub const SNOOZE_LEAST: Duration = Duration::from_millis(100);

/// So many times `retry_after_max` is a message's total snooze; after that attempts are spent.
pub const SNOOZE_CAPS: u32 = 10;

/// The wait before a failed commit, settlement or fetch is repeated; it doubles with each failure in a row.
pub const REPEAT_FIRST: Duration = Duration::from_millis(100);

/// The longest such wait.
pub const REPEAT_LONGEST: Duration = Duration::from_secs(5);

/// The wait after a failure that only a person can cure.
pub const REPEAT_PERMANENT: Duration = Duration::from_secs(30);

/// So many are kept; the oldest is forgotten first.
pub const KNOWN_MOST: usize = 4_096;
