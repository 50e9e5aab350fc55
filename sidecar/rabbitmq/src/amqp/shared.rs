use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{AmqpError, core::Core};

/// What a connection's task and all handles of it share.
#[derive(Debug)]
pub(super) struct Shared {
    core: Mutex<Core>,
    /// Told when there is room in the outgoing bytes again, when the broker takes messages again, and at the end.
    pub(super) room: Notify,
    /// The broker's words while it takes no messages.
    pub(super) blocked: watch::Sender<Option<Arc<str>>>,
    /// Why the connection ended.
    pub(super) ended: watch::Sender<Option<AmqpError>>,
}

impl Shared {
    pub(super) fn new(core: Core) -> Self {
        Self {
            core: Mutex::new(core),
            room: Notify::new(),
            blocked: watch::Sender::new(None),
            ended: watch::Sender::new(None),
        }
    }

    /// Never held over an await.
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by all handles of a connection: when the last is dropped, the connection is closed.
#[derive(Debug)]
pub(super) struct Handle(pub(super) Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.core().close(Instant::now());
    }
}
