use std::sync::Arc;

use lockstep_broker::Broker;
use lockstep_exclusive::Report;
use lockstep_model::{Capabilities, DeadLetterBy, Ownership, Settlement};
use tokio::sync::mpsc;

use crate::{
    config::{Config, DeadLetter},
    keeper::{self, RabbitKeeper},
    reader::RabbitReader,
    settler::RabbitSettler,
    shared::Shared,
};

/// A RabbitMQ source, not yet joined to its group.
#[derive(Debug)]
pub struct RabbitMq {
    shared: Arc<Shared>,
    reports: mpsc::UnboundedReceiver<Report>,
}

impl RabbitMq {
    /// What a source of that configuration can do; known before there is one.
    pub fn capabilities(config: &Config) -> Capabilities {
        Capabilities {
            ownership: Ownership::ExclusiveConsumer,
            settlement: Settlement::PerDelivery,
            dead_letter: match config.dead_letter {
                DeadLetter::None => DeadLetterBy::Unsupported,
                DeadLetter::Queue(_) | DeadLetter::Broker => DeadLetterBy::Broker,
            },
            reread: false,
            lookahead: Some(config.prefetch().count.into()),
            release_keeps_order: true,
        }
    }

    /// Prepares a source. Nothing is sent before it joins its group.
    pub fn new(config: Config) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        Self { shared: Arc::new(Shared::new(config, sender)), reports }
    }
}

impl Broker for RabbitMq {
    type Reader = RabbitReader;
    type Settler = RabbitSettler;
    type Keeper = RabbitKeeper;

    fn capabilities(&self) -> Capabilities {
        Self::capabilities(&self.shared.config)
    }

    fn split(self) -> (RabbitReader, RabbitSettler, RabbitKeeper) {
        let reader = RabbitReader::new(Arc::clone(&self.shared));
        let settler = RabbitSettler::new(Arc::clone(&self.shared));
        (reader, settler, keeper::start(self.shared, self.reports))
    }
}
