//! The embedded broker as its users meet it: over HTTP, through the adapter traits, and killed.

mod files;
mod http;
mod kill;
mod support;
