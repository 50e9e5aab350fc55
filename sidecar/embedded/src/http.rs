mod event;
mod refusal;
mod view;

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{Body, BodyDataStream, Bytes},
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode, header},
    routing::{get, post},
};
use futures_util::StreamExt;
use serde::Serialize;
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};

use self::refusal::Refusal;
use crate::{Embedded, Published};

/// Body bytes that all requests together hold in memory; more requests wait.
const BODIES_BYTES: usize = 64 << 20;
/// How long a client may take to send one body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// What the handlers share.
#[derive(Debug)]
struct Server {
    broker: Embedded,
    body_limit: usize,
    /// One permit for each byte of a body in memory.
    room: Semaphore,
}

/// The answer to a publish.
#[derive(Debug, Serialize)]
struct Receipt {
    queue: String,
    position: u64,
    id: String,
}

/// Serves until the listener fails or the call is dropped.
pub(crate) async fn serve(broker: Embedded, listener: TcpListener) -> std::io::Result<()> {
    let body_limit = broker.inner().options.body_limit;
    let room = Semaphore::new(BODIES_BYTES.max(body_limit));
    let server = Arc::new(Server { broker, body_limit, room });
    let router = Router::new()
        .route("/", get(view::status))
        .route("/publish", post(publish))
        .route("/messages", get(view::messages))
        .route("/dead-letters", get(view::dead_letters))
        .route("/dead-letters/{id}/redrive", post(redrive))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(server);
    axum::serve(listener, router).await
}

async fn publish(
    State(server): State<Arc<Server>>,
    request: Request,
) -> Result<(StatusCode, Json<Receipt>), Refusal> {
    let (parts, body) = request.into_parts();
    let expected = announced_length(&parts.headers, server.body_limit)?;
    let permits = u32::try_from(expected).unwrap_or(u32::MAX);
    // Held until the answer: the body stays in memory until it is on disk.
    let _room = server.room.acquire_many(permits).await.map_err(|_| Refusal::closed())?;
    let body = timeout(BODY_TIMEOUT, read(body, expected, server.body_limit))
        .await
        .map_err(|_| Refusal::slow(BODY_TIMEOUT))??;
    let message = event::message(&parts.headers, body)?;
    let published = server.broker.publish(message).await?;
    Ok((StatusCode::CREATED, Json(published.into())))
}

async fn redrive(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Receipt>), Refusal> {
    let number = id.parse().map_err(|_| Refusal::bad_number("the dead letter's id", &id))?;
    match server.broker.redrive(number).await? {
        Some(published) => Ok((StatusCode::CREATED, Json(published.into()))),
        None => Err(Refusal::no_dead_letter(number)),
    }
}

async fn unknown_path() -> Refusal {
    Refusal::unknown_path()
}

async fn wrong_method() -> Refusal {
    Refusal::wrong_method()
}

/// The bytes to make room for: the announced length, or the limit where none is announced.
fn announced_length(headers: &HeaderMap, limit: usize) -> Result<usize, Refusal> {
    let Some(length) = headers.get(header::CONTENT_LENGTH) else { return Ok(limit) };
    let length = length.to_str().ok().and_then(|length| length.parse::<u64>().ok());
    match length.and_then(|length| usize::try_from(length).ok()) {
        Some(length) if length <= limit => Ok(length),
        Some(_) | None => Err(Refusal::too_large(limit)),
    }
}

async fn read(body: Body, expected: usize, limit: usize) -> Result<Bytes, Refusal> {
    let mut stream: BodyDataStream = body.into_data_stream();
    let Some(first) = stream.next().await else { return Ok(Bytes::new()) };
    let first = first.map_err(|error| Refusal::broken_body(&error))?;
    if first.len() == expected {
        return Ok(first);
    }
    let mut whole = first.to_vec();
    while let Some(part) = stream.next().await {
        let part = part.map_err(|error| Refusal::broken_body(&error))?;
        if whole.len() + part.len() > limit {
            return Err(Refusal::too_large(limit));
        }
        whole.extend_from_slice(&part);
    }
    Ok(Bytes::from(whole))
}

impl From<Published> for Receipt {
    fn from(published: Published) -> Self {
        Self {
            queue: published.name.as_ref().to_owned(),
            position: published.position.0,
            id: published.id.as_str().to_owned(),
        }
    }
}
