//! The operator and its pods against a real Kubernetes: scenarios, most of them judged by the history checker.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a scenario that can't go on must say so and fail"
)]

pub mod api;
pub mod cluster;
pub mod group;
pub mod lone;
pub mod plan;
pub mod rabbitmq;
pub mod runner;
pub mod site;
pub mod whole;
pub mod worker;
pub mod world;
