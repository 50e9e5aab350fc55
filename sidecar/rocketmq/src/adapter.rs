use std::{collections::BTreeMap, sync::Arc};

use lockstep_broker::Broker;
use lockstep_model::{Capabilities, DeadLetterBy, Ownership, Settlement};
use tokio::sync::mpsc;

use crate::{
    codec::HeaderEncoding,
    config::Config,
    keeper::{self, RocketKeeper},
    reader::RocketReader,
    remoting::{Event, Remoting, RemotingConfig},
    settler::RocketSettler,
    shared::{Shared, Stats},
};

/// A RocketMQ source, not yet joined to its group.
#[derive(Debug)]
pub struct RocketMq {
    shared: Arc<Shared>,
    events: mpsc::Receiver<Event>,
}

impl RocketMq {
    /// What this adapter can do; known before there is a source.
    pub const CAPABILITIES: Capabilities = Capabilities {
        ownership: Ownership::Lock,
        settlement: Settlement::Cumulative,
        dead_letter: DeadLetterBy::Broker,
        reread: true,
        lookahead: None,
        release_keeps_order: true,
    };

    /// Prepares a source. Nothing is sent before it joins its group.
    pub fn new(config: Config) -> Self {
        let (remoting, events) = Remoting::new(remoting_config(&config));
        Self { shared: Arc::new(Shared::new(config, remoting)), events }
    }

    /// The session's counters.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.shared.stats)
    }
}

/// How a source connects.
pub(crate) fn remoting_config(config: &Config) -> RemotingConfig {
    let overrides: BTreeMap<String, String> = config.address_overrides.clone();
    RemotingConfig {
        overrides,
        tls: config.tls.clone(),
        credentials: config.credentials.clone(),
        encoding: HeaderEncoding::Json,
        ..RemotingConfig::default()
    }
}

impl Broker for RocketMq {
    type Reader = RocketReader;
    type Settler = RocketSettler;
    type Keeper = RocketKeeper;

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn split(self) -> (RocketReader, RocketSettler, RocketKeeper) {
        let reader = RocketReader::new(Arc::clone(&self.shared));
        let settler = RocketSettler::new(Arc::clone(&self.shared));
        (reader, settler, keeper::start(self.shared, self.events))
    }
}
