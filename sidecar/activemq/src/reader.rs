//! The reading half: takes what the broker has handed out.

use std::{sync::Arc, time::Duration};

use lockstep_broker::{BrokerError, FetchRequest, Fetched, Reader};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{consumer::Taken, problem::not_owned, shared::Shared};

const FETCH: &str = "fetch";
/// How long a fetch waits for a delivery.
const HOLD: Duration = Duration::from_secs(20);
/// Before a refusal, so that nobody asks in a tight loop.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Reads owned queues. Clones share everything.
#[derive(Debug, Clone)]
pub struct ActiveReader {
    shared: Arc<Shared>,
}

impl ActiveReader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Reader for ActiveReader {
    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, BrokerError> {
        let shared = &self.shared;
        let Some(consumer) = shared.owner(request.queue, request.epoch) else {
            sleep(REFUSED_PAUSE).await;
            return Err(not_owned(FETCH));
        };
        let end = Instant::now() + HOLD;
        let most = shared.config.max_frame as usize;
        loop {
            let changed = consumer.changed();
            match consumer.take(request, &shared.config.key, most) {
                Taken::Deliveries(deliveries, next) => {
                    return Ok(Fetched::Deliveries { deliveries, next, end: None });
                }
                Taken::NotOwned => return Err(not_owned(FETCH)),
                Taken::Nothing => {}
            }
            if timeout_at(end, changed).await.is_err() {
                let next = request.from;
                return Ok(Fetched::Deliveries { deliveries: Vec::new(), next, end: None });
            }
        }
    }
}
