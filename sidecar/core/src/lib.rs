//! The engine: orders, retries, fences and commits. Sans-IO: no clock, no randomness, no task, no broker's name.
//!
//! The shell calls `Engine::handle` with one input, then `Engine::poll` until it answers [`Output::Wait`].

mod config;
mod facts;
mod input;
mod output;

pub use config::{
    Backoff, Config, DataLossPolicy, OrderingMode, RunState, StatusCodes, UndecodablePolicy, WhenExhausted,
};
pub use facts::{AttemptResult, HttpAnswer, TransportFailure, VerdictHeader};
pub use input::{ByHand, Failure, FetchId, Incoming, Input};
pub use output::{AttemptId, AttemptNotice, Event, Hold, Output, Settlement};
