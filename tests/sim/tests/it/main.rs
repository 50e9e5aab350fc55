//! The loop on paused time: one binary.

#[cfg(test)]
mod delivery;
#[cfg(test)]
mod handing_over;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod shutdown;
