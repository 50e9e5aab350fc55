mod broker_asks;
mod calls;
mod faults;
mod peer;
mod tls;
mod writes;

use std::time::Duration;

use super::{Event, Lost, Remoting, RemotingConfig};
use crate::protocol::MaxOffset;

/// Longer than any test takes; a call that waits so long has failed.
const LONG: Duration = Duration::from_secs(20);

/// A request with a number in it that the peer can answer with.
fn question(queue_id: i32) -> MaxOffset {
    MaxOffset { topic: "T".into(), queue_id }
}

/// The next event of a kind that is expected.
async fn up(events: &mut tokio::sync::mpsc::Receiver<Event>) -> u64 {
    match events.recv().await.unwrap() {
        Event::Up { connection, .. } => connection,
        other @ (Event::Down { .. } | Event::Request { .. }) => panic!("expected Up, got {other:?}"),
    }
}

async fn down(events: &mut tokio::sync::mpsc::Receiver<Event>) -> (u64, Lost) {
    match events.recv().await.unwrap() {
        Event::Down { connection, reason, .. } => (connection, reason),
        other @ (Event::Up { .. } | Event::Request { .. }) => panic!("expected Down, got {other:?}"),
    }
}

fn plain() -> (Remoting, tokio::sync::mpsc::Receiver<Event>) {
    Remoting::new(RemotingConfig::default())
}
