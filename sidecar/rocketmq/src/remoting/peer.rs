use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockstep_broker::Certainty;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tracing::{debug, info, warn};

use super::{
    BackoffCause, CallError, ConnectError, Event, Lost, RemotingConfig,
    backoff::Backoff,
    call::{Outgoing, Submission},
    connection::Connection,
    dial::{Dialed, dial},
};

/// A task without a connection and without work ends after this time.
const IDLE: Duration = Duration::from_secs(60);

/// A connection that ends sooner without having brought anything counts as a failed connect.
const SHORT: Duration = Duration::from_secs(5);

/// The task of one address: connects when there is something to send, serves the connection until it ends, and waits
/// longer after each failure.
pub(super) struct Peer {
    address: Arc<str>,
    config: Arc<RemotingConfig>,
    connections: Arc<AtomicU64>,
    submissions: mpsc::Receiver<Submission>,
    own: mpsc::WeakSender<Submission>,
    events: mpsc::Sender<Event>,
    backoff: Backoff,
}

impl Peer {
    pub(super) fn new(
        address: Arc<str>,
        config: Arc<RemotingConfig>,
        connections: Arc<AtomicU64>,
        submissions: mpsc::Receiver<Submission>,
        own: mpsc::WeakSender<Submission>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        Self { address, config, connections, submissions, own, events, backoff: Backoff::default() }
    }

    /// Ends when nobody can call any more, or nobody did for a while.
    pub(super) async fn run(mut self) {
        loop {
            let outgoing = match timeout(IDLE, self.submissions.recv()).await {
                Ok(Some(Submission::Call(outgoing))) => outgoing,
                Ok(Some(Submission::Answer { .. } | Submission::Close)) => continue,
                Ok(None) => return,
                Err(_) => return self.retire().await,
            };
            match self.backoff.remaining(Instant::now()) {
                Some((retry_in, cause)) => {
                    let address = Arc::clone(&self.address);
                    outgoing.fail(CallError::Backoff { address, retry_in, cause });
                }
                None => self.connect(outgoing).await,
            }
        }
    }

    /// Takes nothing more; what slipped in is surely not done.
    async fn retire(mut self) {
        self.submissions.close();
        while let Some(submission) = self.submissions.recv().await {
            if let Submission::Call(outgoing) = submission {
                let address = Arc::clone(&self.address);
                let certainty = Certainty::NotDone;
                outgoing.fail(CallError::Lost { address, cause: Lost::ByUs, certainty });
            }
        }
    }

    async fn connect(&mut self, first: Outgoing) {
        match dial(&self.config, &self.address).await {
            Ok(dialed) => self.serve(dialed, first).await,
            Err(cause) => {
                // Said once an outage, however often it is tried.
                if self.backoff.is_first() {
                    warn!(address = %self.address, error = %cause, "peer can't be reached");
                } else {
                    debug!(address = %self.address, error = %cause, "peer still can't be reached");
                }
                self.failed(cause.clone().into());
                self.fail_queued(first, &cause);
            }
        }
    }

    /// Those that waited for the connect as well fail with it; waiting longer would not help them.
    fn fail_queued(&mut self, first: Outgoing, cause: &ConnectError) {
        let error = || CallError::Connect { address: Arc::clone(&self.address), cause: cause.clone() };
        first.fail(error());
        while let Ok(submission) = self.submissions.try_recv() {
            if let Submission::Call(outgoing) = submission {
                outgoing.fail(error());
            }
        }
    }

    async fn serve(&mut self, dialed: Dialed, first: Outgoing) {
        let id = self.connections.fetch_add(1, Ordering::Relaxed);
        info!(address = %self.address, connection = id, "connected");
        let opened = Instant::now();
        let mut connection = Connection::new(
            Arc::clone(&self.address),
            id,
            self.config.encoding,
            dialed.credentials,
            self.own.clone(),
        );
        connection.submit(Submission::Call(first));
        let reason = connection.serve(dialed.stream, &mut self.submissions, &self.events).await;
        let by_us = matches!(reason, Lost::ByUs);
        if connection.was_useful() || by_us || opened.elapsed() >= SHORT {
            self.backoff.succeeded();
        } else {
            self.failed(reason.clone().into());
        }
        info!(address = %self.address, connection = id, reason = %reason, "disconnected");
        for event in connection.end(&reason) {
            self.tell(event).await;
        }
        self.tell(Event::Down { address: Arc::clone(&self.address), connection: id, reason }).await;
    }

    async fn tell(&self, event: Event) {
        if self.events.send(event).await.is_err() {
            debug!(address = %self.address, "nobody listens to events");
        }
    }

    fn failed(&mut self, cause: BackoffCause) {
        // Without randomness the wait is merely not jittered.
        let jitter = getrandom::u32().unwrap_or(u32::MAX).to_le_bytes();
        self.backoff.failed(Instant::now(), cause, u16::from_le_bytes([jitter[0], jitter[1]]));
    }
}
