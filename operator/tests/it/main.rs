//! The controller against an API server in this process. Time is tokio's paused clock: minutes pass in no time, and
//! nothing here sleeps.

mod children;
mod fake;
mod faults;
mod pods;
mod scenario;
mod sidecars;
mod stalled;
mod steady;
mod store;
mod upgrade;
