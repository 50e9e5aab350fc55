//! The binary as people and Kubernetes use it.

#[cfg(test)]
mod commands;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod running;
