//! What the three halves share.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lockstep_broker::Problems;
use lockstep_exclusive::{Owners, Report};
use lockstep_model::{Epoch, Moment, QueueId};
use tokio::sync::mpsc;

use crate::{
    amqp::{Budget, OpenConfig},
    config::{BadCredentials, Config, Prefetch},
    consumer::Consumer,
    dead_letter::Publisher,
    keeper::Kept,
    problem::Rank,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) prefetch: Prefetch,
    /// Shared by all connections.
    pub(crate) budget: Budget,
    /// Bounded by queues.
    pub(crate) problems: Arc<Problems<Rank>>,
    pub(crate) publisher: Publisher,
    /// To the keeper, which reads them at once: as many as there are queues and changes.
    pub(crate) reports: mpsc::UnboundedSender<Report>,
    pub(crate) owners: Owners<Consumer>,
    kept: Mutex<BTreeMap<QueueId, Kept>>,
}

impl Shared {
    pub(crate) fn new(config: Config, reports: mpsc::UnboundedSender<Report>) -> Self {
        Self {
            prefetch: config.prefetch(),
            budget: Budget::new(config.bytes),
            config,
            problems: Arc::default(),
            publisher: Publisher::default(),
            reports,
            owners: Owners::default(),
            kept: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.config.clock.now()
    }

    /// The consumer that owns a queue under that epoch.
    pub(crate) fn owner(&self, queue: QueueId, epoch: Epoch) -> Option<Arc<Consumer>> {
        self.owners.owner(queue, epoch)
    }

    /// Works on what is kept of a queue.
    pub(crate) fn with_kept<T>(&self, queue: QueueId, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(self.kept().entry(queue).or_default())
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, BTreeMap<QueueId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a connection is opened now.
    pub(crate) async fn open_config(&self, name: &str) -> Result<OpenConfig, BadCredentials> {
        open_config(&self.config, name, &self.budget).await
    }
}

/// How a connection is opened now, with the credentials as they are.
pub(crate) async fn open_config(
    config: &Config,
    name: &str,
    budget: &Budget,
) -> Result<OpenConfig, BadCredentials> {
    Ok(OpenConfig {
        vhost: config.vhost.clone(),
        heartbeat: config.heartbeat,
        credentials: config.credentials.read().await?,
        tls: config.tls.clone(),
        name: name.to_owned(),
        budget: budget.clone(),
        ..OpenConfig::default()
    })
}
