use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use lockstep_broker::Certainty;
use lockstep_tls::TlsError;
use thiserror::Error;

/// An exception of the broker's: its class and its words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Exception {
    /// With its package, such as `javax.jms.InvalidSelectorException`; empty when it was not told.
    pub(crate) class: Arc<str>,
    /// The broker's words; empty when there are none.
    pub(crate) message: Arc<str>,
}

impl Exception {
    /// The class without its package. The packages differ: `javax.jms` up to Classic 5 and on Artemis, `jakarta.jms` from
    /// Classic 6 on.
    pub(crate) fn name(&self) -> &str {
        self.class.rsplit('.').next().unwrap_or_default()
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), &*self.message) {
            ("", "") => f.write_str("no reason given"),
            ("", message) => f.write_str(message),
            (name, "") => f.write_str(name),
            (name, message) => write!(f, "{name}: {message}"),
        }
    }
}

/// What can go wrong between us and a broker.
#[derive(Debug, Clone, Error)]
pub(crate) enum ClientError {
    /// The host's name is not known, nobody listens there, or there is no way to it.
    #[error("failed to connect to {address}: {cause}; check address and port, and that the broker runs")]
    Unreachable {
        /// Host and port.
        address: Arc<str>,
        /// What the resolver or the network said.
        cause: Arc<io::Error>,
    },
    /// TLS can't be spoken with it: a wrong certificate on either side, or no TLS there.
    #[error("TLS handshake with {host} failed: {cause}")]
    TlsFailed {
        /// The name that the certificate must be for.
        host: Arc<str>,
        /// What TLS said.
        cause: Arc<io::Error>,
    },
    /// A file for TLS can't be read or holds nothing usable.
    #[error("failed to use {path}: {reason}")]
    TlsFile {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The broker speaks only an OpenWire that is too old for us.
    #[error("the broker speaks OpenWire {offered}, and {least} is the least that is understood")]
    RefusedVersion {
        /// The broker's.
        offered: i32,
        /// Ours.
        least: i32,
    },
    /// The broker does not know the user, or does not let it do that.
    #[error("the broker refused: {0}")]
    Security(Exception),
    /// The broker does not take our client id: another connection has it.
    #[error("the broker refused the client id: {0}")]
    InvalidClientId(Exception),
    /// The broker refused what was asked, or ended a consumer or the connection, and said why.
    #[error("the broker answered: {0}")]
    Exception(Exception),
    /// No answer in time: whether it was done is not known.
    #[error("the broker did not finish {what} within {after:?}")]
    Timeout {
        /// What was asked.
        what: &'static str,
        /// What was waited.
        after: Duration,
    },
    /// The peer hung up without a word.
    #[error("the peer closed the connection without a reason")]
    ClosedByPeer,
    /// The network failed.
    #[error("the connection failed: {0}")]
    Io(Arc<io::Error>),
    /// Nothing at all came for two of the agreed durations.
    #[error("the broker was silent for {after:?}")]
    SilentBroker {
        /// What was waited.
        after: Duration,
    },
    /// The peer took nothing for two of the agreed durations while something was to be written.
    #[error("the broker took nothing for {after:?}")]
    WriteStalled {
        /// What was waited.
        after: Duration,
    },
    /// The peer sent what no broker sends, or something else listens there.
    #[error("the peer broke the protocol: {0}; is it an OpenWire port, with TLS on both sides or on none?")]
    Protocol(Arc<str>),
    /// We closed it.
    #[error("closed by this process")]
    ClosedByUs,
    /// It does not fit into the protocol. Nothing was sent.
    #[error("{what} is too long for OpenWire; nothing was sent")]
    TooLong {
        /// What.
        what: &'static str,
    },
    /// The consumer or connection had ended before: nothing was sent.
    #[error("not open any more, nothing was sent: {0}")]
    NotOpen(Arc<Self>),
}

/// What stands at the end of exception classes that are told apart.
const SECURITY: &str = "SecurityException";
const INVALID_CLIENT_ID: &str = "InvalidClientIDException";

impl ClientError {
    /// Why TLS can't be spoken with a host.
    pub(super) fn of_tls(host: &str, error: TlsError) -> Self {
        match error {
            TlsError::File { path, reason } => Self::TlsFile { path, reason },
            TlsError::Name { cause, .. } | TlsError::Handshake(cause) => {
                Self::TlsFailed { host: host.into(), cause }
            }
        }
    }

    /// What an exception of the broker's says. Artemis has security exceptions of its own and of JMS, Classic those of Java.
    pub(super) fn of_exception(exception: Exception) -> Self {
        let name = exception.name();
        if name.ends_with(SECURITY) {
            Self::Security(exception)
        } else if name == INVALID_CLIENT_ID {
            Self::InvalidClientId(exception)
        } else {
            Self::Exception(exception)
        }
    }

    /// Whether what was asked may have been done. An exception of the broker's says that it was not.
    pub(crate) fn certainty(&self) -> Certainty {
        match self {
            Self::Unreachable { .. }
            | Self::TlsFailed { .. }
            | Self::TlsFile { .. }
            | Self::RefusedVersion { .. }
            | Self::Security(_)
            | Self::InvalidClientId(_)
            | Self::Exception(_)
            | Self::TooLong { .. }
            | Self::NotOpen(_) => Certainty::NotDone,
            Self::Timeout { .. }
            | Self::ClosedByPeer
            | Self::Io(_)
            | Self::SilentBroker { .. }
            | Self::WriteStalled { .. }
            | Self::Protocol(_)
            | Self::ClosedByUs => Certainty::Unknown,
        }
    }

    /// The broker's exception, if it said one; also of an end that was found later.
    pub(crate) fn exception(&self) -> Option<&Exception> {
        match self {
            Self::Security(exception) | Self::InvalidClientId(exception) | Self::Exception(exception) => {
                Some(exception)
            }
            Self::NotOpen(end) => end.exception(),
            Self::Unreachable { .. }
            | Self::TlsFailed { .. }
            | Self::TlsFile { .. }
            | Self::RefusedVersion { .. }
            | Self::Timeout { .. }
            | Self::ClosedByPeer
            | Self::Io(_)
            | Self::SilentBroker { .. }
            | Self::WriteStalled { .. }
            | Self::Protocol(_)
            | Self::ClosedByUs
            | Self::TooLong { .. } => None,
        }
    }

    /// Whether a whole connection has ended, and not by us.
    pub(crate) fn is_end_of_connection(&self) -> bool {
        let end = if let Self::NotOpen(end) = self { end } else { self };
        matches!(
            end,
            Self::ClosedByPeer
                | Self::Protocol(_)
                | Self::Io(_)
                | Self::SilentBroker { .. }
                | Self::WriteStalled { .. }
        )
    }

    /// The same end, met by something that was asked afterwards and therefore not sent.
    pub(super) fn afterwards(&self) -> Self {
        if matches!(self, Self::NotOpen(_)) { self.clone() } else { Self::NotOpen(Arc::new(self.clone())) }
    }
}
