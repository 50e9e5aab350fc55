use std::{io, path::PathBuf, sync::Arc, time::Duration};

use lockstep_broker::Certainty;
use lockstep_tls::TlsError;
use thiserror::Error;

use crate::{
    codec::FrameError,
    protocol::{ReplyError, ResponseCode},
};

/// A connection can't be opened.
#[derive(Debug, Clone, Error)]
pub enum ConnectError {
    /// The address is not `host:port`.
    #[error("address is not of the form host:port")]
    Address,
    /// Refused, no route, unknown name.
    #[error("failed to connect: {0}")]
    Io(Arc<io::Error>),
    /// Not open in time.
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    /// The TLS handshake failed: a wrong certificate on either side, or no TLS there.
    #[error("TLS handshake failed: {0}")]
    Tls(Arc<io::Error>),
    /// A file for TLS can't be read or holds nothing usable.
    #[error("failed to use {path}: {reason}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file of the credentials can't be read or holds nothing usable.
    #[error("failed to use the credentials in {path}: {reason}")]
    CredentialsFile {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The credentials can't be had.
    #[error("failed to read the credentials: {0}")]
    Credentials(String),
}

impl From<TlsError> for ConnectError {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::File { path, reason } => Self::File { path, reason },
            TlsError::Name { .. } => Self::Address,
            TlsError::Handshake(cause) => Self::Tls(cause),
        }
    }
}

/// Why a connection ended.
#[derive(Debug, Clone, Error)]
pub enum Lost {
    /// The peer closed it.
    #[error("peer closed the connection")]
    Closed,
    /// The network failed.
    #[error("connection failed: {0}")]
    Io(Arc<io::Error>),
    /// The peer sent nonsense.
    #[error("peer broke the protocol: {0}")]
    Frame(#[from] FrameError),
    /// A reply was due, and nothing at all came meanwhile.
    #[error("peer was silent for {0:?} while a reply was due")]
    Silent(Duration),
    /// The peer said that it is going away.
    #[error("peer is going away")]
    GoAway,
    /// We closed it.
    #[error("connection was closed by us")]
    ByUs,
}

/// A request did not bring its reply.
#[derive(Debug, Clone, Error)]
pub enum CallError {
    /// The last try to connect failed a short while ago.
    #[error("{address} can't be reached ({cause}); next try in {retry_in:?}")]
    Backoff {
        /// Of the peer.
        address: Arc<str>,
        /// Until connecting is tried again on request.
        retry_in: Duration,
        /// Why the last try failed.
        cause: BackoffCause,
    },
    /// There is no connection.
    #[error("{address} can't be reached: {cause}")]
    Connect {
        /// Of the peer.
        address: Arc<str>,
        /// Why.
        cause: ConnectError,
    },
    /// The connection ended before the reply came.
    #[error("connection to {address} ended: {cause}")]
    Lost {
        /// Of the peer.
        address: Arc<str>,
        /// Why.
        cause: Lost,
        /// Whether the peer may have got the request.
        certainty: Certainty,
    },
    /// No reply in time.
    #[error("no reply from {address} within {after:?}")]
    Timeout {
        /// Of the peer.
        address: Arc<str>,
        /// What was waited.
        after: Duration,
        /// Whether the peer may have got the request.
        certainty: Certainty,
    },
    /// It could not be written before it had to be.
    #[error("request to {address} was not written in time and is withdrawn")]
    TooLate {
        /// Of the peer.
        address: Arc<str>,
    },
    /// Too many requests or connections are open.
    #[error("too many requests to {address} are open")]
    Busy {
        /// Of the peer.
        address: Arc<str>,
    },
    /// The request does not fit into the protocol.
    #[error("request can't be sent: {0}")]
    Encode(#[from] FrameError),
    /// The peer answered, but not as hoped.
    #[error("{address} did not {what}: {cause}")]
    Reply {
        /// Of the peer.
        address: Arc<str>,
        /// What was asked of it.
        what: &'static str,
        /// What it answered.
        cause: ReplyError,
    },
}

/// Why nothing is tried during a backoff.
#[derive(Debug, Clone, Error)]
pub enum BackoffCause {
    /// There was no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There was one that did not last.
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl CallError {
    /// Whether the request may have been carried out.
    pub fn certainty(&self) -> Certainty {
        match self {
            Self::Backoff { .. }
            | Self::Connect { .. }
            | Self::TooLate { .. }
            | Self::Busy { .. }
            | Self::Encode(_) => Certainty::NotDone,
            Self::Lost { certainty, .. } | Self::Timeout { certainty, .. } => *certainty,
            Self::Reply { cause, .. } => answered(cause),
        }
    }

    /// The peer's refusal, if it is one.
    pub fn refusal(&self) -> Option<ResponseCode> {
        match self {
            Self::Reply { cause: ReplyError::Refused { code, .. }, .. } => Some(*code),
            Self::Reply { .. }
            | Self::Backoff { .. }
            | Self::Connect { .. }
            | Self::Lost { .. }
            | Self::Timeout { .. }
            | Self::TooLate { .. }
            | Self::Busy { .. }
            | Self::Encode(_) => None,
        }
    }
}

/// Code 1 stands for anything, also for what went wrong half-way; every other refusal comes before the deed.
fn answered(cause: &ReplyError) -> Certainty {
    match cause {
        ReplyError::Refused { code: ResponseCode::SystemError | ResponseCode::Unknown(_), .. } => {
            Certainty::Unknown
        }
        ReplyError::Refused { .. } => Certainty::NotDone,
        ReplyError::Part(_) | ReplyError::Json(_) => Certainty::Unknown,
    }
}
