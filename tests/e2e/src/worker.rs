//! What goes on beside a scenario: publishers and watchers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Something that goes on in a thread until it is stopped or dropped.
#[derive(Debug)]
pub struct Worker {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Does something again and again.
    pub fn start(every: Duration, mut work: impl FnMut() + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                work();
                thread::park_timeout(every);
            }
        });
        Self { over, thread: Some(thread) }
    }

    /// Ends it; what it panicked with, if it did.
    ///
    /// # Errors
    /// The panic.
    pub fn stop(mut self) -> thread::Result<()> {
        self.end()
    }

    fn end(&mut self) -> thread::Result<()> {
        self.over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.thread().unpark();
        thread.join()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A panic here would end the whole run, and leave its cluster.
        drop(self.end());
    }
}
