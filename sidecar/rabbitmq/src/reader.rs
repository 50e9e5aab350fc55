//! The reading half: takes what the broker has handed out.

use std::{sync::Arc, time::Duration};

use lockstep_broker::{BrokerError, FetchRequest, Fetched, Reader};
use tokio::time::{Instant, timeout_at};

use crate::{consumer::Taken, keeper::Awaited, problem::not_owned, shared::Shared};

const FETCH: &str = "fetch";
/// How long a fetch waits for a delivery.
const HOLD: Duration = Duration::from_secs(20);
/// Before a refusal, so that nobody asks in a tight loop.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Reads owned queues. Clones share everything.
#[derive(Debug, Clone)]
pub struct RabbitReader {
    shared: Arc<Shared>,
}

impl RabbitReader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Reader for RabbitReader {
    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, BrokerError> {
        let shared = &self.shared;
        let Some(consumer) = shared.owner(request.queue, request.epoch) else {
            tokio::time::sleep(REFUSED_PAUSE).await;
            return Err(not_owned(FETCH));
        };
        let end = Instant::now() + HOLD;
        loop {
            let changed = consumer.changed();
            match consumer.take(request, &shared.config.key, shared.now()) {
                Taken::Deliveries(deliveries, next) => {
                    return Ok(Fetched::Deliveries { deliveries, next, end: None });
                }
                Taken::NotOwned => return Err(not_owned(FETCH)),
                Taken::NoRoom(size) => {
                    shared.rewind(&consumer, Some(Awaited { size, held_up: false }));
                }
                Taken::Nothing => {}
            }
            if timeout_at(end, changed).await.is_err() {
                let next = request.from;
                return Ok(Fetched::Deliveries { deliveries: Vec::new(), next, end: None });
            }
        }
    }
}
