//! The engine's tests: readable scripts on virtual time, switches that break invariants, and random inputs.

mod failures;
mod flow;
mod hot;
mod http;
mod random;
mod sabotage;
mod world;
