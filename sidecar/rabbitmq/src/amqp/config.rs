use std::{fmt, sync::Arc, time::Duration};

use lockstep_tls::TlsFiles;

use super::Budget;

/// Opening a connection may take so long for each of its two steps, reaching the peer and agreeing with it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Asked of the broker unless the configuration says otherwise: a dead peer is noticed within 20 s.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Where a broker listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Name or address; with TLS the certificate must be for it.
    pub host: String,
    /// 5672 by custom, 5671 with TLS.
    pub port: u16,
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
pub struct OpenConfig {
    /// The virtual host, `/` by custom.
    pub vhost: String,
    /// The longest time between two signs of life, in whole seconds; a broker that wants it shorter gets its way.
    pub heartbeat: Duration,
    /// Who we are.
    pub credentials: Credentials,
    /// TLS with verification; absent = none.
    pub tls: Option<TlsFiles>,
    /// Shown by the broker's tools as the connection's name.
    pub name: String,
    /// For each of reaching the peer (TLS included) and agreeing with it.
    pub connect_timeout: Duration,
    /// For the bodies of all messages that come in; clones share it.
    pub budget: Budget,
}

impl Default for OpenConfig {
    fn default() -> Self {
        Self {
            vhost: "/".to_owned(),
            heartbeat: HEARTBEAT,
            credentials: Credentials::default(),
            tls: None,
            name: "lockstep".to_owned(),
            connect_timeout: CONNECT_TIMEOUT,
            budget: Budget::default(),
        }
    }
}

/// Who we are, as a broker is told.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// SASL PLAIN.
    Plain {
        /// In the open.
        username: String,
        /// Never shown.
        password: Arc<str>,
    },
    /// SASL EXTERNAL: the broker takes the user from our certificate.
    External,
}

impl Default for Credentials {
    /// The user of a fresh broker, accepted from its own host only.
    fn default() -> Self {
        Self::Plain { username: "guest".to_owned(), password: "guest".into() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain { username, .. } => {
                f.debug_struct("Plain").field("username", username).finish_non_exhaustive()
            }
            Self::External => f.write_str("External"),
        }
    }
}
