//! All connections of the process to name servers and brokers: one an address, opened on demand, shared by all
//! callers. A lost or silent peer fails its calls at once and says whether they may have been carried out.

mod backoff;
mod call;
mod config;
mod connection;
mod dial;
mod error;
mod event;
mod peer;
mod pending;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use lockstep_broker::Certainty;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};

use self::{
    call::{Claim, Outgoing, Submission},
    peer::Peer,
};
use crate::{codec::Command, protocol::Request};

pub use config::{CredentialsSource, RemotingConfig};
pub use error::{BackoffCause, CallError, ConnectError, Lost};
pub use event::{Event, Responder};
pub use lockstep_tls::TlsFiles;

/// Events that wait for their reader.
const EVENTS: usize = 256;

/// Requests to one address that wait to be written.
const QUEUED: usize = 1024;

/// Addresses at once: name servers and brokers of all routes. Real clusters have some dozens.
const MAX_PEERS: usize = 1024;

/// All connections of the process. Clones share them; the last one dropped closes them.
#[derive(Clone)]
pub struct Remoting {
    shared: Arc<Shared>,
}

struct Shared {
    config: Arc<RemotingConfig>,
    events: mpsc::Sender<Event>,
    connections: Arc<AtomicU64>,
    peers: Mutex<HashMap<Arc<str>, mpsc::Sender<Submission>>>,
}

impl fmt::Debug for Remoting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remoting").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Remoting {
    /// Starts with no connection. While the receiver is full, brokers' questions are refused; when it is dropped, all
    /// are.
    pub fn new(config: RemotingConfig) -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(EVENTS);
        let shared = Shared {
            config: Arc::new(config),
            events,
            connections: Arc::new(AtomicU64::new(1)),
            peers: Mutex::new(HashMap::new()),
        };
        (Self { shared: Arc::new(shared) }, receiver)
    }

    /// Sends a request to `host:port` and waits for its reply. Calls of one caller are written in their order.
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

    /// As [`Remoting::call`], but not written after `not_after`: looked at again right before the write, since the
    /// process can be frozen anywhere.
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
        let reply = self.exchange(address, request.command(), timeout, not_after).await?;
        let reply = reply.unwrap_or_else(|| Command::response(0, 0));
        request.reply(reply).map_err(|cause| CallError::Reply {
            address: address.into(),
            what: R::NAME,
            cause,
        })
    }

    /// Sends a request that has no reply; done when it is handed to the network.
    ///
    /// # Errors
    /// As [`Remoting::call`].
    pub async fn oneway<R: Request>(
        &self,
        address: &str,
        request: &R,
        timeout: Duration,
    ) -> Result<(), CallError> {
        self.exchange(address, request.command().oneway(), timeout, None).await.map(drop)
    }

    /// Closes the connection to an address that is no longer used, if there is one. Open calls fail.
    pub fn close(&self, address: &str) {
        let peers = self.shared.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = peers.get(address) {
            // A full queue means that the address is in use after all.
            drop(peer.try_send(Submission::Close));
        }
    }

    /// The reply, or `None` for a request that has none.
    async fn exchange(
        &self,
        address: &str,
        command: Command,
        timeout: Duration,
        not_after: Option<Instant>,
    ) -> Result<Option<Command>, CallError> {
        let deadline = Instant::now() + timeout;
        let (reply, answer) = oneshot::channel();
        let claim = Claim::default();
        // Dropped with this future, also when the caller cancels it: what is not yet written stays unwritten.
        let withdrawal = claim.withdrawal();
        self.submit(address, Submission::Call(Outgoing { command, deadline, not_after, claim, reply }))?;
        match timeout_at(deadline, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => {
                let certainty = withdrawal.withdraw();
                Err(CallError::Lost { address: address.into(), cause: Lost::ByUs, certainty })
            }
            Err(_) => {
                let certainty = withdrawal.withdraw();
                Err(CallError::Timeout { address: address.into(), after: timeout, certainty })
            }
        }
    }

    fn submit(&self, address: &str, submission: Submission) -> Result<(), CallError> {
        let busy = || CallError::Busy { address: address.into() };
        let mut peers = self.shared.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut submission = submission;
        if let Some(peer) = peers.get(address) {
            match peer.try_send(submission) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(_)) => return Err(busy()),
                // It ended for want of work; a new one takes over.
                Err(mpsc::error::TrySendError::Closed(back)) => submission = back,
            }
        }
        peers.retain(|_, peer| !peer.is_closed());
        if peers.len() >= MAX_PEERS {
            return Err(busy());
        }
        let address: Arc<str> = address.into();
        let peer = self.spawn(Arc::clone(&address));
        let sent = peer.try_send(submission).map_err(|_| busy());
        peers.insert(address, peer);
        sent
    }

    fn spawn(&self, address: Arc<str>) -> mpsc::Sender<Submission> {
        let (sender, submissions) = mpsc::channel(QUEUED);
        let peer = Peer::new(
            address,
            Arc::clone(&self.shared.config),
            Arc::clone(&self.shared.connections),
            submissions,
            sender.downgrade(),
            self.shared.events.clone(),
        );
        tokio::spawn(peer.run());
        sender
    }
}

/// What is known of a request that was taken off the caller's hands.
const fn certainty(written: bool) -> Certainty {
    if written { Certainty::Unknown } else { Certainty::NotDone }
}
