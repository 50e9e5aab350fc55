//! The keeper's task: takes wishes, reports, answers and the passing of time, and does what the queues' machines say. It
//! waits for nothing but its own short questions.

mod actions;
mod answers;
mod session;
mod source;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lockstep_broker::{EpochClock, LeaseEvent, Outbox, QueueTable, SourceState, Wish};
use lockstep_model::{Moment, QueueId, QueueName};
use tokio::{sync::mpsc, time::sleep_until};

use self::answers::Done;
use crate::{
    Held, Later, Report, Sessions, Settings,
    backoff::Backoff,
    machine::{Command, Context, Input, Machine},
};

/// Inputs taken in one turn, beside the one that began it.
const INPUTS_A_TURN: usize = 64;

/// See the module.
pub(crate) struct Driver<S: Sessions> {
    sessions: Arc<S>,
    settings: Settings,
    outbox: Arc<Outbox>,
    epochs: EpochClock,
    queues: Vec<Queue<S::Consumer>>,
    link: Link<S::Connection>,
    /// Connections made so far; the last one's number.
    connections: u64,
    /// Tries to connect so far; each begins with another broker.
    tries: usize,
    backoff: Backoff,
    joined: bool,
    leaving: Leaving,
    jobs: FuturesUnordered<Later<Done<S>>>,
    told: Option<SourceState>,
    commands: Vec<Command>,
}

/// One queue.
struct Queue<C> {
    id: QueueId,
    name: QueueName,
    machine: Machine,
    /// The consumer that is open, or being closed.
    consumer: Option<Arc<C>>,
}

/// The connection.
enum Link<C> {
    None { retry_at: Moment },
    Connecting,
    Up(C),
}

/// How far leaving has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// Queues are being released.
    Releasing,
    /// Connections are being closed.
    Closing,
}

impl<S: Sessions> Driver<S> {
    pub(crate) fn new(sessions: Arc<S>, outbox: Arc<Outbox>) -> Self {
        let settings = sessions.settings();
        let mut table = QueueTable::default();
        let queue = |name: &String| {
            let id = table.id(name);
            Queue {
                id,
                name: table.name(id).unwrap_or_default(),
                machine: Machine::new(settings.exclusive, settings.pulse),
                consumer: None,
            }
        };
        Self {
            queues: settings.queues.iter().map(queue).collect(),
            epochs: EpochClock::above(settings.epoch_floor),
            outbox,
            link: Link::None { retry_at: Moment::ZERO },
            connections: 0,
            tries: 0,
            backoff: Backoff::default(),
            joined: false,
            leaving: Leaving::No,
            jobs: FuturesUnordered::new(),
            told: None,
            commands: Vec::new(),
            settings,
            sessions,
        }
    }

