//! From the adapter's words to the engine's.

use std::sync::Arc;

use lockstep_broker::{Fetched, Settlement};
use lockstep_core::{FetchId, Incoming, Input};
use lockstep_model::{Delivery, Epoch, QueueId};

/// The engine's input type here: what it carries through is the delivery.
pub(super) type Payload = Arc<Delivery>;

/// What a fetch brought, as an input.
pub(super) fn fetched(queue: QueueId, epoch: Epoch, fetch: FetchId, fetched: Fetched) -> Input<Payload> {
    match fetched {
        Fetched::Deliveries { deliveries, next, end: _ } => {
            let deliveries = deliveries.into_iter().map(incoming).collect();
            Input::Fetched { queue, epoch, fetch, deliveries, next }
        }
        Fetched::Moved { to, reset } => Input::PositionMoved { queue, epoch, to, reset },
    }
}

fn incoming(delivery: Delivery) -> Incoming<Payload> {
    Incoming {
        position: delivery.position,
        bytes: delivery.size(),
        key: delivery.key,
        identity: delivery.identity.clone(),
        redeliveries: delivery.redeliveries,
        undecodable: delivery.undecodable.is_some(),
        payload: Arc::new(delivery),
    }
}

/// The engine's word for a settlement in the adapter's words.
pub(super) fn settlement(settlement: lockstep_core::Settlement) -> Settlement {
    match settlement {
        lockstep_core::Settlement::Accept => Settlement::Accept,
        lockstep_core::Settlement::Release => Settlement::Release,
        lockstep_core::Settlement::DeadLetter => Settlement::DeadLetter,
    }
}
