//! The engine's tests: readable scripts on virtual time.

mod scripts;
mod world;