    /// Until the keeper is dropped.
    pub(crate) async fn run(
        mut self,
        mut wishes: mpsc::UnboundedReceiver<Wish>,
        mut reports: mpsc::UnboundedReceiver<Report>,
    ) {
        self.sessions.left();
        let mut hint = self.settings.hint.clone();
        hint.mark_changed();
        let mut hinted = true;
        loop {
            let next = self.next();
            let clock = self.settings.clock;
            let wake = async move {
                match next {
                    Some(next) => sleep_until(clock.instant(next)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                wish = wishes.recv() => match wish {
                    Some(wish) => self.wish(wish),
                    None => return self.end(),
                },
                changed = hint.changed(), if hinted => match changed {
                    Ok(()) => {
                        let queues = hint.borrow_and_update().clone();
                        self.hinted(queues.as_deref());
                    }
                    // The word stands as it was.
                    Err(_) => hinted = false,
                },
                Some(report) = reports.recv() => self.report(report),
                Some(done) = self.jobs.next() => self.done(done),
                () = wake => {}
            }
            for _ in 0..INPUTS_A_TURN {
                if let Ok(report) = reports.try_recv() {
                    self.report(report);
                } else if let Some(Some(done)) = self.jobs.next().now_or_never() {
                    self.done(done);
                } else {
                    break;
                }
            }
            self.tick();
        }
    }

    /// What is owned is not any more.
    fn end(self) {
        for queue in &self.queues {
            if let Some(consumer) = &queue.consumer {
                consumer.over();
            }
        }
        self.drop_connection();
    }

    fn now(&self) -> Moment {
        self.settings.clock.now()
    }

    fn next(&self) -> Option<Moment> {
        let connect = match &self.link {
            Link::None { retry_at } if self.wants_connection() => Some(*retry_at),
            Link::None { .. } | Link::Connecting | Link::Up(_) => None,
        };
        self.queues.iter().filter_map(|queue| queue.machine.next()).chain(connect).min()
    }

    fn wants_connection(&self) -> bool {
        self.joined && self.leaving == Leaving::No
    }

    fn tick(&mut self) {
        self.connect();
        self.feed_all(Input::Tick);
        if self.leaving == Leaving::Releasing && self.queues.iter().all(|queue| queue.machine.is_quiet()) {
            self.leaving = Leaving::Closing;
            let connection = match std::mem::replace(&mut self.link, Link::None { retry_at: Moment::ZERO }) {
                Link::Up(connection) => Some(connection),
                Link::None { .. } | Link::Connecting => None,
            };
            self.feed_all(Input::Connected(false));
            let closing = Arc::clone(&self.sessions).close(connection, true);
            self.jobs.push(Box::pin(async move {
                closing.await;
                Done::Left
            }));
        }
        self.tell_source();
    }

    fn wish(&mut self, wish: Wish) {
        match wish {
            Wish::Join if !self.joined || self.leaving != Leaving::No => {
                self.joined = true;
                if self.leaving == Leaving::Releasing {
                    self.leaving = Leaving::No;
                }
                self.feed_all(Input::Joined(true));
            }
            Wish::Join => {}
            Wish::Leave if self.joined && self.leaving == Leaving::No => {
                self.leaving = Leaving::Releasing;
                self.joined = false;
                self.feed_all(Input::Joined(false));
            }
            Wish::Leave => {}
            Wish::Release(queue, epoch) => self.feed(queue, Input::Release(epoch)),
        }
    }

    fn hinted(&mut self, queues: Option<&[String]>) {
        for index in 0..self.queues.len() {
            let Some(queue) = self.queues.get(index) else { continue };
            let ours = queues.map(|queues| queues.iter().any(|name| **name == *queue.name));
            self.feed(queue.id, Input::Hinted(ours));
        }
    }

    fn report(&mut self, report: Report) {
        let Report::Rewind { queue, number } = report;
        if self.consumer(queue, number).is_some() {
            self.feed(queue, Input::Rewind);
        }
    }

    fn left(&mut self) {
        self.leaving = Leaving::No;
        self.told = None;
        self.sessions.problems().clear_all();
        self.sessions.left();
        self.outbox.push(LeaseEvent::Left);
    }

    fn queue(&mut self, id: QueueId) -> Option<&mut Queue<S::Consumer>> {
        self.queues.get_mut(usize::try_from(id.0).ok()?)
    }

    fn consumer(&self, id: QueueId, number: u64) -> Option<Arc<S::Consumer>> {
        let queue = self.queues.get(usize::try_from(id.0).ok()?)?;
        queue.consumer.as_ref().filter(|consumer| consumer.number() == number).map(Arc::clone)
    }

    fn feed_all(&mut self, input: Input) {
        for index in 0..self.queues.len() {
            if let Some(id) = self.queues.get(index).map(|queue| queue.id) {
                self.feed(id, input);
            }
        }
    }

    fn feed(&mut self, id: QueueId, input: Input) {
        let now = self.now();
        let mut commands = std::mem::take(&mut self.commands);
        let mut epochs = std::mem::take(&mut self.epochs);
        if let Some(queue) = self.queue(id) {
            let mut context = Context { now, epochs: &mut epochs, jitter: jitter(), commands: &mut commands };
            queue.machine.handle(input, &mut context);
        }
        self.epochs = epochs;
        for command in commands.drain(..) {
            self.perform(id, command);
        }
        self.commands = commands;
    }
}

/// Any number.
pub fn jitter() -> u16 {
    let mut bytes = [0; 2];
    // Without randomness the members come at once, which is no more than a nuisance.
    let _: Result<(), _> = getrandom::fill(&mut bytes);
    u16::from_le_bytes(bytes)
}
