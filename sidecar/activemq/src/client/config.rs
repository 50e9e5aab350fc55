use std::{fmt, sync::Arc, time::Duration};

use lockstep_tls::TlsFiles;

use super::Budget;

/// Opening a connection may take so long for each of its steps: reaching the peer, and each thing that is agreed with it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time without a sign of life, as brokers have it by default.
const INACTIVITY: Duration = Duration::from_secs(30);

/// The largest frame that is read whole unless the configuration says otherwise, as brokers have it by default.
const MAX_FRAME: u32 = 100 * 1024 * 1024;

/// Where a broker listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Name or address; with TLS the certificate must be for it.
    pub host: String,
    /// 61616 by custom, 61617 with TLS.
    pub port: u16,
    /// Whether TLS is spoken there.
    pub tls: bool,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// How a connection is opened.
#[derive(Debug, Clone)]
pub(crate) struct OpenConfig {
    /// Who we are; absent = nobody, which brokers without authentication take.
    pub(crate) credentials: Option<Credentials>,
    /// The files for endpoints with TLS; absent = the system's authorities and no certificate of ours.
    pub(crate) tls: Option<TlsFiles>,
    /// Shown by the broker's tools; no two connections of a broker may have the same.
    pub(crate) client_id: String,
    /// The longest time between two signs of life; a broker that wants it shorter gets its way.
    pub(crate) inactivity: Duration,
    /// The longest frame that is read whole, in bytes. Of a longer one that brings a message only what says which it is.
    pub(crate) max_frame: u32,
    /// For each of reaching the peer (TLS included) and the steps of agreeing with it.
    pub(crate) connect_timeout: Duration,
    /// Counts what messages hold that came in; clones share it.
    pub(crate) budget: Budget,
}

impl Default for OpenConfig {
    fn default() -> Self {
        Self {
            credentials: None,
            tls: None,
            client_id: "lockstep".to_owned(),
            inactivity: INACTIVITY,
            max_frame: MAX_FRAME,
            connect_timeout: CONNECT_TIMEOUT,
            budget: Budget::default(),
        }
    }
}

/// Who we are, as a broker is told.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// In the open.
    pub username: String,
    /// Never shown.
    pub password: Arc<str>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}
