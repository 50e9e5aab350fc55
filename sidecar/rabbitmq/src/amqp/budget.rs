use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::Notify, time::timeout};

/// What bodies may hold together when nothing else is said.
const LIMIT: usize = 64 * 1024 * 1024;

/// The largest message that is ever kept, body and properties. The largest body that RabbitMQ takes by default is 128 MiB
/// up to 3.13 and 16 MiB since, and properties are no longer than 1 MiB.
const LARGEST: u64 = 129 * 1024 * 1024;

/// A message that is handed out again is longer than before by headers of the broker's that count its deliveries.
const GROWTH: u64 = 1024;

/// So long is waited for room within the limit before room beyond it is taken.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes that messages (bodies and properties) may hold, shared by all channels that were opened with a clone of it.
///
/// A message is admitted when there is room for it within the limit. Beyond the limit there is room for a single one: one
/// that is larger than the limit, or for which room was reserved. So each gets through, whatever the others hold.
#[derive(Debug, Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: usize,
    within: AtomicUsize,
    /// What the one beyond the limit holds; 0 = there is none.
    beyond: AtomicUsize,
    freed: Notify,
}

/// Where the bytes of a message are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Within,
    Beyond,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Self {
        let (within, beyond) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { shared: Arc::new(Shared { limit, within, beyond, freed: Notify::new() }) }
    }

    /// The largest message that can ever be kept, body and properties, in bytes; a larger one is always a stub.
    pub const fn largest() -> u64 {
        LARGEST
    }

    /// Bytes that are held now.
    pub fn held(&self) -> usize {
        self.counter(Place::Within).load(Ordering::Relaxed)
            + self.counter(Place::Beyond).load(Ordering::Relaxed)
    }

    /// Waits for room for a message that was `size` bytes long when it was handed out before, at most
    /// [`Budget::largest`]: within the limit, or beyond it when that takes longer than a second.
    ///
    /// Cancel safe: nothing is reserved.
    pub async fn reserve(&self, size: u64) -> Reservation {
        let size = size.saturating_add(GROWTH).min(LARGEST);
        let place = match timeout(PATIENCE, self.wait(|| self.take(size))).await {
            Ok(place) => place,
            Err(_) => self.wait(|| self.take(size).or_else(|| self.take_beyond(size))).await,
        };
        Reservation { budget: self.clone(), size: bytes(size), place }
    }

    /// The same, where the messages before it will take the room within the limit first.
    ///
    /// Cancel safe: nothing is reserved.
    pub async fn reserve_beyond(&self, size: u64) -> Reservation {
        let size = size.saturating_add(GROWTH).min(LARGEST);
        let place = self.wait(|| self.take_beyond(size).or_else(|| self.take(size))).await;
        Reservation { budget: self.clone(), size: bytes(size), place }
    }

    async fn wait<T>(&self, take: impl Fn() -> Option<T>) -> T {
        loop {
            let mut freed = pin!(self.shared.freed.notified());
            freed.as_mut().enable();
            if let Some(taken) = take() {
                return taken;
            }
            freed.await;
        }
    }

    /// Takes the bytes of a message, if it is admitted.
    pub(super) fn take(&self, size: u64) -> Option<Place> {
        let limit = self.shared.limit;
        if size > LARGEST {
            return None;
        }
        if size > limit as u64 {
            return self.take_beyond(size);
        }
        let add = |held: usize| held.checked_add(bytes(size)).filter(|sum| *sum <= limit);
        let taken = self.counter(Place::Within).fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        taken.is_ok().then_some(Place::Within)
    }

    fn take_beyond(&self, size: u64) -> Option<Place> {
        let alone = |held| (held == 0).then_some(bytes(size));
        let taken = self.counter(Place::Beyond).fetch_update(Ordering::Relaxed, Ordering::Relaxed, alone);
        taken.is_ok().then_some(Place::Beyond)
    }

    /// Gives back what was taken.
    pub(super) fn give(&self, size: usize, place: Place) {
        if size > 0 {
            self.counter(place).fetch_sub(size, Ordering::Relaxed);
            self.shared.freed.notify_waiters();
        }
    }

    /// A body; the bytes that were taken for it are given back when its last slice is dropped.
    pub(super) fn lend(&self, body: Bytes, size: usize, place: Place) -> Bytes {
        Bytes::from_owner(Loan { body, _room: Reservation { budget: self.clone(), size, place } })
    }

    fn counter(&self, place: Place) -> &AtomicUsize {
        match place {
            Place::Within => &self.shared.within,
            Place::Beyond => &self.shared.beyond,
        }
    }
}

/// Of a size that is at most [`LARGEST`].
fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// Room that is held; given back when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    size: usize,
    place: Place,
}

impl Reservation {
    pub(super) fn is_for(&self, size: u64) -> bool {
        size <= self.size as u64
    }

    /// Hands its room over to a message that it is for, and gives the rest back.
    pub(super) fn spend(mut self, size: u64) -> Place {
        self.size = self.size.saturating_sub(bytes(size));
        self.place
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give(self.size, self.place);
    }
}

struct Loan {
    body: Bytes,
    _room: Reservation,
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}
