use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::{sync::watch, time::Instant};

use super::{ClientError, core::Core};

/// What a connection's task and all handles of it share.
#[derive(Debug)]
pub(super) struct Shared {
    core: Mutex<Core>,
    /// Why the connection ended.
    pub(super) ended: watch::Sender<Option<ClientError>>,
}

impl Shared {
    pub(super) fn new(core: Core) -> Self {
        Self { core: Mutex::new(core), ended: watch::Sender::new(None) }
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
