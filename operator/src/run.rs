//! The operator as a process.

use thiserror::Error;

use crate::args::RunArgs;

/// The operator can't go on.
#[derive(Debug, Error)]
pub enum RunError {
    /// It can't be started.
    #[error("failed to start: {0}")]
    Start(String),
}

/// Looks after the groups until it is told to stop or loses the lease.
pub async fn run(_args: RunArgs) -> Result<(), RunError> {
    Err(RunError::Start("this build only has `crd` and `render`".to_owned()))
}
