use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lockstep_model::{Delivery, Epoch, Position, QueueId};
use tokio::time::sleep;

use super::{Faults, random::SharedRandom};
use crate::{BrokerError, FetchRequest, Fetched, Reader};

/// The reading half of an unreliable broker.
#[derive(Debug, Clone)]
pub struct UnreliableReader<R> {
    inner: R,
    faults: Faults,
    reread: bool,
    random: SharedRandom,
    /// What was handed over and not passed on: the next fetch of a source that can't reread has to begin with it.
    kept: Arc<Mutex<BTreeMap<QueueId, Kept>>>,
}

#[derive(Debug)]
struct Kept {
    epoch: Epoch,
    deliveries: Vec<Delivery>,
    next: Position,
    end: Option<Position>,
}

impl<R: Reader> UnreliableReader<R> {
    pub(super) fn new(inner: R, faults: Faults, reread: bool, random: SharedRandom) -> Self {
        Self { inner, faults, reread, random, kept: Arc::default() }
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<QueueId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what is not passed on, where it could not be read again.
    fn keep(&self, request: FetchRequest, kept: Kept) {
        if !self.reread && !kept.deliveries.is_empty() {
            self.kept().insert(request.queue, kept);
        }
    }

    /// What was kept for the queue, unless its ownership ended.
    fn take(&self, request: FetchRequest) -> Option<Kept> {
        self.kept().remove(&request.queue).filter(|kept| kept.epoch == request.epoch)
    }

    /// Passes on as much as was asked for, or less.
    fn pass(&self, request: FetchRequest, mut all: Kept) -> Fetched {
        let (short, repeat) = self.random.draw(|random| {
            let short = random.happens(self.faults.short_fetch);
            let part = 1 + random.below(all.deliveries.len().max(1) as u64);
            (short.then_some(part), random.happens(self.faults.duplicate))
        });
        let asked =
            short.map_or(request.count, |part| request.count.min(u32::try_from(part).unwrap_or(u32::MAX)));
        let fitting = fitting(&all.deliveries, asked as usize, request.bytes);
        let rest = all.deliveries.split_off(fitting);
        let next = rest.first().map_or(all.next, |first| first.position);
        let mut deliveries = all.deliveries;
        self.keep(request, Kept { epoch: all.epoch, deliveries: rest, next: all.next, end: all.end });
        if repeat {
            deliveries.extend(deliveries.last().cloned());
        }
        Fetched::Deliveries { deliveries, next, end: all.end }
    }
}

fn fitting(deliveries: &[Delivery], count: usize, bytes: usize) -> usize {
    let mut room = bytes;
    let fits = |(at, delivery): &(usize, &Delivery)| {
        let size = delivery.size();
        let fits = *at == 0 || size <= room;
        room = room.saturating_sub(size);
        fits
    };
    deliveries.iter().take(count).enumerate().take_while(fits).count()
}

impl<R: Reader> Reader for UnreliableReader<R> {
    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, BrokerError> {
        let fate = self.random.draw(|random| random.fate(self.faults.fetch));
        sleep(fate.before).await;
        if !fate.happens {
            return Err(fate.failure("fetch"));
        }
        // Nothing is awaited behind this point, so that a dropped call can't take deliveries with it.
        let all = match self.take(request) {
            Some(kept) => kept,
            None => match self.inner.fetch(request).await? {
                Fetched::Deliveries { deliveries, next, end } => {
                    Kept { epoch: request.epoch, deliveries, next, end }
                }
                moved @ Fetched::Moved { .. } => return Ok(moved),
            },
        };
        if !fate.answered {
            self.keep(request, all);
            return Err(fate.failure("fetch"));
        }
        Ok(self.pass(request, all))
    }
}
