//! The engine's tests: readable scripts on virtual time.

mod random;
mod sabotage;
mod scripts;
mod world;
