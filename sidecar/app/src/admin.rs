//! The admin port: probes, metrics and status for the pod network; commands for loopback only.
//!
//! | path | who | what |
//! |---|---|---|
//! | `GET /live` | pod network | 200 while the process turns |
//! | `GET /ready` | pod network | 200 once the application was healthy and the source connected |
//! | `GET /metrics` | pod network | OpenMetrics |
//! | `GET /status` | pod network | the status document, without any payload |
//! | `GET /wait-for-drain/<group uid>` | pod network | holds dispatch, answers when nothing is in flight |
//! | `POST /drain` | loopback | begins the drain |
//! | `POST /log-level` | loopback | the new level is the body |
//! | `POST /skip`, `POST /dead-letter` | loopback | `{"queue": …, "messageId": …}` |

mod listener;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{ConnectInfo, DefaultBodyLimit, Path, Request, State, rejection::JsonRejection},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use lockstep_contract::{Status, names::admin};
use lockstep_core::ByHand;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    metrics::Metrics,
    runtime::{ByHandError, Command},
    telemetry::LogLevel,
};
use listener::{Bounded, Peer};

/// Names of a queue and a message, with room to spare.
const BODY_BYTES_MAX: usize = 4_096;
/// The loop answers within a turn; beyond this it is stuck, and a probe should rather see an error than wait.
const LOOP_TIMEOUT: Duration = Duration::from_secs(5);

/// What there is, for whoever asks for something else.
const WHAT_IS_HERE: &str = "GET /live /ready /metrics /status /wait-for-drain/<group uid>, \
                            POST /drain /log-level /skip /dead-letter\n";
/// The hook of another group, or a curious person: it holds dispatch, so it is not for everybody.
const OTHER_GROUP: (StatusCode, &str) =
    (StatusCode::FORBIDDEN, "the path must end with the UID of this group: /wait-for-drain/<metadata.uid>\n");

/// What the admin port needs of the rest of the process.
#[derive(Clone)]
pub struct Admin {
    /// To the loop.
    pub commands: mpsc::Sender<Command>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Set while the pod is ready.
    pub ready: Arc<AtomicBool>,
    /// The logs' level.
    pub log_level: LogLevel,
    /// The group's UID, which the path of the shutdown hook must carry.
    pub group_uid: Option<Arc<str>>,
    /// Fills in what the loop does not know: who the sidecar is and what it is configured with.
    pub identify: Identify,
}

/// Fills in a part of the status document.
pub type Identify = Arc<dyn Fn(&mut Status) + Send + Sync>;

/// The admin port can't be opened.
#[derive(Debug, Error)]
pub enum AdminError {
    /// Somebody else listens there.
    #[error(
        "port {port}, the admin port, is in use by another process here; set spec.sidecar.adminPort to a free port \
         (in a pod, application and sidecar share one network)"
    )]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// Another reason.
    #[error("failed to listen on port {port}: {source}; set sidecar.adminPort to a port that may be opened")]
    Listen {
        /// The port.
        port: u16,
        /// What the system says.
        source: io::Error,
    },
}

/// A body of `/skip` and `/dead-letter`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageRef {
    /// The queue's name.
    pub queue: String,
    /// The message's id.
    pub message_id: String,
}

/// Opens the port; answers its number and the server, which runs until `stop` is closed and the answers under way are
/// written.
pub async fn listen(
    port: u16,
    state: Admin,
    mut stop: watch::Receiver<()>,
) -> Result<(u16, impl Future<Output = io::Result<()>> + Send + 'static), AdminError> {
    let refused = |source: io::Error| match source.kind() == io::ErrorKind::AddrInUse {
        true => AdminError::PortInUse { port },
        false => AdminError::Listen { port, source },
    };
    let listener = listener::bind(port).await.map_err(refused)?;
    let port = listener.port().unwrap_or(port);
    let service = router(state).into_make_service_with_connect_info::<Peer>();
    let stop = async move { while stop.changed().await.is_ok() {} };
    let server = axum::serve::<Bounded, _, _>(listener, service).with_graceful_shutdown(stop);
    Ok((port, async move { server.await }))
}

