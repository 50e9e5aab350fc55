//! The connection: made, lost, and made again.

use std::sync::Arc;

use tracing::{info, warn};

use super::{Driver, Link};
use crate::{
    client::{ClientError, Connection},
    keeper::jobs::{self, Done, NotConnected, jitter},
    machine::Input,
    problem::{Pace, Rank, of_connection},
    view::View,
};

impl Driver {
    /// Tries to connect when that is due.
    pub(super) fn connect(&mut self) {
        let now = self.shared.now();
        if let Link::None { retry_at } = self.link
            && self.wants_connection()
            && retry_at <= now
        {
            self.link = Link::Connecting;
            self.jobs.push(Box::pin(jobs::connect(Arc::clone(&self.shared), self.tries)));
            self.tries = self.tries.wrapping_add(1);
        }
    }

    pub(super) fn connected(&mut self, result: Result<Connection, NotConnected>) {
        if !matches!(self.link, Link::Connecting) {
            return;
        }
        match result {
            Ok(connection) => {
                self.connections += 1;
                self.backoff.connected(self.shared.now());
                let number = self.connections;
                let watched = connection.clone();
                self.jobs.push(Box::pin(async move { Done::Disconnected(number, watched.closed().await) }));
                let broker = connection.broker();
                info!(product = ?broker.product, version = broker.version, "connected to the broker");
                self.shared.problems.clear(Rank::Connection, "");
                // The broker drops a silent peer after one to two of the agreed durations, so that a lease lasts one.
                let inactivity = connection.inactivity().min(self.shared.config.inactivity);
                for queue in &mut self.queues {
                    queue.machine.agreed(inactivity / 2);
                }
                self.link = Link::Up(View::new(connection));
                self.feed_all(Input::Connected(true));
            }
            Err(NotConnected { problem, pace, files }) => {
                self.shared.problems.set(Rank::Connection, "", problem);
                let retry_at = self.connect_later(pace);
                if pace == Pace::Slow && !files.is_empty() {
                    self.jobs.push(Box::pin(jobs::renewed(Arc::clone(&self.shared), files, retry_at)));
                }
            }
        }
    }

    /// New files are tried at once.
    pub(super) fn renewed(&mut self, renewed: bool) {
        if let Link::None { retry_at } = &mut self.link
            && renewed
        {
            *retry_at = self.shared.now();
        }
    }

    pub(super) fn disconnected(&mut self, error: &ClientError) {
        if !matches!(self.link, Link::Up(_)) {
            return;
        }
        if self.wants_connection() {
            warn!(%error, "the connection to the broker is lost");
            self.shared.problems.set(Rank::Connection, "", of_connection(error, &self.shared.config));
        }
        self.connect_later(Pace::Quick);
        self.feed_all(Input::Connected(false));
    }

    fn connect_later(&mut self, pace: Pace) -> lockstep_model::Moment {
        let retry_at = self.backoff.failed(pace, self.shared.now(), jitter());
        self.link = Link::None { retry_at };
        retry_at
    }

    /// A connection that does not answer is none.
    pub(super) fn drop_connection(&self) {
        if let Link::Up(view) = &self.link {
            let connection = view.connection.clone();
            tokio::spawn(async move { connection.close().await });
        }
    }
}
