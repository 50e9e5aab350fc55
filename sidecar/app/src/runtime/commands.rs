//! What the rest of the process may ask of the loop.

use std::{sync::Arc, time::Duration};

use lockstep_broker::Broker;
use lockstep_contract::Status;
use lockstep_core::{ByHand, Config, Input};
use thiserror::Error;
use tokio::sync::oneshot;
use tracing::info;

use super::shell::Shell;
use crate::{deliver::Deliver, state::unix_ms};

/// Something for the loop to do.
#[derive(Debug)]
pub enum Command {
    /// Finish what runs, give everything back and end. Said twice it changes nothing.
    Drain,
    /// The application's shutdown hook was called: dispatch is held. Answered when nothing is in flight.
    Hold(oneshot::Sender<()>),
    /// One health check ended.
    Checked {
        /// Whether this one passed.
        passed: bool,
        /// Whether the application counts as healthy.
        healthy: bool,
        /// Why this one failed.
        problem: Option<Arc<str>>,
    },
    /// Hot settings changed.
    Reload {
        /// The engine's.
        engine: Box<Config>,
        /// How long a drain that begins from now on may take.
        drain_timeout: Duration,
    },
    /// A person's way past one message.
    ByHand {
        /// The queue's name.
        queue: String,
        /// The message's id.
        message_id: String,
        /// What to do.
        action: ByHand,
        /// What came of it.
        reply: oneshot::Sender<Result<(), ByHandError>>,
    },
    /// What the loop knows, for `/status`; brings the gauges of `/metrics` up to date.
    Status(oneshot::Sender<Box<Status>>),
}

/// A `skip` or `dead-letter` that can't be done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ByHandError {
    /// There is no such queue here.
    #[error(
        "queue \"{0}\" is not owned by this sidecar; /status lists the queues it owns, another pod may own it"
    )]
    UnknownQueue(String),
    /// No lane of the queue waits at that message.
    #[error(
        "no lane of the queue waits at message \"{0}\"; /status lists the blocked messages with their ids"
    )]
    NotAHead(String),
}

impl<B: Broker, D: Deliver> Shell<B, D> {
    pub(super) fn command(&mut self, command: Command, keeper: &mut B::Keeper) {
        match command {
            Command::Drain => self.drain(keeper),
            Command::Hold(waiter) => {
                if self.hold.begin(self.clock.now(), self.shutdown_time) {
                    info!("dispatch held: the application is shutting down");
                    self.feed(Input::DispatchHeld(true), keeper);
                }
                self.hold_waiters.retain(|waiter| !waiter.is_closed());
                self.hold_waiters.push(waiter);
            }
            Command::Checked { passed, healthy, problem } => {
                self.facts.problem = problem;
                self.health(healthy, keeper);
                if self.hold.health(passed) {
                    info!("dispatch goes on: the application was restarted");
                    self.set_free(keeper);
                }
            }
            Command::Reload { engine: config, drain_timeout } => {
                self.drain_timeout = drain_timeout;
                if config.timeout > self.longest_timeout {
                    self.longest_timeout = config.timeout;
                    self.state.mark_running(config.timeout);
                }
                self.config = (*config).clone();
                info!("hot settings applied");
                self.feed(Input::Reconfigured(config), keeper);
            }
            Command::ByHand { queue, message_id, action, reply } => {
                let result = self.by_hand(queue, message_id, action, keeper);
                // Whoever asked may have gone.
                drop(reply.send(result));
            }
            Command::Status(reply) => drop(reply.send(Box::new(self.status()))),
        }
    }

    fn drain(&mut self, keeper: &mut B::Keeper) {
        if self.draining {
            return;
        }
        self.draining = true;
        self.hold.drain();
        self.metrics.draining.set(1);
        info!(seconds = self.drain_timeout.as_secs(), "drain begins");
        let deadline = self.clock.now() + self.drain_timeout;
        self.feed(Input::DrainRequested { deadline }, keeper);
    }

    fn health(&mut self, healthy: bool, keeper: &mut B::Keeper) {
        if self.healthy == Some(healthy) {
            return;
        }
        self.healthy = Some(healthy);
        self.facts.was_healthy |= healthy;
        self.facts.health_since_ms = unix_ms();
        self.metrics.application_healthy.set(i64::from(healthy));
        match &self.facts.problem {
            Some(problem) if !healthy => info!(healthy, %problem, "application health changed"),
            Some(_) | None => info!(healthy, "application health changed"),
        }
        self.feed(Input::HealthChanged { healthy }, keeper);
    }

    fn by_hand(
        &mut self,
        queue: String,
        message_id: String,
        action: ByHand,
        keeper: &mut B::Keeper,
    ) -> Result<(), ByHandError> {
        let owned = self.queues.owned().find(|(_, entry)| *entry.name == *queue).map(|(id, _)| id);
        let id = owned.ok_or(ByHandError::UnknownQueue(queue))?;
        let head = self
            .engine
            .heads(id)
            .find(|head| head.payload.message.id.as_str() == message_id)
            .map(|head| (head.position, head.payload.clone()));
        let (position, delivery) = head.ok_or_else(|| ByHandError::NotAHead(message_id.clone()))?;
        info!(queue = self.queues.name(id), %position, message = %message_id, ?action, "command by hand");
        self.by_hand_refused = false;
        self.current = Some(delivery);
        self.feed(Input::ByHand { queue: id, position, action }, keeper);
        self.current = None;
        if self.by_hand_refused { Err(ByHandError::NotAHead(message_id)) } else { Ok(()) }
    }
}
