//! The binary as people and Kubernetes use it.

#[cfg(test)]
mod commands;
#[cfg(test)]
mod pod;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod running;
#[cfg(test)]
mod secrets;
