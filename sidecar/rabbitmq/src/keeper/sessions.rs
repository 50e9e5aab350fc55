//! RabbitMQ as the shared driver sees it.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use lockstep_broker::{Problem, Problems};
use lockstep_exclusive::{
    Failure, Looked, Meaning, NotConnected, Opened, Order, Owners, Pace, Pulse, Sessions, Settings,
};
use lockstep_model::{QueueId, QueueName};
use tracing::info;

use super::jobs;
use crate::{
    amqp::{AmqpError, Connection},
    consumer::{Consumer, End},
    problem::{Rank, hopeless, of_channel, of_connection, reason},
    shared::Shared,
};

/// So long at least, and for the acknowledgement timeout, it is told that a queue was taken back for it.
const TIMED_OUT_FOR: Duration = Duration::from_secs(600);
/// What is taken off a lease for the time that answers and clocks take.
const MARGIN: Duration = Duration::from_secs(1);

/// The broker takes a peer for dead two to three heartbeats after its last byte.
fn pulse(heartbeat: Duration) -> Pulse {
    Pulse { look: heartbeat / 2, lease: (heartbeat * 2).saturating_sub(MARGIN) }
}

impl Sessions for Shared {
    type Connection = Connection;
    type Consumer = Consumer;
    type End = End;
    type Rank = Rank;

    const CONNECTION: Rank = Rank::Connection;
    const QUEUE: Rank = Rank::Queue;

    fn settings(&self) -> Settings {
        let config = &self.config;
        Settings {
            clock: config.clock,
            queues: config.queues.clone(),
            exclusive: config.ordering.is_ordered(),
            hint: config.hint.clone(),
            epoch_floor: config.epoch_floor,
            pulse: pulse(config.heartbeat),
            settle_within: Some(config.acknowledgement_timeout),
        }
    }

    fn problems(&self) -> &Problems<Rank> {
        &self.problems
    }

    fn owners(&self) -> &Owners<Consumer> {
        &self.owners
    }

    async fn connect(self: Arc<Self>, from: usize) -> Result<Connection, NotConnected> {
        jobs::connect(self, from).await
    }

    fn connected(&self, connection: &Connection) -> Pulse {
        let server = connection.server();
        info!(product = server.product, version = server.version, "connected to the broker");
        pulse(connection.heartbeat().min(self.config.heartbeat))
    }

    async fn ended(self: Arc<Self>, connection: Connection) -> Problem {
        of_connection(&connection.closed().await, &self.config)
    }

    fn disconnected(&self) {
        self.kept().values_mut().for_each(|kept| kept.verified = None);
    }

    async fn close(self: Arc<Self>, connection: Option<Connection>, leaving: bool) {
        if let Some(connection) = connection {
            connection.close().await;
        }
        if leaving {
            self.publisher.close().await;
        }
    }

    async fn open(
        self: Arc<Self>,
        connection: Connection,
        order: Order,
    ) -> Result<Option<Opened<Self>>, Failure> {
        jobs::open(self, connection, order).await
    }

    fn opened(&self, consumer: &Consumer) {
        let (unverified, warning) = self.with_kept(consumer.queue, |kept| {
            let verified = kept.verified.as_ref();
            let warning = verified.and_then(|verified| verified.warnings.first().cloned());
            (verified.and_then(|verified| verified.unverified.clone()), warning)
        });
        for (rank, notice) in [(Rank::Unverified, unverified), (Rank::Warning, warning)] {
            match notice {
                Some(notice) => drop(self.problems.set(rank, &consumer.name, notice)),
                None => drop(self.problems.clear(rank, &consumer.name)),
            }
        }
    }

    async fn look(self: Arc<Self>, consumer: Arc<Consumer>) -> Looked {
        jobs::look(self, consumer).await
    }

    /// A timeout is over for the queue in a moment, and comes again: it is told for long enough to be seen.
    fn looked(&self, queue: QueueId, name: &str) {
        let told_for = TIMED_OUT_FOR.max(self.config.acknowledgement_timeout);
        let now = self.now();
        let is_over =
            |kept: &mut super::Kept| kept.timed_out.take_if(|since| now.since(*since) >= told_for).is_some();
        if self.with_kept(queue, is_over) {
            self.problems.clear(Rank::TimedOut, name);
        }
    }

    fn meaning(&self, queue: QueueId, name: &str, end: &End) -> Meaning {
        let (open, mut failure) = match end {
            // Asked for, and answered by another.
            End::Closed(AmqpError::ClosedByUs) => return Meaning::Nothing,
            End::Closed(error) => (false, of_channel(error, name, &self.config)),
            End::Cancelled | End::Nonsense => (true, Failure { pace: Pace::Quick, problem: None }),
        };
        if failure.pace == Pace::Reconnect {
            return Meaning::Nothing;
        }
        let timed_out = failure.problem.take_if(|problem| problem.reason == reason::ACKNOWLEDGEMENT_TIMEOUT);
        self.with_kept(queue, |kept| {
            // It may be another queue now.
            kept.verified = None;
            if timed_out.is_some() {
                kept.timed_out = Some(self.now());
            }
        });
        if let Some(problem) = timed_out {
            self.problems.set(Rank::TimedOut, name, problem);
        }
        Meaning::Over { open, failure }
    }

    async fn close_consumer(self: Arc<Self>, consumer: Arc<Consumer>) -> bool {
        jobs::close(self, consumer).await
    }

    async fn count(self: Arc<Self>, connection: Connection, name: QueueName) -> Result<u32, Failure> {
        jobs::count(self, connection, &name).await
    }

    /// Says what the acknowledgement timeout does to the prefetch.
    fn left(&self) {
        if self.prefetch.hopeless {
            self.problems.set(Rank::Warning, "", hopeless(&self.config));
        } else if let Some(wanted) = self.prefetch.lowered_from {
            info!(
                prefetch = self.prefetch.count,
                wanted, "the prefetch is lowered to what fits into the acknowledgement timeout"
            );
        }
    }
}
