//! The binary as people and Kubernetes use it.

mod commands;
mod rig;
mod running;
