//! The embedded broker as its users meet it: over HTTP, through the adapter traits, and killed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod conformance;
mod files;
mod http;
mod kill;
mod session;
mod support;
