use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use lockstep_broker::Certainty;
use lockstep_tls::TlsError;
use thiserror::Error;

use super::codec::{Closed, Malformed, text_of};

/// Why the broker closed a channel or a connection: its own code and words, and the method that it complains about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// The reply code of AMQP 0-9-1, such as 404 for a missing queue.
    pub code: u16,
    /// The broker's words.
    pub text: String,
    /// Class of the method that failed; 0 when there is none.
    pub class: u16,
    /// Number of that method in its class.
    pub method: u16,
}

impl Close {
    pub(super) fn new(closed: &Closed) -> Self {
        let Closed { code, text, class, method } = closed;
        Self { code: *code, text: text_of(text), class: *class, method: *method }
    }
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.text)
    }
}

/// What can go wrong between us and a broker.
#[derive(Debug, Clone, Error)]
pub enum AmqpError {
    /// The host's name is not known.
    #[error("failed to look up {host}: {cause}; check the host in the source's urls")]
    Dns {
        /// As configured.
        host: Arc<str>,
        /// What the resolver said.
        cause: Arc<io::Error>,
    },
    /// Nobody listens there, or there is no way to it.
    #[error("failed to connect to {address}: {cause}; check address and port, and that the broker runs")]
    Connect {
        /// Host and port.
        address: Arc<str>,
        /// What the network said.
        cause: Arc<io::Error>,
    },
    /// Opening took too long.
    #[error("{address} did not finish {what} within {after:?}")]
    ConnectTimeout {
        /// Host and port.
        address: Arc<str>,
        /// The step that did not end.
        what: &'static str,
        /// What was waited.
        after: Duration,
    },
    /// The TLS handshake failed: a wrong certificate on either side, or no TLS there.
    #[error("TLS handshake with {host} failed: {cause}")]
    Tls {
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
    /// The broker does not offer our way to authenticate.
    #[error(
        "the broker does not offer the mechanism {wanted}, only {offered}; enable it there or use another"
    )]
    Mechanism {
        /// Ours.
        wanted: &'static str,
        /// The broker's list.
        offered: String,
    },
    /// The broker does not accept who we say we are.
    #[error(
        "the broker refused the credentials: {text}; check user name and password, or the certificate's user"
    )]
    AuthRefused {
        /// The broker's words, or ours when it just hung up.
        text: String,
    },
    /// There is no such virtual host, or not for this user.
    #[error("the broker refused the virtual host {vhost}: {text}")]
    VhostRefused {
        /// As configured.
        vhost: Arc<str>,
        /// The broker's words.
        text: String,
    },
    /// The peer sent what no AMQP 0-9-1 broker sends, or something else listens there.
    #[error("the peer broke the protocol: {0}; is it an AMQP 0-9-1 port, with TLS on both sides or on none?")]
    Protocol(#[from] Malformed),
    /// The broker closed the connection and said why.
    #[error("the broker closed the connection: {0}")]
    ClosedByServer(Close),
    /// The peer hung up without a word.
    #[error("the peer closed the connection without a reason")]
    ClosedByPeer,
    /// The network failed.
    #[error("the connection failed: {0}")]
    Io(Arc<io::Error>),
    /// Nothing at all came for two heartbeats.
    #[error("the broker was silent for {after:?}, two heartbeats")]
    HeartbeatMissed {
        /// Two heartbeats.
        after: Duration,
    },
    /// The peer took nothing for two heartbeats while something was to be written.
    #[error("the broker took nothing for {after:?}, two heartbeats")]
    WriteStalled {
        /// Two heartbeats.
        after: Duration,
    },
    /// We closed it.
    #[error("closed by this process")]
    ClosedByUs,
    /// The broker closed the channel and said why. All that was unsettled on it goes back to its queue.
    #[error("the broker closed the channel: {0}")]
    ChannelClosed(Close),
    /// No answer in time: whether it was done is not known.
    #[error("the broker did not answer {what} within {after:?}")]
    Timeout {
        /// What was asked.
        what: &'static str,
        /// What was waited.
        after: Duration,
    },
    /// The broker takes no messages for now (a memory or disk alarm). Nothing was sent.
    #[error("the broker takes no messages ({reason}) for longer than {after:?}; nothing was sent")]
    Blocked {
        /// The broker's words.
        reason: Arc<str>,
        /// What was waited.
        after: Duration,
    },
    /// A bound of ours: nothing was sent.
    #[error("too many {what} at once, at most {most}; nothing was sent")]
    Busy {
        /// Of what.
        what: &'static str,
        /// The bound.
        most: usize,
    },
    /// Not a delivery of this channel that still waits to be settled. Nothing was sent.
    #[error("delivery {tag} is not unsettled on this channel; nothing was sent")]
    UnknownTag {
        /// The one that was meant.
        tag: u64,
    },
    /// It does not fit into the protocol or the negotiated frame. Nothing was sent.
    #[error("{what} is too long for a frame of AMQP 0-9-1; nothing was sent")]
    TooLong {
        /// What.
        what: &'static str,
    },
    /// The channel or connection had ended before: nothing was sent.
    #[error("not open any more, nothing was sent: {0}")]
    NotOpen(Arc<Self>),
}

impl AmqpError {
    /// Why TLS can't be spoken with a host.
    pub(super) fn of_tls(host: &str, error: TlsError) -> Self {
        match error {
            TlsError::File { path, reason } => Self::TlsFile { path, reason },
            TlsError::Name { cause, .. } | TlsError::Handshake(cause) => {
                Self::Tls { host: host.into(), cause }
            }
        }
    }

    /// Whether what was asked may have been done.
    pub fn certainty(&self) -> Certainty {
        match self {
            Self::Dns { .. }
            | Self::Connect { .. }
            | Self::ConnectTimeout { .. }
            | Self::Tls { .. }
            | Self::TlsFile { .. }
            | Self::Mechanism { .. }
            | Self::AuthRefused { .. }
            | Self::VhostRefused { .. }
            | Self::Blocked { .. }
            | Self::Busy { .. }
            | Self::UnknownTag { .. }
            | Self::TooLong { .. }
            | Self::NotOpen(_) => Certainty::NotDone,
            Self::Protocol(_)
            | Self::ClosedByServer(_)
            | Self::ClosedByPeer
            | Self::Io(_)
            | Self::HeartbeatMissed { .. }
            | Self::WriteStalled { .. }
            | Self::ClosedByUs
            | Self::ChannelClosed(_)
            | Self::Timeout { .. } => Certainty::Unknown,
        }
    }

    /// The broker's own code and words, if it closed the channel or the connection; also of an end that was found later.
    pub fn close(&self) -> Option<&Close> {
        let end = if let Self::NotOpen(end) = self { end } else { self };
        if let Self::ChannelClosed(close) | Self::ClosedByServer(close) = end { Some(close) } else { None }
    }

    /// Whether a whole connection has ended, and not by us.
    pub fn is_end_of_connection(&self) -> bool {
        let end = if let Self::NotOpen(end) = self { end } else { self };
        matches!(
            end,
            Self::ClosedByServer(_)
                | Self::ClosedByPeer
                | Self::Protocol(_)
                | Self::Io(_)
                | Self::HeartbeatMissed { .. }
                | Self::WriteStalled { .. }
        )
    }

    /// The same end, met by something that was asked afterwards and therefore not sent.
    pub(super) fn afterwards(&self) -> Self {
        if matches!(self, Self::NotOpen(_)) { self.clone() } else { Self::NotOpen(Arc::new(self.clone())) }
    }
}
