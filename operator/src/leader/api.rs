//! The Lease in the Kubernetes API.

use std::{future::Future, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::PostParams};
use thiserror::Error;
use tokio::time::timeout;

/// A request that takes longer has failed; whether it did something is unknown. Three fit into the renew deadline.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Where the Lease is kept. Every write is compared with what was read: the writer that comes second gets
/// [`ApiError::Conflict`].
pub(super) trait Leases: Send + Sync + 'static {
    /// Reads it; `None` = there is none.
    fn get(&self) -> impl Future<Output = Result<Option<Lease>, ApiError>> + Send;
    /// Writes it where there is none.
    fn create(&self, lease: &Lease) -> impl Future<Output = Result<Lease, ApiError>> + Send;
    /// Writes it over the version that it names.
    fn replace(&self, lease: &Lease) -> impl Future<Output = Result<Lease, ApiError>> + Send;
}

/// The Lease was not read or written.
#[derive(Debug, Error)]
pub(super) enum ApiError {
    /// It has changed since it was read, or is gone.
    #[error("the Lease was changed by somebody else")]
    Conflict,
    /// The API refused.
    #[error("failed to reach the Lease: {0}")]
    Refused(#[source] kube::Error),
    /// It did not answer; a write may have been done.
    #[error("the Kubernetes API did not answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Silent,
}

/// The real one.
#[derive(Debug, Clone)]
pub(super) struct InCluster {
    pub(super) api: Api<Lease>,
    pub(super) name: String,
}

impl Leases for InCluster {
    async fn get(&self) -> Result<Option<Lease>, ApiError> {
        bounded(self.api.get_opt(&self.name)).await
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError> {
        bounded(self.api.create(&PostParams::default(), lease)).await
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, ApiError> {
        bounded(self.api.replace(&self.name, &PostParams::default(), lease)).await
    }
}

async fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, ApiError> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(done)) => Ok(done),
        // 409 = another version or already there, 404 = gone.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Err(ApiError::Conflict),
        Ok(Err(error)) => Err(ApiError::Refused(error)),
        Err(_) => Err(ApiError::Silent),
    }
}
