//! The operator: makes pods of `ConsumerGroup` resources and says how they are.
//!
//! One reconciliation is five steps, each a module: [`dereference`] reads what the cluster holds, [`validate`] and
//! [`build`] are pure, [`apply`] writes the children, [`status`] says how it is. [`rollout`] and [`assignment`] decide
//! what may change when, and are pure too.

pub mod apply;
pub mod args;
pub mod assignment;
pub mod backoff;
pub mod build;
pub mod compact;
pub mod conditions;
pub mod context;
pub mod controller;
pub mod definition;
pub mod dereference;
pub mod events;
pub mod facts;
pub mod hash;
pub mod leader;
pub mod membership;
pub mod metrics;
pub mod poll;
pub mod render;
pub mod rollout;
pub mod run;
pub mod server;
pub mod status;
pub mod telemetry;
pub mod touch;
pub mod update_status;
pub mod validate;

#[cfg(test)]
mod test_support;

pub use facts::{Fault, Notice, Observed, PodReport, Settings};
