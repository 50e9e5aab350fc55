//! What the three halves share.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lockstep_broker::Problems;
use lockstep_exclusive::{Owners, Report};
use lockstep_model::{Epoch, Moment, QueueId};
use tokio::sync::mpsc;

use crate::{
    client::{Budget, OpenConfig},
    config::{BadCredentials, Config},
    consumer::{Consumer, Plan},
    problem::Rank,
};

/// So long it is told that the broker ended a consumer.
const ENDED_FOR: Duration = Duration::from_secs(600);

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) plan: Plan,
    /// Shared by all connections.
    pub(crate) budget: Budget,
    /// Bounded by queues.
    pub(crate) problems: Problems<Rank>,
    pub(crate) owners: Owners<Consumer>,
    /// To the keeper, which reads them at once: as many as there are queues and changes.
    reports: mpsc::UnboundedSender<Report>,
    /// When the broker last ended a queue's consumer, or did not know what was acknowledged.
    ends: Mutex<BTreeMap<QueueId, Moment>>,
}

impl Shared {
    pub(crate) fn new(config: Config, reports: mpsc::UnboundedSender<Report>) -> Self {
        Self {
            plan: Plan { mode: config.mode, lookahead: config.lookahead() },
            budget: Budget::new(config.bytes),
            config,
            problems: Problems::default(),
            owners: Owners::default(),
            reports,
            ends: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.config.clock.now()
    }

    /// The consumer that owns a queue under that epoch.
    pub(crate) fn owner(&self, queue: QueueId, epoch: Epoch) -> Option<Arc<Consumer>> {
        self.owners.owner(queue, epoch)
    }

    /// Tells the keeper; when it is gone there is nobody to be told.
    pub(crate) fn report(&self, report: Report) {
        let _: Result<(), _> = self.reports.send(report);
    }

    /// A queue's consumer was ended now.
    pub(crate) fn notes_end(&self, queue: QueueId) {
        self.ends().insert(queue, self.now());
    }

    /// Whether it is so long ago that a queue's consumer was ended that it is told no more.
    pub(crate) fn forgets_end(&self, queue: QueueId) -> bool {
        let mut ends = self.ends();
        let is_old = ends.get(&queue).is_some_and(|since| self.now().since(*since) >= ENDED_FOR);
        is_old && ends.remove(&queue).is_some()
    }

    fn ends(&self) -> MutexGuard<'_, BTreeMap<QueueId, Moment>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
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
