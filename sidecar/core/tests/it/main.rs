//! The engine's tests: readable scripts on virtual time, switches that break invariants, and random inputs.

#![allow(
    clippy::wildcard_enum_match_arm,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test names what it looks for and fails on anything else"
)]

mod failures;
mod flow;
mod hot;
mod http;
mod leaving;
mod random;
mod sabotage;
mod world;
