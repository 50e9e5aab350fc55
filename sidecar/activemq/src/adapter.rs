use std::sync::Arc;

use lockstep_broker::Broker;
use lockstep_exclusive::Report;
use lockstep_model::{Capabilities, DeadLetterBy, Ownership, Settlement};
use tokio::sync::mpsc;

use crate::{
    config::Config,
    keeper::{self, ActiveKeeper},
    reader::ActiveReader,
    settler::ActiveSettler,
    shared::Shared,
};

/// An ActiveMQ source, not yet joined to its group.
#[derive(Debug)]
pub struct ActiveMq {
    shared: Arc<Shared>,
    reports: mpsc::UnboundedReceiver<Report>,
}

impl ActiveMq {
    /// What a source of that configuration can do; known before there is one.
    pub fn capabilities(config: &Config) -> Capabilities {
        Capabilities {
            ownership: Ownership::ExclusiveConsumer,
            settlement: Settlement::PerDelivery,
            dead_letter: DeadLetterBy::Broker,
            reread: false,
            lookahead: Some(config.lookahead()),
            release_keeps_order: true,
        }
    }

    /// Prepares a source. Nothing is sent before it joins its group.
    pub fn new(config: Config) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        Self { shared: Arc::new(Shared::new(config, sender)), reports }
    }
}

impl Broker for ActiveMq {
    type Reader = ActiveReader;
    type Settler = ActiveSettler;
    type Keeper = ActiveKeeper;

    fn capabilities(&self) -> Capabilities {
        Self::capabilities(&self.shared.config)
    }

    fn split(self) -> (ActiveReader, ActiveSettler, ActiveKeeper) {
        let reader = ActiveReader::new(Arc::clone(&self.shared));
        let settler = ActiveSettler::new(Arc::clone(&self.shared));
        (reader, settler, keeper::start(self.shared, self.reports))
    }
}
