use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use tokio::sync::Notify;

/// What messages may hold together when nothing else is said, in bytes.
const LIMIT: usize = 64 * 1024 * 1024;

/// Counts the bytes of frames that brought a message, from their arrival until the last slice of them is dropped. Shared by
/// all connections that were opened with a clone of it.
///
/// Nothing that comes is dropped for want of room: OpenWire can't give back a single message. Whoever asks for messages
/// asks for no more while there is no room. So the most that is held is the limit and one of the longest frames for each
/// message that was asked for when there was room.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
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
    pub(crate) fn new(limit: usize) -> Self {
        Self { shared: Arc::new(Shared { limit, held: AtomicUsize::new(0), freed: Notify::new() }) }
    }

    /// Bytes that are held now.
    pub(crate) fn held(&self) -> usize {
        self.shared.held.load(Ordering::Acquire)
    }

    /// Whether more may be asked for.
    pub(crate) fn has_room(&self) -> bool {
        self.held() < self.shared.limit
    }

    /// Waits until more may be asked for.
    ///
    /// Cancel safe: nothing is taken.
    pub(crate) async fn room(&self) {
        loop {
            let mut freed = pin!(self.shared.freed.notified());
            freed.as_mut().enable();
            if self.has_room() {
                return;
            }
            freed.await;
        }
    }

    /// The same bytes, counted until their last slice is dropped.
    pub(super) fn lend(&self, frame: Bytes) -> Bytes {
        self.shared.held.fetch_add(frame.len(), Ordering::AcqRel);
        Bytes::from_owner(Loan { frame, budget: self.clone() })
    }
}

struct Loan {
    frame: Bytes,
    budget: Budget,
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        &self.frame
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.budget.shared.held.fetch_sub(self.frame.len(), Ordering::AcqRel);
        self.budget.shared.freed.notify_waiters();
    }
}
