//! All connections of the process to name servers and brokers: one an address, opened on demand, shared by all
//! callers.

mod config;
mod error;
mod peer;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};

use crate::{
    codec::Command,
    protocol::{BrokerRequest, Request},
};

pub use config::{CredentialsSource, RemotingConfig, TlsFiles};
pub use error::{BackoffCause, CallError, ConnectError, Lost};

/// All connections of the process. Clones share them.
#[derive(Debug, Clone)]
pub struct Remoting {}

/// What happens on connections without having been asked for.
#[derive(Debug)]
pub enum Event {
    /// A connection is open: members say a heartbeat on it before they rely on it.
    Up {
        /// As callers name it.
        address: Arc<str>,
        /// Rises with each connection of the process.
        connection: u64,
    },
    /// A connection is gone, and with it all that the broker ties to it: membership and held pulls.
    Down {
        /// As callers name it.
        address: Arc<str>,
        /// The one that was `Up`.
        connection: u64,
        /// Why.
        reason: Lost,
    },
    /// A broker asks something.
    Request {
        /// As callers name it.
        address: Arc<str>,
        /// What it asks.
        request: BrokerRequest,
        /// For the answer.
        responder: Responder,
    },
}

/// Answers one request of a broker. Dropped unused, it answers code 1.
#[derive(Debug)]
pub struct Responder {}

impl Responder {
    /// Answers with code 0 and a body. Nothing is sent when no answer is wanted or the connection is gone.
    pub fn answer(self, body: impl Into<bytes::Bytes>) {
        let _ = body.into();
    }

    /// Answers with code 1 and words for people.
    pub fn refuse(self, remark: &str) {
        let _ = remark;
    }
}

impl Remoting {
    /// Starts with no connection. The receiver must be read: while it is full, brokers' questions are refused.
    pub fn new(config: RemotingConfig) -> (Self, mpsc::Receiver<Event>) {
        let _ = config;
        let (_, events) = mpsc::channel(1);
        (Self {}, events)
    }

    /// Sends a request to `host:port` and waits for its reply.
    ///
    /// Cancel safe: a dropped call is not sent if it was not yet, and its reply is dropped otherwise.
    ///
    /// # Errors
    /// Each says by [`CallError::certainty`] whether the request may have been carried out.
    pub async fn call<R: Request>(
        &self,
        address: &str,
        request: &R,
        timeout: Duration,
    ) -> Result<R::Reply, CallError> {
        self.call_before(address, request, timeout, None).await
    }

    /// As [`Remoting::call`], but never written after `not_after`: checked again right before the write.
    ///
    /// # Errors
    /// As [`Remoting::call`].
    pub async fn call_before<R: Request>(
        &self,
        address: &str,
        request: &R,
        timeout: Duration,
        not_after: Option<Instant>,
    ) -> Result<R::Reply, CallError> {
        let _ = (request, timeout, not_after);
        Err(CallError::Busy { address: address.into() })
    }

    /// Sends a request that has no reply; done when it is written.
    ///
    /// # Errors
    /// As [`Remoting::call`].
    pub async fn oneway<R: Request>(&self, address: &str, request: &R, timeout: Duration) -> Result<(), CallError> {
        let _ = (request, timeout);
        Err(CallError::Busy { address: address.into() })
    }

    /// Closes the connection to an address that is no longer used, if there is one.
    pub fn close(&self, address: &str) {
        let _ = address;
    }
}
