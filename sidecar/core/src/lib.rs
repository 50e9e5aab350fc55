//! The engine: orders, retries, fences and commits. Sans-IO: no clock, no randomness, no task, no broker's name.
//!
//! The shell calls [`Engine::handle`] with one input, then [`Engine::poll`] until it answers [`Output::Wait`].

mod backoff;
mod breaker;
mod commit;
mod config;
mod cursor;
mod dispatch;
mod drain;
mod ending;
mod engine;
mod facts;
mod fetch;
mod group;
mod input;
mod invariants;
mod lane;
mod lease;
mod ledger;
mod limit;
pub mod limits;
mod moved;
mod outcome;
mod output;
mod queue;
mod reconfigure;
mod sabotage;
mod settle;
mod snapshot;
mod storm;
mod suppress;
mod timers;
mod verdict;
mod view;

pub use config::{
    Backoff, Config, DataLossPolicy, OrderingMode, RunState, StatusCodes, UndecodablePolicy, WhenExhausted,
};
pub use engine::Engine;
pub use facts::{AttemptResult, HttpAnswer, TransportFailure, VerdictHeader};
pub use input::{ByHand, Failure, FetchId, Incoming, Input};
pub use invariants::{Invariant, Violation};
pub use output::{AttemptId, AttemptNotice, Event, Hold, Output, Settlement};
pub use sabotage::Sabotage;
pub use snapshot::{BlockedHead, EngineSnapshot, QueueSnapshot};
pub use view::Head;
