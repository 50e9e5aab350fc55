use std::{io, path::PathBuf, sync::Arc};

use thiserror::Error;

/// TLS can't be spoken with a peer.
#[derive(Debug, Clone, Error)]
pub enum TlsError {
    /// A file can't be read or holds nothing usable.
    #[error("failed to use {path}: {reason}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// No certificate can be for such a host.
    #[error("{host} is neither a name nor an address: {cause}")]
    Name {
        /// As given.
        host: String,
        /// What is wrong with it.
        cause: Arc<io::Error>,
    },
    /// The handshake failed: a wrong certificate on either side, or no TLS there.
    #[error("TLS handshake failed: {0}")]
    Handshake(Arc<io::Error>),
}
