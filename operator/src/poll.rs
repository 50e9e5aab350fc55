//! Asks pods how they are.

mod answers;
mod bound;
mod http;

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures_util::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::Pod;
use lockstep_contract::{STATUS_FORMAT, Status, names::SIDECAR_CONTAINER};
use tokio::sync::Semaphore;

pub use answers::Answers;
use bound::{bounded, is_too_rich};
use http::Http;

use crate::PodReport;

/// Pods asked at the same time.
const PODS_MAX: usize = 64;

/// Fetches what a sidecar says: over HTTP, or what a test makes up.
pub trait Fetch: fmt::Debug + Send + Sync {
    /// The text at a sidecar's `/status`, or in a few words why there is none. It ends by itself, and its text is bounded.
    fn fetch(&self, sidecar: SocketAddr) -> BoxFuture<'_, Result<Vec<u8>, String>>;
}

/// Asks pods how they are; one for all groups.
#[derive(Debug, Clone)]
pub struct Poller {
    fetch: Arc<dyn Fetch>,
    pods: Arc<Semaphore>,
}

impl Poller {
    /// One that asks over HTTP.
    ///
    /// # Errors
    ///
    /// The HTTP client can't be built.
    pub fn new() -> Result<Self, reqwest::Error> {
        Ok(Self::over(Arc::new(Http::new()?)))
    }

    /// One that asks over something else.
    pub fn over(fetch: Arc<dyn Fetch>) -> Self {
        Self { fetch, pods: Arc::new(Semaphore::new(PODS_MAX)) }
    }

    /// Asks pods, by name. `port` is where a pod's sidecar is asked that names no port.
    pub async fn ask(&self, pods: Vec<(String, Place)>, port: u16) -> BTreeMap<String, PodReport> {
        let asked = pods.into_iter().map(|(name, place)| async move {
            let address = SocketAddr::new(place.ip, place.port.unwrap_or(port));
            (name, self.ask_one(address).await)
        });
        join_all(asked).await.into_iter().collect()
    }

    async fn ask_one(&self, address: SocketAddr) -> PodReport {
        // Never closed.
        let _permit = self.pods.acquire().await;
        match self.fetch.fetch(address).await.and_then(|body| read(&body)) {
            Ok(status) => PodReport::Answered(Arc::new(status)),
            Err(why) => PodReport::Unreachable(why),
        }
    }
}

fn read(body: &[u8]) -> Result<Status, String> {
    let not_a_sidecars = || "its answer is not a sidecar's".to_owned();
    if is_too_rich(body) {
        return Err(not_a_sidecars());
    }
    let status: Status = serde_json::from_slice(body).map_err(|_| not_a_sidecars())?;
    match status.format {
        format if format <= STATUS_FORMAT => Ok(bounded(status)),
        _ => Err("its sidecar is newer than the operator can read; upgrade the operator".to_owned()),
    }
}

/// Where a pod's sidecar is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    ip: IpAddr,
    /// A pod made before `sidecar.adminPort` changed listens at its own.
    port: Option<u16>,
}

impl Place {
    /// That of a pod; `None` when its sidecar can't answer, since it does not run.
    pub fn of(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        if status.phase.as_deref() != Some("Running") {
            return None;
        }
        let ip = status.pod_ip.as_deref()?.parse().ok()?;
        let containers =
            pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        let port = containers
            .filter(|container| container.name == SIDECAR_CONTAINER)
            .flat_map(|container| container.ports.iter().flatten())
            .find_map(|port| u16::try_from(port.container_port).ok());
        Some(Self { ip, port })
    }
}

#[cfg(test)]
mod tests;
