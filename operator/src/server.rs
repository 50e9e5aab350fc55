//! The operator's port: `/metrics`, and `/live` and `/ready` for its probes.
//!
//! A replica lives while its loop turns, and is ready while it follows or its watches are complete. Neither depends on
//! the groups.

mod listener;
#[cfg(test)]
mod tests;

use std::{
    future::{Future, IntoFuture},
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use thiserror::Error;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use listener::Bounded;

/// A loop that has not said for so long that it turns is hung. Far beyond the longest turn: a request to the API ends
/// within seconds by its own timeout.
pub const HEARTBEAT_MAX: Duration = Duration::from_secs(60);

/// What there is, for whoever asks for something else.
const WHAT_IS_HERE: &str = "GET /metrics /live /ready\n";

/// What the loop tells the probes. A replica that never began to lead has no loop, lives and is ready.
#[derive(Debug, Default)]
pub struct Probes {
    /// When the loop turned last; `None` = there is no loop.
    beat: Mutex<Option<Instant>>,
    /// A loop is there and its watches are not complete yet.
    syncing: AtomicBool,
}

/// The port can't be opened.
#[derive(Debug, Error)]
#[error("failed to listen on {address}: {source}; name a free address with --listen")]
pub struct ServerError {
    address: SocketAddr,
    source: io::Error,
}

impl Probes {
    /// The loop turns: it says so at its start and then at least every ten seconds.
    pub fn beat(&self) {
        *self.beat.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// The loop ended as it should.
    pub fn rest(&self) {
        *self.beat.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the watches of the loop are complete.
    pub fn synced(&self, complete: bool) {
        self.syncing.store(!complete, Ordering::Relaxed);
    }

    fn hung_for(&self) -> Option<Duration> {
        let beat = *self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        beat.map(|beat| beat.elapsed()).filter(|silence| *silence > HEARTBEAT_MAX)
    }
}

/// Opens the port; answers its address and the server, which runs until `stop` is cancelled and the answers under way
/// are written.
pub async fn listen(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    probes: Arc<Probes>,
    stop: CancellationToken,
) -> Result<(SocketAddr, impl Future<Output = io::Result<()>> + Send + 'static), ServerError> {
    let refused = |source| ServerError { address, source };
    let listener = Bounded::bind(address).await.map_err(refused)?;
    let bound = listener.address().map_err(refused)?;
    let server =
        axum::serve(listener, router(metrics, probes)).with_graceful_shutdown(stop.cancelled_owned());
    Ok((bound, server.into_future()))
}

fn router(metrics: Arc<Metrics>, probes: Arc<Probes>) -> Router {
    Router::new()
        .route("/live", get(live))
        .route("/ready", get(ready))
        .with_state(probes)
        .route("/metrics", get(show).with_state(metrics))
        .fallback(async |_: Request| (StatusCode::NOT_FOUND, WHAT_IS_HERE))
        .method_not_allowed_fallback(async || (StatusCode::METHOD_NOT_ALLOWED, WHAT_IS_HERE))
}

async fn live(State(probes): State<Arc<Probes>>) -> (StatusCode, String) {
    match probes.hung_for() {
        None => (StatusCode::OK, "live\n".to_owned()),
        Some(silence) => {
            let seconds = silence.as_secs();
            (StatusCode::SERVICE_UNAVAILABLE, format!("the loop has not turned for {seconds} s\n"))
        }
    }
}

async fn ready(State(probes): State<Arc<Probes>>) -> (StatusCode, &'static str) {
    match probes.syncing.load(Ordering::Relaxed) {
        false => (StatusCode::OK, "ready\n"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "the watches are not complete yet\n"),
    }
}

async fn show(State(metrics): State<Arc<Metrics>>) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (kind, metrics.encode()).into_response()
}
