use lockstep_model::Moment;
use tokio::time::Instant;

/// The process's one monotonic clock. Copies of one clock agree; it stands still and jumps with tokio's paused time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now. One is made in a process and handed to every part.
    #[allow(clippy::new_without_default, reason = "two clocks do not agree: making one is a decision")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// Now.
    pub fn now(self) -> Moment {
        Moment::ZERO + self.start.elapsed()
    }

    /// The runtime's instant for a moment, to sleep until it.
    pub fn instant(self, moment: Moment) -> Instant {
        self.start + moment.since(Moment::ZERO)
    }
}
