//! Names, ports and paths through which operator, sidecar and application meet.

/// Default of `sidecar.adminPort`.
pub const ADMIN_PORT: u16 = 15464;
