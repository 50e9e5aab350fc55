//! The connection: made, lost, and made again.

use std::sync::Arc;

use lockstep_broker::Problem;
use lockstep_model::Moment;
use tokio::time::timeout_at;
use tracing::warn;

use super::{Done, Driver, Link, jitter};
use crate::{NotConnected, Pace, Sessions, machine::Input};

impl<S: Sessions> Driver<S> {
    /// Tries to connect when that is due.
    pub(super) fn connect(&mut self) {
        let now = self.now();
        if let Link::None { retry_at } = self.link
            && self.wants_connection()
            && retry_at <= now
        {
            self.link = Link::Connecting;
            let connecting = Arc::clone(&self.sessions).connect(self.tries);
            self.jobs.push(Box::pin(async move { Done::Connected(connecting.await) }));
            self.tries = self.tries.wrapping_add(1);
        }
    }

    pub(super) fn connected(&mut self, result: Result<S::Connection, NotConnected>) {
        if !matches!(self.link, Link::Connecting) {
            return;
        }
        match result {
            Ok(connection) => {
                self.connections += 1;
                self.backoff.connected(self.now());
                let number = self.connections;
                let ended = Arc::clone(&self.sessions).ended(connection.clone());
                self.jobs.push(Box::pin(async move { Done::Disconnected(number, ended.await) }));
                let pulse = self.sessions.connected(&connection);
                self.sessions.problems().clear(S::CONNECTION, "");
                for queue in &mut self.queues {
                    queue.machine.agreed(pulse);
                }
                self.link = Link::Up(connection);
                self.feed_all(Input::Connected(true));
            }
            Err(NotConnected { problem, pace, changed }) => {
                self.sessions.problems().set(S::CONNECTION, "", problem);
                let due = self.settings.clock.instant(self.connect_later(pace));
                if let (Pace::Slow, Some(changed)) = (pace, changed) {
                    // At most until the next try is due anyway.
                    self.jobs
                        .push(Box::pin(async move { Done::Renewed(timeout_at(due, changed).await.is_ok()) }));
                }
            }
        }
    }

    /// What has changed is tried at once.
    pub(super) fn renewed(&mut self, renewed: bool) {
        let now = self.now();
        if let Link::None { retry_at } = &mut self.link
            && renewed
        {
            *retry_at = now;
        }
    }

    pub(super) fn disconnected(&mut self, problem: Problem) {
        if !matches!(self.link, Link::Up(_)) {
            return;
        }
        if self.wants_connection() {
            warn!(error = %problem.message, "the connection to the broker is lost");
            self.sessions.problems().set(S::CONNECTION, "", problem);
        }
        self.sessions.disconnected();
        self.connect_later(Pace::Quick);
        self.feed_all(Input::Connected(false));
    }

    fn connect_later(&mut self, pace: Pace) -> Moment {
        let retry_at = self.backoff.failed(pace, self.now(), jitter());
        self.link = Link::None { retry_at };
        retry_at
    }

    /// A connection that does not answer is none.
    pub(super) fn drop_connection(&self) {
        if let Link::Up(connection) = &self.link {
            tokio::spawn(Arc::clone(&self.sessions).close(Some(connection.clone()), false));
        }
    }
}
