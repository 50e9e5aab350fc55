use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::Notify;

/// What bodies may hold together when nothing else is said.
const LIMIT: usize = 64 * 1024 * 1024;

/// The largest message that is ever kept, body and properties. The largest body that RabbitMQ takes by default is 128 MiB
/// up to 3.13 and 16 MiB since, and properties are no longer than 1 MiB.
const LARGEST: u64 = 129 * 1024 * 1024;

/// Bytes that messages (bodies and properties) may hold, shared by all channels that were opened with a clone of it.
///
/// A message is admitted when there is room for it, or when nothing at all is held, so that one that is larger than the
/// whole budget gets through alone.
#[derive(Debug, Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: usize,
    held: AtomicUsize,
    freed: Notify,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Self {
        Self { shared: Arc::new(Shared { limit, held: AtomicUsize::new(0), freed: Notify::new() }) }
    }

    /// The largest message that can ever be kept, body and properties, in bytes; a larger one is always a stub.
    pub const fn largest() -> u64 {
        LARGEST
    }

    /// Bytes that are held now.
    pub fn held(&self) -> usize {
        self.shared.held.load(Ordering::Relaxed)
    }

    /// Whether a message of `size` bytes would be admitted now.
    pub fn has_room(&self, size: u64) -> bool {
        self.fits(self.held(), size).is_some()
    }

    /// Waits until a message of `size` bytes would be admitted; for ever if it is larger than
    /// [`Budget::largest`].
    ///
    /// Cancel safe: nothing is reserved.
    pub async fn room(&self, size: u64) {
        loop {
            let mut freed = std::pin::pin!(self.shared.freed.notified());
            freed.as_mut().enable();
            if self.has_room(size) {
                return;
            }
            freed.await;
        }
    }

    fn fits(&self, held: usize, size: u64) -> Option<usize> {
        let size = usize::try_from(size).ok().filter(|_| size <= LARGEST)?;
        let sum = held.checked_add(size)?;
        (held == 0 || sum <= self.shared.limit).then_some(sum)
    }

    /// Takes the bytes of a message, if it is admitted.
    pub(super) fn take(&self, size: u64) -> bool {
        let take = |held| self.fits(held, size);
        self.shared.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Gives back what was taken.
    pub(super) fn give(&self, size: usize) {
        if size > 0 {
            self.shared.held.fetch_sub(size, Ordering::Relaxed);
            self.shared.freed.notify_waiters();
        }
    }

    /// A body whose bytes, taken before, are given back when its last slice is dropped.
    pub(super) fn lend(&self, body: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        let size = body.as_ref().len();
        Bytes::from_owner(Loan { body, size, budget: self.clone() })
    }
}

struct Loan<T> {
    body: T,
    size: usize,
    budget: Budget,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Loan<T> {
    fn as_ref(&self) -> &[u8] {
        self.body.as_ref()
    }
}

impl<T> Drop for Loan<T> {
    fn drop(&mut self) {
        self.budget.give(self.size);
    }
}
