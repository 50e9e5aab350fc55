//! The controller against an API server in this process. Time is tokio's paused clock: minutes pass in no time, and
//! nothing here sleeps.

#[cfg(test)]
mod children;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod pods;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod sidecars;
#[cfg(test)]
mod stalled;
#[cfg(test)]
mod steady;
#[cfg(test)]
mod store;
#[cfg(test)]
mod upgrade;
