//! Asks pods how they are.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use lockstep_contract::{
    STATUS_FORMAT, Status,
    names::{SIDECAR_CONTAINER, admin},
};
use reqwest::redirect;
use tokio::sync::Semaphore;

use crate::PodReport;

/// The longest wait for a pod's answer: it comes from memory within milliseconds.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait for a connection. A pod that is gone answers nothing at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest answer: a thousand queues with sixteen blocked messages each.
const ANSWER_MAX: usize = 4 * 1024 * 1024;
/// Pods asked at the same time.
const PODS_MAX: usize = 64;
/// Answers read at the same time, so that their bodies together stay bounded.
const BODIES_MAX: usize = 4;

/// Asks pods how they are; one for all groups.
#[derive(Debug, Clone)]
pub struct Poller {
    http: reqwest::Client,
    pods: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl Poller {
    /// A new one.
    ///
    /// # Errors
    ///
    /// The HTTP client can't be built.
    pub fn new() -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            // The pod's address comes from the API; where an answer points to is nobody's business.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            // Kept connections to hundreds of pods would be most of the operator's memory.
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self {
            http,
            pods: Arc::new(Semaphore::new(PODS_MAX)),
            bodies: Arc::new(Semaphore::new(BODIES_MAX)),
        })
    }

    /// Asks every running pod, by name. `port` is where a pod's sidecar is asked that names no port.
    pub async fn ask(&self, pods: &[Arc<Pod>], port: u16) -> BTreeMap<String, PodReport> {
        let asked = pods.iter().filter_map(|pod| {
            let address = address(pod, port)?;
            let name = pod.name_any();
            Some(async move { (name, self.ask_one(address).await) })
        });
        join_all(asked).await.into_iter().collect()
    }

    async fn ask_one(&self, address: SocketAddr) -> PodReport {
        // Never closed.
        let _permit = self.pods.acquire().await;
        match self.get(address).await {
            Ok(status) => PodReport::Answered(Box::new(status)),
            Err(why) => PodReport::Unreachable(why),
        }
    }

    async fn get(&self, address: SocketAddr) -> Result<Status, String> {
        let url = format!("http://{address}{}", admin::STATUS);
        let mut response = self.http.get(url).send().await.map_err(|error| in_words(&error))?;
        if !response.status().is_success() {
            return Err(format!("it answered {}", response.status().as_u16()));
        }
        let _permit = self.bodies.acquire().await;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| in_words(&error))? {
            if body.len().saturating_add(chunk.len()) > ANSWER_MAX {
                return Err(format!("its answer is longer than {ANSWER_MAX} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        let status: Status =
            serde_json::from_slice(&body).map_err(|_| "its answer is not a sidecar's".to_owned())?;
        match status.format {
            format if format <= STATUS_FORMAT => Ok(status),
            _ => Err("its sidecar is newer than the operator can read; upgrade the operator".to_owned()),
        }
    }
}

fn in_words(error: &reqwest::Error) -> String {
    let words = match () {
        () if error.is_timeout() => "it did not answer in time",
        () if error.is_connect() => "no connection",
        () => "the connection broke",
    };
    words.to_owned()
}

/// Where a pod's sidecar is asked; `None` when it can't answer, since it does not run.
fn address(pod: &Pod, port: u16) -> Option<SocketAddr> {
    let status = pod.status.as_ref()?;
    if status.phase.as_deref() != Some("Running") {
        return None;
    }
    let ip: IpAddr = status.pod_ip.as_deref()?.parse().ok()?;
    let containers =
        pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    // A pod made before `sidecar.adminPort` changed listens at its own.
    let own = containers
        .filter(|container| container.name == SIDECAR_CONTAINER)
        .flat_map(|container| container.ports.iter().flatten())
        .find_map(|port| u16::try_from(port.container_port).ok());
    Some(SocketAddr::new(ip, own.unwrap_or(port)))
}

#[cfg(test)]
mod tests;
