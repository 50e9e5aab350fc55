use std::{sync::Arc, time::Duration};

use lockstep_openwire::Destination;
use tokio::time::Instant;

use super::{
    ANSWER_WITHIN, Answer, ClientError, Consumer, Deliveries, Endpoint, OpenConfig, Outgoing, Subscription,
    core::Core,
    dial::{Stream, dial},
    driver::Driver,
    frames::FrameReader,
    handshake::{Agreed, handshake},
    shared::{Handle, Shared},
};

/// Which of the brokers that speak OpenWire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// ActiveMQ Classic.
    Classic,
    /// ActiveMQ Artemis.
    Artemis,
}

/// What a broker says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokerFacts {
    /// Both products call themselves ActiveMQ: told by the form of their id.
    pub(crate) product: Product,
    /// Of Classic its own, such as `6.3.1`; of Artemis that of the Classic library in it. Empty when it is not told.
    pub(crate) version: String,
    /// As its administrator named it; Artemis has one only for show.
    pub(crate) name: String,
    /// Of the OpenWire that is spoken, 10 to 12.
    pub(crate) wire_version: i32,
}

/// One open connection. Clones share it; when the last handle of it and of its consumers is dropped, it is closed.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    handle: Arc<Handle>,
    broker: Arc<BrokerFacts>,
    inactivity: Duration,
}

impl Connection {
    /// Reaches a broker and agrees with it.
    ///
    /// Cancel safe: a dropped call leaves nothing behind.
    ///
    /// # Errors
    /// Why there is no connection; each step is bounded by `connect_timeout`.
    pub(crate) async fn open(endpoint: &Endpoint, config: &OpenConfig) -> Result<Self, ClientError> {
        let stream = dial(endpoint, config).await?;
        let opened = Self::over(stream, config).await;
        // With TLS 1.3 a broker says only after the handshake that it does not take our certificate.
        if let Err(ClientError::Io(cause)) = &opened
            && lockstep_tls::is_alert(cause)
        {
            return Err(ClientError::TlsFailed {
                host: endpoint.host.as_str().into(),
                cause: Arc::clone(cause),
            });
        }
        opened
    }

    /// Agrees with a broker over a stream to it.
    pub(super) async fn over(mut stream: Box<dyn Stream>, config: &OpenConfig) -> Result<Self, ClientError> {
        let Agreed { broker, inactivity, wire, last_command, input } = handshake(&mut stream, config).await?;
        let core = Core::new(wire, last_command, FrameReader::new(config.max_frame), config.budget.clone());
        let shared = Arc::new(Shared::new(core));
        tokio::spawn(Driver::new(Arc::clone(&shared), stream, input, inactivity).run());
        Ok(Self { handle: Arc::new(Handle(shared)), broker: Arc::new(broker), inactivity })
    }

    /// What the broker says of itself.
    pub(crate) fn broker(&self) -> &BrokerFacts {
        &self.broker
    }

    /// The longest time without a sign of life, as agreed: the shorter of both, ours when the broker watches for none. A
    /// broker that does drops a silent peer after one to two of them.
    pub(crate) fn inactivity(&self) -> Duration {
        self.inactivity
    }

    /// Waits until the connection ends, and says why.
    ///
    /// Cancel safe.
    pub(crate) async fn closed(&self) -> ClientError {
        let mut ended = self.handle.0.ended.subscribe();
        let reason = ended.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or(ClientError::ClosedByUs)
    }

    /// Whether it can be used.
    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        self.handle.0.core().ended().is_none()
    }

    /// A sign of life that the broker answers: the session that it knows is announced again, which both products answer
    /// and neither acts on. Artemis answers no `KeepAliveInfo`.
    ///
    /// Cancel safe: it is sent nevertheless.
    ///
    /// # Errors
    /// The connection ended, or no answer within [`ANSWER_WITHIN`]; so of all questions.
    pub(crate) async fn alive(&self) -> Result<(), ClientError> {
        let due = self.handle.0.core().alive()?;
        Answer::new("a sign of life", due).await
    }

    /// Begins to consume. What the broker sends before it answers is among the deliveries.
    ///
    /// Cancel safe: a consumer of a dropped call is closed.
    ///
    /// # Errors
    /// What the broker refuses, such as [`ClientError::Security`]; else as [`Connection::alive`].
    pub(crate) async fn consume(
        &self,
        subscription: Subscription,
    ) -> Result<(Consumer, Deliveries), ClientError> {
        let (number, due) = self.handle.0.core().consume(subscription)?;
        let consumer = Consumer::new(Arc::clone(&self.handle), number);
        let deliveries = Deliveries::new(Arc::clone(&self.handle), number);
        match Answer::new("a consumer", due).await {
            Ok(()) => Ok((consumer, deliveries)),
            Err(error) => {
                if error.exception().is_some() {
                    // There is none to be removed.
                    self.handle.0.core().forget(number);
                }
                Err(error)
            }
        }
    }

    /// A queue of this connection's own, for answers; the broker removes it at the connection's end.
    ///
    /// Cancel safe: it may be created.
    ///
    /// # Errors
    /// As [`Connection::consume`].
    pub(crate) async fn temp_queue(&self) -> Result<Destination, ClientError> {
        let (queue, due) = self.handle.0.core().temp_queue()?;
        Answer::new("a temporary queue", due).await?;
        Ok(queue)
    }

    /// Sends a message that is not kept over a broker's restart, and waits until the broker has it.
    ///
    /// Cancel safe: it may be sent.
    ///
    /// # Errors
    /// As [`Connection::consume`].
    pub(crate) async fn send(&self, message: Outgoing) -> Result<(), ClientError> {
        let due = self.handle.0.core().publish(message)?;
        Answer::new("a message", due).await
    }

    /// Closes it with all its consumers: says so to the broker and waits for its answer, at most [`ANSWER_WITHIN`].
    ///
    /// Cancel safe: it is closed nevertheless.
    pub(crate) async fn close(&self) {
        self.handle.0.core().close(Instant::now());
        self.closed().await;
    }
}

/// When a connection that is being closed is given up.
pub(super) fn give_up_at(now: Instant) -> Instant {
    now + ANSWER_WITHIN
}
