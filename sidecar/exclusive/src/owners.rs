use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lockstep_model::{Epoch, QueueId};

/// The owners of queues, one each: what the reading and the settling half go by.
#[derive(Debug)]
pub struct Owners<C>(Mutex<BTreeMap<QueueId, (Epoch, Arc<C>)>>);

impl<C> Default for Owners<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C> Owners<C> {
    /// The consumer that owns a queue under that epoch.
    pub fn owner(&self, queue: QueueId, epoch: Epoch) -> Option<Arc<C>> {
        let owners = self.lock();
        owners.get(&queue).filter(|(current, _)| *current == epoch).map(|(_, consumer)| Arc::clone(consumer))
    }

    /// An ownership begins.
    pub fn begin(&self, queue: QueueId, epoch: Epoch, consumer: Arc<C>) {
        self.lock().insert(queue, (epoch, consumer));
    }

    /// It is over, unless another has begun.
    pub fn end(&self, queue: QueueId, epoch: Epoch) {
        let mut owners = self.lock();
        if owners.get(&queue).is_some_and(|(current, _)| *current == epoch) {
            owners.remove(&queue);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<QueueId, (Epoch, Arc<C>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
