//! Slots: one HTTP client per concurrent attempt, so that it is known exactly which connection a request used.

use std::{
    future::{Future, poll_fn},
    net::{Ipv4Addr, Ipv6Addr},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use lockstep_broker::Clock;
use lockstep_model::Moment;
use reqwest::{Client, redirect, retry};
use tower::{BoxError, Layer, Service};

/// A connection that is not there after so long will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Idle clients kept; as many as `maxInFlight` allows at most.
const KEPT: usize = 1024;

/// One client, used by one attempt at a time.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) client: Client,
    pub(super) probe: Arc<Probe>,
    clock: Clock,
    bounds: Bounds,
}

/// What a client is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    timeout: Duration,
    idle: Duration,
}

/// What the connector saw and may do. All fields concern the one attempt that holds the slot.
#[derive(Debug, Default)]
pub(super) struct Probe {
    connects: AtomicU64,
    connecting: AtomicBool,
    connected: AtomicBool,
    repeated: AtomicBool,
    expired: AtomicBool,
    not_after: AtomicU64,
}

/// Idle slots, the most recently used on top.
#[derive(Debug)]
pub(super) struct Slots {
    clock: Clock,
    idle_reuse: Duration,
    idle: Mutex<Vec<Slot>>,
}

/// A slot that goes back when dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    slots: &'a Slots,
    slot: Option<Slot>,
}

impl Slots {
    pub(super) fn new(clock: Clock, idle_reuse: Duration) -> Self {
        Self { clock, idle_reuse, idle: Mutex::new(Vec::new()) }
    }

    /// The most recently used slot made for this timeout, or a new one.
    pub(super) fn take(&self, timeout: Duration) -> Result<Held<'_>, reqwest::Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bounds = Bounds { timeout, idle: self.idle_reuse };
        let slot = match idle {
            Some(slot) if slot.bounds == bounds => slot,
            _ => Slot::new(self.clock, bounds)?,
        };
        Ok(Held { slots: self, slot: Some(slot) })
    }
}

impl Held<'_> {
    pub(super) fn slot(&mut self) -> &mut Slot {
        self.slot.as_mut().expect("a held slot must be there until it is dropped")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut idle = self.slots.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = self.slot.take().filter(|_| idle.len() < KEPT) {
            idle.push(slot);
        }
    }
}

impl Slot {
    fn new(clock: Clock, bounds: Bounds) -> Result<Self, reqwest::Error> {
        let probe = Arc::new(Probe::default());
        Ok(Self { client: client(clock, bounds, &probe)?, probe, clock, bounds })
    }

    /// Replaces the client, so that the next request surely uses a fresh connection.
    pub(super) fn renew(&mut self) -> Result<(), reqwest::Error> {
        self.client = client(self.clock, self.bounds, &self.probe)?;
        Ok(())
    }
}

impl Probe {
    /// Begins an attempt.
    pub(super) fn arm(&self, not_after: Option<Moment>) {
        self.not_after.store(not_after.map_or(u64::MAX, Moment::as_nanos), Relaxed);
        self.connecting.store(false, Relaxed);
        self.connected.store(false, Relaxed);
        self.repeated.store(false, Relaxed);
        self.expired.store(false, Relaxed);
    }

    /// Connections begun with this client.
    pub(super) fn connects(&self) -> u64 {
        self.connects.load(Relaxed)
    }

    /// A connection is being made just now.
    pub(super) fn connecting(&self) -> bool {
        self.connecting.load(Relaxed)
    }

    /// The last connection begun was made.
    pub(super) fn connected(&self) -> bool {
        self.connected.load(Relaxed)
    }

    /// A connection was there too late to write on it.
    pub(super) fn expired(&self) -> bool {
        self.expired.load(Relaxed)
    }

    /// The request is on its second connection.
    pub(super) fn repeated(&self) -> bool {
        self.repeated.load(Relaxed)
    }

    pub(super) fn repeat(&self) {
        self.repeated.store(true, Relaxed);
    }
}

fn client(clock: Clock, bounds: Bounds, probe: &Arc<Probe>) -> Result<Client, reqwest::Error> {
    let localhost = [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()];
    let builder = Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        // Without a bound of none the client would copy each request for a repeat that never comes.
        .retry(retry::never().max_retries_per_request(0))
        .http1_only()
        .tcp_nodelay(true)
        .tcp_keepalive(None)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(bounds.idle)
        .pool_max_idle_per_host(1)
        .resolve_to_addrs("localhost", &localhost)
        .connector_layer(Gate { clock, probe: Arc::clone(probe) });
    // An application that answers early and never reads the rest would keep its connection and the body for ever.
    #[cfg(target_os = "linux")]
    let builder = builder.tcp_user_timeout(bounds.timeout.max(Duration::from_secs(1)));
    builder.build()
}

/// Counts connections and refuses to hand one over after the attempt's last moment.
#[derive(Debug, Clone)]
struct Gate {
    clock: Clock,
    probe: Arc<Probe>,
}

/// The connector behind the gate. The client copies it several times for each request and hardly ever connects, so that a
/// copy must be cheap.
#[derive(Debug)]
struct Gated<S>(Arc<(Gate, S)>);

/// The connection was there after the attempt's last moment.
#[derive(Debug, thiserror::Error)]
#[error("the lease allows no request any more")]
struct TooLate;

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated(Arc::new((self.clone(), inner)))
    }
}

impl<S> Clone for Gated<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S, Target> Service<Target> for Gated<S>
where
    S: Service<Target, Error = BoxError> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    Target: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The copy that connects is asked.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Target) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let (Gate { clock, probe }, connector) = &*shared;
            let mut connector = connector.clone();
            probe.connects.fetch_add(1, Relaxed);
            probe.connecting.store(true, Relaxed);
            let connection = match poll_fn(|cx| connector.poll_ready(cx)).await {
                Ok(()) => connector.call(target).await,
                Err(error) => Err(error),
            };
            probe.connecting.store(false, Relaxed);
            probe.connected.store(connection.is_ok(), Relaxed);
            if clock.now().as_nanos() > probe.not_after.load(Relaxed) {
                probe.expired.store(true, Relaxed);
                return Err(TooLate.into());
            }
            connection
        })
    }
}