fn router(state: Admin) -> Router {
    let loopback = Router::new()
        .route(admin::DRAIN, post(drain))
        .route(admin::LOG_LEVEL, post(log_level))
        .route(admin::SKIP, post(skip))
        .route(admin::DEAD_LETTER, post(dead_letter))
        .layer(middleware::from_fn(only_loopback));
    Router::new()
        .route(admin::LIVE, get(async || "live\n"))
        .route(admin::READY, get(ready))
        .route(admin::METRICS, get(metrics))
        .route(admin::STATUS, get(status))
        .route(&format!("{}/{{uid}}", admin::WAIT_FOR_DRAIN), get(wait_for_drain))
        .route(admin::WAIT_FOR_DRAIN, get(async || OTHER_GROUP))
        .merge(loopback)
        .fallback(async || (StatusCode::NOT_FOUND, WHAT_IS_HERE))
        .method_not_allowed_fallback(async || (StatusCode::METHOD_NOT_ALLOWED, WHAT_IS_HERE))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(state)
}

async fn only_loopback(ConnectInfo(peer): ConnectInfo<Peer>, request: Request, next: Next) -> Response {
    if peer.is_loopback() {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, "only answered on loopback: use kubectl exec\n").into_response()
    }
}

async fn ready(State(state): State<Admin>) -> (StatusCode, &'static str) {
    match state.ready.load(Ordering::Relaxed) {
        true => (StatusCode::OK, "ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready: see /status\n"),
    }
}

async fn metrics(State(state): State<Admin>) -> Response {
    // The loop brings the gauges up to date as it answers; without an answer the counters are still true.
    drop(state.status().await);
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (kind, state.metrics.encode()).into_response()
}

async fn status(State(state): State<Admin>) -> Result<Response, StatusCode> {
    let mut status = state.status().await.ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    (state.identify)(&mut status);
    Ok(Json(status).into_response())
}

async fn wait_for_drain(State(state): State<Admin>, Path(uid): Path<String>) -> (StatusCode, &'static str) {
    if state.group_uid.as_deref() != Some(uid.as_str()) {
        return OTHER_GROUP;
    }
    let (reply, quiet) = oneshot::channel();
    // An error means that the loop has ended, and then nothing is in flight.
    if state.commands.send(Command::Hold(reply)).await.is_ok() {
        drop(quiet.await);
    }
    (StatusCode::OK, "nothing is in flight\n")
}

async fn drain(State(state): State<Admin>) -> StatusCode {
    // A closed channel means that a drain is over.
    drop(state.commands.send(Command::Drain).await);
    StatusCode::ACCEPTED
}

async fn log_level(State(state): State<Admin>, level: String) -> (StatusCode, String) {
    match state.log_level.set(level.trim()) {
        Ok(()) => (StatusCode::OK, String::new()),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}

async fn skip(state: State<Admin>, body: Result<Json<MessageRef>, JsonRejection>) -> (StatusCode, String) {
    by_hand(state, body, ByHand::Skip).await
}

async fn dead_letter(
    state: State<Admin>,
    body: Result<Json<MessageRef>, JsonRejection>,
) -> (StatusCode, String) {
    by_hand(state, body, ByHand::DeadLetter).await
}

async fn by_hand(
    State(state): State<Admin>,
    body: Result<Json<MessageRef>, JsonRejection>,
    action: ByHand,
) -> (StatusCode, String) {
    let MessageRef { queue, message_id } = match body {
        Ok(Json(body)) => body,
        Err(error) => return (error.status(), format!("{}\n", error.body_text())),
    };
    let (reply, result) = oneshot::channel();
    let command = Command::ByHand { queue, message_id, action, reply };
    if state.commands.send(command).await.is_err() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the sidecar is ending\n".to_owned());
    }
    match tokio::time::timeout(LOOP_TIMEOUT, result).await {
        Ok(Ok(Ok(()))) => (StatusCode::OK, "done\n".to_owned()),
        Ok(Ok(Err(error @ (ByHandError::UnknownQueue(_) | ByHandError::NotAHead(_))))) => {
            (StatusCode::NOT_FOUND, format!("{error}\n"))
        }
        Ok(Err(_)) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the sidecar is ending\n".to_owned()),
    }
}

impl Admin {
    async fn status(&self) -> Option<Box<Status>> {
        let (reply, status) = oneshot::channel();
        let ask = async {
            self.commands.send(Command::Status(reply)).await.ok()?;
            status.await.ok()
        };
        tokio::time::timeout(LOOP_TIMEOUT, ask).await.ok().flatten()
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("group_uid", &self.group_uid).finish_non_exhaustive()
    }
}
