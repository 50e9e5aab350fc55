//! What the three halves share.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lockstep_broker::Problems;
use lockstep_model::{Epoch, Moment, QueueId};
use tokio::sync::mpsc;

use crate::{
    client::{Budget, OpenConfig},
    config::{BadCredentials, Config},
    consumer::{Consumer, Plan},
    keeper::Report,
    problem::Rank,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) plan: Plan,
    /// Shared by all connections.
    pub(crate) budget: Budget,
    /// Bounded by queues.
    pub(crate) problems: Arc<Problems<Rank>>,
    /// To the keeper, which reads them at once: as many as there are queues and changes.
    pub(crate) reports: mpsc::UnboundedSender<Report>,
    /// The owners, one a queue.
    owners: Mutex<BTreeMap<QueueId, (Epoch, Arc<Consumer>)>>,
}

impl Shared {
    pub(crate) fn new(config: Config, reports: mpsc::UnboundedSender<Report>) -> Self {
        Self {
            plan: Plan { mode: config.mode, lookahead: config.lookahead() },
            budget: Budget::new(config.bytes),
            config,
            problems: Arc::default(),
            reports,
            owners: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.config.clock.now()
    }

    /// The consumer that owns a queue under that epoch.
    pub(crate) fn owner(&self, queue: QueueId, epoch: Epoch) -> Option<Arc<Consumer>> {
        let owners = self.owners();
        owners.get(&queue).filter(|(current, _)| *current == epoch).map(|(_, consumer)| Arc::clone(consumer))
    }

    pub(crate) fn begin(&self, queue: QueueId, epoch: Epoch, consumer: Arc<Consumer>) {
        self.owners().insert(queue, (epoch, consumer));
    }

    /// The ownership is over, or in doubt.
    pub(crate) fn end(&self, queue: QueueId, epoch: Epoch) {
        let mut owners = self.owners();
        if owners.get(&queue).is_some_and(|(current, _)| *current == epoch) {
            owners.remove(&queue);
        }
    }

    /// Tells the keeper; when it is gone there is nobody to be told.
    pub(crate) fn report(&self, report: Report) {
        let _: Result<(), _> = self.reports.send(report);
    }

    fn owners(&self) -> MutexGuard<'_, BTreeMap<QueueId, (Epoch, Arc<Consumer>)>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a connection is opened now, with the credentials as they are.
pub(crate) async fn open_config(config: &Config, budget: &Budget) -> Result<OpenConfig, BadCredentials> {
    Ok(OpenConfig {
        credentials: config.credentials.read().await?,
        tls: config.tls.clone(),
        client_id: client_id(&config.name),
        inactivity: config.inactivity,
        max_frame: config.max_frame,
        budget: budget.clone(),
        ..OpenConfig::default()
    })
}

/// No two connections of a broker may have the same: one that is gone may still be known to it.
fn client_id(name: &str) -> String {
    let mut bytes = [0; 8];
    // Without randomness the broker refuses a second one until it has forgotten the first.
    let _: Result<(), _> = getrandom::fill(&mut bytes);
    format!("{name}-{:016x}", u64::from_le_bytes(bytes))
}
