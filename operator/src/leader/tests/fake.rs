//! A Lease in memory, with faults for each client.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use tokio::time::sleep;

use super::super::api::{ApiError, Leases, REQUEST_TIMEOUT};

/// What happens to a client's requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    None,
    /// They fail at once.
    Refuse,
    /// They reach nobody and nobody answers.
    Silent,
    /// Writes are done, and their answers get lost.
    LostAnswer,
    /// They are done after a while and answered after another.
    Slow,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Store(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    lease: Option<Lease>,
    version: u64,
    faults: BTreeMap<usize, Fault>,
    reads: BTreeMap<usize, u64>,
}

#[derive(Debug)]
pub(super) struct Client {
    store: Store,
    client: usize,
}

impl Store {
    pub(super) fn client(&self, client: usize) -> Client {
        Client { store: self.clone(), client }
    }

    pub(super) fn fault(&self, client: usize, fault: Fault) {
        self.lock().faults.insert(client, fault);
    }

    pub(super) fn spec(&self) -> Option<LeaseSpec> {
        self.lock().lease.as_ref().and_then(|lease| lease.spec.clone())
    }

    pub(super) fn delete(&self) {
        self.lock().lease = None;
    }

    /// Somebody writes it with no regard for its holder.
    pub(super) fn steal(&self, holder: &str) {
        let mut inner = self.lock();
        let mut lease = inner.lease.clone().unwrap_or_default();
        lease.spec.get_or_insert_default().holder_identity = Some(holder.to_owned());
        inner.put(lease);
    }

    pub(super) fn renewed_at(&self, time: Timestamp) {
        let mut inner = self.lock();
        let mut lease = inner.lease.clone().unwrap();
        lease.spec.get_or_insert_default().renew_time = Some(MicroTime(time));
        inner.put(lease);
    }

    /// Waits until the client has read it so often from now on.
    pub(super) async fn reads(&self, client: usize, times: u64) {
        let read = || self.lock().reads.get(&client).copied().unwrap_or_default();
        let before = read();
        while read() < before + times {
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }
}

impl Inner {
    fn put(&mut self, mut lease: Lease) -> Lease {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        lease
    }
}

impl Client {
    async fn request<T>(
        &self,
        writes: bool,
        act: impl FnOnce(&mut Inner) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let fault = self.store.lock().faults.get(&self.client).copied().unwrap_or_default();
        match fault {
            Fault::None => act(&mut self.store.lock()),
            Fault::Refuse => {
                let status = kube::core::Status::failure("etcd is away", "ServiceUnavailable").with_code(503);
                Err(ApiError::Refused(kube::Error::Api(status.boxed())))
            }
            Fault::Silent => {
                sleep(REQUEST_TIMEOUT).await;
                Err(ApiError::Silent)
            }
            Fault::LostAnswer if !writes => act(&mut self.store.lock()),
            Fault::LostAnswer => {
                drop(act(&mut self.store.lock()));
                sleep(REQUEST_TIMEOUT).await;
                Err(ApiError::Silent)
            }
            Fault::Slow => {
                sleep(Duration::from_millis(1_900)).await;
                let answer = act(&mut self.store.lock());
                sleep(Duration::from_millis(1_900)).await;
                answer
            }
        }
    }
}

impl Leases for Client {
    async fn get(&self) -> Result<Option<Lease>, ApiError> {
        self.request(false, |inner| {
            *inner.reads.entry(self.client).or_default() += 1;
            Ok(inner.lease.clone())
        })
        .await
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.request(true, |inner| match inner.lease {
            Some(_) => Err(ApiError::Conflict),
            None => Ok(inner.put(lease.clone())),
        })
        .await
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.request(true, |inner| match &inner.lease {
            Some(there) if there.metadata.resource_version == lease.metadata.resource_version => {
                Ok(inner.put(lease.clone()))
            }
            Some(_) | None => Err(ApiError::Conflict),
        })
        .await
    }
}
