use std::time::Duration;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::StoreError;

/// A request that is answered with an error: what is wrong and what to do.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    error: String,
}

impl Refusal {
    fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }

    pub(super) fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(super) fn bad_number(what: &str, found: &str) -> Self {
        Self::bad(format!("{what} must be a whole number, not '{}'", found.escape_debug()))
    }

    pub(super) fn unsupported(error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        let error = format!("the body is larger than {limit} bytes; send a smaller one");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, error)
    }

    pub(super) fn broken_body(error: &axum::Error) -> Self {
        Self::bad(format!("the body could not be read whole ({error}); send it again"))
    }

    pub(super) fn slow(limit: Duration) -> Self {
        let error = format!("the body did not arrive within {} s; send it again", limit.as_secs());
        Self::new(StatusCode::REQUEST_TIMEOUT, error)
    }

    pub(super) fn no_dead_letter(id: u64) -> Self {
        let error = format!("there is no dead letter {id}; GET /dead-letters lists them");
        Self::new(StatusCode::NOT_FOUND, error)
    }

    pub(super) fn no_queue(found: &str) -> Self {
        let error = format!("there is no queue '{}'; GET / names the queues", found.escape_debug());
        Self::new(StatusCode::NOT_FOUND, error)
    }

    pub(super) fn unknown_path() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "unknown path; there are GET /, POST /publish, GET /messages, GET /dead-letters and \
             POST /dead-letters/{id}/redrive",
        )
    }

    pub(super) fn wrong_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "wrong method; /publish and /redrive are POST, everything else is GET",
        )
    }

    pub(super) fn closed() -> Self {
        StoreError::Closed.into()
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let status = match error {
            StoreError::Full => StatusCode::INSUFFICIENT_STORAGE,
            StoreError::NoQueue(_) => StatusCode::NOT_FOUND,
            StoreError::OutOfRange { .. } => StatusCode::BAD_REQUEST,
            StoreError::Corrupt(_) | StoreError::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
            StoreError::Closed => StatusCode::SERVICE_UNAVAILABLE,
            StoreError::Slow(_) => StatusCode::GATEWAY_TIMEOUT,
        };
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.error }))).into_response()
    }
}
