//! The sidecar binary.
fn main() {}
