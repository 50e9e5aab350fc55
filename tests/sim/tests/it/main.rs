//! The loop on paused time: one binary.

mod delivery;
mod handing_over;
mod seeds;
mod shutdown;
