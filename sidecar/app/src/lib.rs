//! lockstep-sidecar
pub mod deliver;
pub mod health;
