//! The operator: makes pods of `ConsumerGroup` resources and says how they are.
//!
//! One reconciliation is five steps, each a module: [`dereference`] reads what the cluster holds, [`validate`] and
//! [`build`] are pure, [`apply`] writes the children, [`status`] says how it is. [`rollout`] and [`assignment`] decide
//! what may change when, and are pure too.

pub mod assignment;
pub mod conditions;
pub mod facts;
pub mod leader;
pub mod metrics;
pub mod rollout;
pub mod server;
pub mod status;
pub mod telemetry;

pub use facts::{Fault, Notice, Observed, PodReport, Settings};
