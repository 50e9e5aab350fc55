//! What faults may cost, from how many messages a queue has out.

/// Within this consumption resumes after a fault, in microseconds.
pub const RESUME: u64 = 10_000_000;

/// The duplicates that a crash or a lost connection may cost in a queue with `PerQueue` and `mode: Pull`: what is out.
pub const CRASH_BOUND: u64 = 1;
/// The same for the crash of a broker, which forgets acknowledgements that it had only read.
pub const BROKER_BOUND: u64 = 2 * CRASH_BOUND;
