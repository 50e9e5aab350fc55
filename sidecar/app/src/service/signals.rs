use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, oneshot},
};
use tracing::info;

use crate::runtime::Command;

/// The two signals that ask a process to end.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to listen; from then on the signals no longer end the process.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next of them.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The first signal begins the drain; `came` tells of it.
pub(super) async fn drain_at_signal(
    mut signals: Signals,
    commands: mpsc::Sender<Command>,
    came: oneshot::Sender<()>,
) {
    signals.next().await;
    // Nobody waits for it before a drain is over.
    came.send(()).ok();
    info!("asked to end: draining; a second signal ends at once");
    // A closed channel means that a drain is over.
    drop(commands.send(Command::Drain).await);
}
