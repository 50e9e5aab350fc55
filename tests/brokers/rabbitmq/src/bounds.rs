//! What faults may cost, from what docs/rabbitmq.md says of the prefetch.

/// Within this consumption resumes after a fault, in microseconds.
pub const RESUME: u64 = 10_000_000;

/// What a queue with `PerQueue` has unsettled at most.
const PER_QUEUE: u64 = 31;
/// What any other has, where it has enough of the buffer.
const OTHERWISE: u64 = 200;
/// So many are worked off one after the other in half of the acknowledgement timeout, each taking `delivery.timeoutSeconds`:
/// by the defaults of both.
const WORKED_OFF: u64 = 1_800 / 2 / 30;

/// The duplicates that a crash or a lost connection may cost in a queue with `PerQueue`: what is unsettled.
pub const CRASH_BOUND: u64 = least(PER_QUEUE, WORKED_OFF);
/// The same with `PerKey`.
pub const CRASH_BOUND_PER_KEY: u64 = least(OTHERWISE, WORKED_OFF);
/// The same for the crash of a broker, which forgets acknowledgements that it had only read.
pub const BROKER_BOUND: u64 = 2 * CRASH_BOUND;
/// The same for the crash of a broker, with `PerKey`.
pub const BROKER_BOUND_PER_KEY: u64 = 2 * CRASH_BOUND_PER_KEY;

const fn least(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}
