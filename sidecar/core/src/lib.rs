//! The engine: orders, retries, fences and commits. Sans-IO: no clock, no randomness, no task, no broker's name.
//!
//! The shell calls [`Engine::handle`] with one input, then [`Engine::poll`] until it answers [`Output::Wait`]. An input
//! that is late, double or unknown is counted ([`Event::Stale`]) and dropped; an attempt that was never asked for is an
//! assertion, since only our own shell could have invented it.
//!
//! # One step
//!
//! `handle` fires what is due by now (leases end first of all), applies the one input, starts attempts, and then looks at
//! the queues that were touched: commit, fetch, release. Attempts come before commits, so that none waits for one. Ready
//! heads stand in ordered sets and queues in a line of turns; nothing scans lanes on the way of a message.
//!
//! # The life of one delivery
//!
//! 1. `fetch.rs` asks for what the queue's share of the buffer, the span and the look-ahead have room for. What comes is
//!    put into its lane (`lane.rs`): one for the queue, one for each key, or its own.
//! 2. When it becomes the head, `ending.rs` looks at it once: undecodable, known to be done (`suppress.rs`), exhausted in an
//!    earlier life, or ready.
//! 3. `dispatch.rs` starts it when its queue's turn comes and no gate is shut: health, pause, quiet time, breaker, limit;
//!    and of its queue: lease, doubt, release, unconfirmed deliveries.
//! 4. `verdict.rs` turns the attempt's facts into a verdict, `outcome.rs` acts on it: done, wait (`backoff.rs`), or what
//!    `whenExhausted` says, watched by `storm.rs`. `breaker.rs` tells a wrong endpoint from a wrong message.
//! 5. Its end is told to the broker: a cursor over the contiguous prefix (`cursor.rs`, `commit.rs`), or a settlement of its
//!    own (`settle.rs`), repeated until it is confirmed.
//! 6. Or its ownership ends (`lease.rs`), its position moves (`moved.rs`) or the process drains (`drain.rs`): then it is
//!    abandoned, uncharged, and an attempt that still runs becomes an orphan that only keeps its lane.
//!
//! `group.rs` joins and leaves, `reconfigure.rs` applies hot settings, `timers.rs` keeps every moment, `limits.rs` every
//! constant, `snapshot.rs` and `view.rs` show it all.
//!
//! # Where the invariants live
//!
//! | | kept by | in short |
//! |---|---|---|
//! | I1 | `dispatch::make_ready`, `Engine::orphans` | a lane with an attempt, of whatever ownership, is not ready |
//! | I2 | `outcome::finished_well`, `settle::confirmed`, `ending::exit` | the only three ways to a final verdict |
//! | I3 | `cursor.rs` | only finished ranges and gaps of the log are inserted, only what touches the cursor moves it |
//! | I4 | `Engine::current`, `lease::drop_queue` | inputs of another epoch are dropped, an ended ownership keeps nothing |
//! | I5 | `fetch::room`, `fetch::fits` | asked for and taken only within share, bytes and span |
//! | I6 | `ending::end_head`, `lease::release_head`, `lease::abandon` | the only three exits of a lane |
//! | I7 | `outcome::spend`, `ending::exhausted` | the only place that charges, the only one that acts on the limit |
//! | I8 | `fetch::maybe_fetch`, `drain::drain_deadline` | |
//! | I9 | `dispatch::before_reserve`, `lease::lease_timer` | |
//! | I10 | `Queue::ready`, `fetch::shed` | a blocked lane is in no ready set and keeps one delivery |
//!
//! In debug builds `ledger.rs` keeps records of its own from inputs and outputs and judges every step by them.
//! `sabotage.rs` breaks each invariant on purpose, for the tests that prove the judgement.
//!
//! # What happens when something fails
//!
//! | failure | what the engine does |
//! |---|---|
//! | crash, container restart | goes on from restored attempts; a cut attempt is not charged; duplicates: 32 a queue (`PerQueue`), the span (`PerKey`) |
//! | connection lost (doubt) | starts, settles and commits nothing; what runs may end and is remembered; repeats the commit when renewed |
//! | lease lost or over | cancels, abandons, ignores late results; asks the adapter to let go when it was our clock that said so |
//! | commit or settlement failed or unknown | repeats with backoff, keeps the position |
//! | dead letter failed | holds the lane, repeats |
//! | application ill | starts nothing; after `handOver` gives everything back and leaves; comes back when health is stable |
//! | endpoint wrong | breaker: one probe at a time, nothing charged |
//! | bad deploy that refuses everything | storm guard: the N-th in a row is held |
//! | drain, revocation | waiting heads are abandoned at once; released when idle, at the latest at the deadline |
//! | position moved | held deliveries are stale; goes on there (or stops, by `onDataLoss`) |
//! | source that answers nothing, or fails | waits longer and longer between fetches |

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
