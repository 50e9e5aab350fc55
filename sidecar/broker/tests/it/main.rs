//! The conformance suite on the broker in memory, as it is and made unreliable.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and names only the events that it is about"
)]

mod memory;
mod unreliable;
