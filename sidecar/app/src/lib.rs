//! The sidecar: messages of a source, delivered in order to the HTTP application beside it.

pub mod admin;
pub mod args;
pub mod commands;
pub mod config;
pub mod deliver;
pub mod health;
pub mod metrics;
pub mod runtime;
pub mod secret;
pub mod service;
pub mod state;
pub mod telemetry;
