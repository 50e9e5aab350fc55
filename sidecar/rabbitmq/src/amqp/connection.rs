use std::{io::ErrorKind, sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

use super::{
    ANSWER_WITHIN, AmqpError, Channel, Deliveries, Endpoint, OpenConfig, Table,
    codec::text_of,
    core::Core,
    dial::{Stream, dial},
    driver::Driver,
    handshake::{Agreed, handshake},
    shared::{Handle, Shared},
};

/// What a broker says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// Such as `RabbitMQ`.
    pub product: String,
    /// Such as `3.10.8`.
    pub version: String,
    /// Of the cluster; all its nodes say the same.
    pub cluster_name: String,
    /// Such as `Erlang/OTP 25.2.3`.
    pub platform: String,
    /// Whether it tells when it ends a consumer.
    pub tells_cancel: bool,
    /// Whether it tells when it takes no messages.
    pub tells_blocked: bool,
}

impl ServerInfo {
    pub(super) fn from_properties(properties: &Table) -> Self {
        let text = |name: &[u8]| match properties.get(name) {
            Some(value) => value.as_text().map_or_else(String::new, |text| text_of(text)),
            None => String::new(),
        };
        let capabilities = match properties.get(b"capabilities") {
            Some(super::Value::Table(table)) => table,
            Some(_) | None => Table::default(),
        };
        let can = |name: &[u8]| capabilities.get(name) == Some(super::Value::Bool(true));
        Self {
            product: text(b"product"),
            version: text(b"version"),
            cluster_name: text(b"cluster_name"),
            platform: text(b"platform"),
            tells_cancel: can(b"consumer_cancel_notify"),
            tells_blocked: can(b"connection.blocked"),
        }
    }
}

/// One open connection. Clones share it; when the last handle of it and of its channels is dropped, it is closed.
#[derive(Debug, Clone)]
pub struct Connection {
    handle: Arc<Handle>,
    server: Arc<ServerInfo>,
    heartbeat: Duration,
}

impl Connection {
    /// Reaches a broker and agrees with it.
    ///
    /// Cancel safe: a dropped call leaves nothing behind.
    ///
    /// # Errors
    /// Why there is no connection; each step is bounded by `connect_timeout`.
    pub async fn open(endpoint: &Endpoint, config: &OpenConfig) -> Result<Self, AmqpError> {
        let stream = dial(endpoint, config).await?;
        let opened = Self::over(stream, &endpoint.to_string(), config).await;
        // With TLS 1.3 a broker says only after the handshake that it does not take our certificate.
        if let Err(AmqpError::Io(cause)) = &opened
            && config.tls.is_some()
            && cause.kind() == ErrorKind::InvalidData
        {
            return Err(AmqpError::Tls { host: endpoint.host.as_str().into(), cause: Arc::clone(cause) });
        }
        opened
    }

    /// Agrees with a broker over a stream to it.
    pub(super) async fn over(
        mut stream: Box<dyn Stream>,
        address: &str,
        config: &OpenConfig,
    ) -> Result<Self, AmqpError> {
        let limit = config.connect_timeout;
        let agreed = tokio::time::timeout(limit, handshake(&mut stream, config)).await;
        let Agreed { server, heartbeat, channels, frame, input } = agreed.unwrap_or_else(|_| {
            Err(AmqpError::ConnectTimeout { address: address.into(), what: "the handshake", after: limit })
        })?;
        let core = Core::new(channels, frame, config.budget.clone());
        let shared = Arc::new(Shared::new(core));
        tokio::spawn(Driver::new(Arc::clone(&shared), stream, input, heartbeat).run());
        Ok(Self { handle: Arc::new(Handle(shared)), server: Arc::new(server), heartbeat })
    }

    /// What the broker says of itself.
    pub fn server(&self) -> &ServerInfo {
        &self.server
    }

    /// As agreed on.
    pub fn heartbeat(&self) -> Duration {
        self.heartbeat
    }

    /// When anything was last read from the broker.
    pub fn last_read(&self) -> Instant {
        self.handle.0.core().last_read()
    }

    /// Opens a channel; its deliveries begin with [`Channel::consume`].
    ///
    /// # Errors
    /// The connection ended, all channels that were agreed on are in use, or no answer within [`ANSWER_WITHIN`].
    pub async fn open_channel(&self) -> Result<(Channel, Deliveries), AmqpError> {
        Channel::open(&self.handle).await
    }

    /// Waits until the connection ends, and says why.
    ///
    /// Cancel safe.
    pub async fn closed(&self) -> AmqpError {
        let mut ended = self.handle.0.ended.subscribe();
        let reason = ended.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or(AmqpError::ClosedByUs)
    }

    /// Whether it can be used.
    pub fn is_open(&self) -> bool {
        self.handle.0.core().ended().is_none()
    }

    /// Whether the broker takes no messages for now.
    pub fn is_blocked(&self) -> bool {
        self.handle.0.blocked.borrow().is_some()
    }

    /// The broker's reason while it takes no messages; none at the end.
    pub fn blocked(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.handle.0.blocked.subscribe()
    }

    /// Closes it with all its channels: says so to the broker and waits for its answer, at most [`ANSWER_WITHIN`].
    ///
    /// Cancel safe: it is closed nevertheless.
    pub async fn close(&self) {
        self.handle.0.core().close(Instant::now());
        self.closed().await;
    }
}

/// When a connection that is being closed is given up.
pub(super) fn give_up_at(now: Instant) -> Instant {
    now + ANSWER_WITHIN
}
