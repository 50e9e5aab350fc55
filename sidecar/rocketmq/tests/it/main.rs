//! The adapter against a scripted server in the same process.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test that can't go on must say so and fail"
)]

mod fake;
mod leases;
mod member;
mod membership;
mod positions;
mod reading;
mod settling;
