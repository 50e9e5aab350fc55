//! The keeper's task: takes wishes, reports, answers and the passing of time, and does what the queues' machines say.

mod actions;
mod session;
mod source;
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lockstep_broker::{EpochClock, LeaseEvent, Outbox, QueueTable, SourceState, Wish};
use lockstep_model::{Moment, QueueId, QueueName};
use tokio::{sync::mpsc, time::sleep_until};
use tracing::debug;

use super::{
    Report,
    backoff::Backoff,
    jobs::{Done, Looked, Opened, jitter},
};
use crate::{
    client::{ClientError, Product},
    consumer::{Consumer, End},
    machine::{Command, Context, Input, Machine},
    problem::{self, Failure, Pace, Rank, of_consumer},
    shared::Shared,
    view::{Seen, View},
};

/// So long it is told that the broker ended a consumer.
const ENDED_FOR: Duration = Duration::from_secs(600);

/// Inputs taken in one turn, beside the one that began it.
const INPUTS_A_TURN: usize = 64;

type Job = Pin<Box<dyn Future<Output = Done> + Send>>;

/// See the module.
pub(super) struct Driver {
    shared: Arc<Shared>,
    outbox: Arc<Outbox>,
    epochs: EpochClock,
    queues: Vec<Queue>,
    link: Link,
    /// Connections made so far; the last one's number.
    connections: u64,
    /// Tries to connect so far; each begins with another node.
    tries: usize,
    backoff: Backoff,
    joined: bool,
    leaving: Leaving,
    jobs: FuturesUnordered<Job>,
    told: Option<SourceState>,
    commands: Vec<Command>,
}

/// One queue.
#[derive(Debug)]
struct Queue {
    id: QueueId,
    name: QueueName,
    machine: Machine,
    /// The channel that consumes, or is being closed.
    consumer: Option<Arc<Consumer>>,
    /// When the broker last ended a consumer, or did not know what was acknowledged.
    ended: Option<Moment>,
}

/// The connection.
#[derive(Debug)]
enum Link {
    None { retry_at: Moment },
    Connecting,
    Up(View),
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

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, outbox: Arc<Outbox>) -> Self {
        let config = &shared.config;
        let mut table = QueueTable::default();
        let queue = |queue: &crate::config::Queue| {
            let id = table.id(&queue.name);
            Queue {
                id,
                name: table.name(id).unwrap_or_default(),
                machine: Machine::new(config.ordering.is_ordered(), config.inactivity / 2),
                consumer: None,
                ended: None,
            }
        };
        Self {
            queues: config.queues.iter().map(queue).collect(),
            epochs: EpochClock::above(config.epoch_floor),
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
            shared,
        }
    }

    /// Until the keeper is dropped.
    pub(super) async fn run(
        mut self,
        mut wishes: mpsc::UnboundedReceiver<Wish>,
        mut reports: mpsc::UnboundedReceiver<Report>,
    ) {
        let mut hint = self.shared.config.hint.clone();
        hint.mark_changed();
        let mut hinted = true;
        loop {
            let next = self.next();
            let clock = self.shared.config.clock;
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
                Link::Up(view) => Some(view.connection),
                Link::None { .. } | Link::Connecting => None,
            };
            self.feed_all(Input::Connected(false));
            self.jobs.push(Box::pin(async move {
                if let Some(connection) = connection {
                    connection.close().await;
                }
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
        match report {
            Report::Ended { queue, channel, end } => self.ended(queue, channel, &end),
            Report::Rewind { queue, channel } => {
                let Some(entry) = self.queue(queue) else { return };
                if entry.consumer.as_ref().is_some_and(|consumer| consumer.number == channel) {
                    self.feed(queue, Input::Rewind);
                }
            }
        }
    }

    fn ended(&mut self, id: QueueId, channel: u64, end: &End) {
        let shared = Arc::clone(&self.shared);
        let Some(queue) = self.queue(id) else { return };
        // Of one consumer many settlements may tell.
        let Some(consumer) = queue.consumer.as_ref().filter(|consumer| consumer.number == channel) else {
            return;
        };
        let quick = |problem| Failure { pace: Pace::Quick, problem };
        let (open, failure) = match end {
            // Asked for, and answered by another.
            End::Closed(ClientError::ClosedByUs) => return,
            End::Closed(error) => (false, of_consumer(error, &queue.name, consumer.seen.product)),
            End::Cancelled => (true, quick(Some(problem::slow_consumer(&queue.name)))),
            End::Refused(error) => (true, quick(Some(problem::unmatched(&queue.name, error)))),
            End::Unanswered => (true, quick(None)),
        };
        // Told by its own end: no loss yet, and no failure of the queue.
        if failure.pace == Pace::Reconnect {
            return;
        }
        debug!(queue = %queue.name, channel, ?end, "the queue's consumer has ended");
        if let Some(problem) = failure.problem {
            queue.ended = Some(shared.now());
            shared.problems.set(Rank::Ended, &queue.name, problem);
        }
        self.feed(id, Input::Ended { channel, open, pace: failure.pace });
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Connected(result) => self.connected(result),
            Done::Renewed(renewed) => self.renewed(renewed),
            Done::Disconnected(number, error) => {
                if number == self.connections {
                    self.disconnected(&error);
                }
            }
            Done::Opened { queue, channel, result } => self.opened(queue, channel, result),
            Done::Looked(looked) => self.looked(*looked),
            Done::Closed { queue, channel, sure } => {
                if !sure {
                    self.drop_connection();
                }
                // It may be another channel by now.
                if let Some(entry) = self.queue(queue) {
                    entry.consumer.take_if(|consumer| consumer.number == channel);
                }
                self.feed(queue, Input::Closed { channel });
            }
            Done::Counted { queue, consumers } => self.counted(queue, consumers),
            Done::Left => {
                self.leaving = Leaving::No;
                self.told = None;
                self.shared.problems.clear_all();
                self.outbox.push(LeaseEvent::Left);
            }
        }
    }

    /// An end is over for the queue in a moment, and comes again: it is told for long enough to be seen.
    fn forget_end(&mut self, id: QueueId) {
        let shared = Arc::clone(&self.shared);
        let Some(queue) = self.queue(id) else { return };
        if queue.ended.take_if(|since| shared.now().since(*since) >= ENDED_FOR).is_some() {
            shared.problems.clear(Rank::Ended, &queue.name);
        }
    }

    fn looked(&mut self, looked: Looked) {
        let Looked { queue: id, channel, sent, answered, seen } = looked;
        self.forget_end(id);
        if let Some(seen) = &seen {
            self.notice(id, seen);
        }
        // Each answer is a sign of life, whatever it says of the queue: an owner never yields.
        let consumers = answered.then_some(1);
        self.feed(id, Input::Looked { channel, sent, consumers, starved: false });
    }

    /// Tells what is to be known of a queue that we consume.
    fn notice(&mut self, id: QueueId, seen: &Seen) {
        let shared = Arc::clone(&self.shared);
        let Some(queue) = self.queue(id) else { return };
        let name = &queue.name;
        if !shared.config.ordering.is_ordered() {
            return;
        }
        let others = seen.others(1);
        let shared_with = (others > 0).then(|| problem::shared(name, seen.product, others));
        let unverified = match (seen.blind(1), seen.product, seen.exclusive) {
            (Some(why), product, _) => Some(problem::unseen(name, product, &why)),
            (None, Product::Artemis, Some(false) | None) => Some(problem::not_exclusive(name)),
            (None, Product::Artemis, Some(true)) | (None, Product::Classic, _) => None,
        };
        for (rank, notice) in [(Rank::Shared, shared_with), (Rank::Unverified, unverified)] {
            match notice {
                Some(notice) => drop(shared.problems.set(rank, name, notice)),
                None => drop(shared.problems.clear(rank, name)),
            }
        }
    }

    fn opened(&mut self, id: QueueId, channel: u64, result: Result<Option<Box<Opened>>, Failure>) {
        let shared = Arc::clone(&self.shared);
        let Some(queue) = self.queue(id) else { return };
        let Opened { consumer, deliveries, sent } = match result {
            Ok(Some(opened)) => *opened,
            Ok(None) => {
                shared.problems.clear(Rank::Queue, &queue.name);
                return self.feed(id, Input::Taken { channel });
            }
            Err(Failure { pace: Pace::Reconnect, .. }) => return,
            Err(Failure { pace, problem }) => {
                if let Some(problem) = problem {
                    shared.problems.set(Rank::Queue, &Arc::clone(&queue.name), problem);
                }
                self.feed(id, Input::Refused { channel, pace });
                return;
            }
        };
        shared.problems.clear(Rank::Queue, &queue.name);
        queue.consumer = Some(Arc::clone(&consumer));
        self.notice(id, &consumer.seen);
        tokio::spawn(async move {
            let end = consumer.receive(deliveries).await;
            shared.report(Report::Ended { queue: id, channel, end });
        });
        self.feed(id, Input::Opened { channel, sent });
    }

    fn counted(&mut self, id: QueueId, consumers: Result<u32, Failure>) {
        self.forget_end(id);
        let shared = Arc::clone(&self.shared);
        let Some(queue) = self.queue(id) else { return };
        let rank = Rank::Queue;
        let consumers = match consumers {
            Ok(consumers) => {
                // Where a consumer is opened next, that says whether anything is wrong still.
                if consumers > 0 || !queue.machine.is_wanted() {
                    shared.problems.clear(rank, &queue.name);
                }
                Ok(consumers)
            }
            Err(Failure { pace: Pace::Reconnect, .. }) => return,
            Err(Failure { pace, problem }) => {
                if let Some(problem) = problem {
                    shared.problems.set(rank, &queue.name, problem);
                }
                Err(pace)
            }
        };
        self.feed(id, Input::Counted(consumers));
    }

    fn queue(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues.get_mut(usize::try_from(id.0).ok()?)
    }

    fn feed_all(&mut self, input: Input) {
        for index in 0..self.queues.len() {
            if let Some(id) = self.queues.get(index).map(|queue| queue.id) {
                self.feed(id, input);
            }
        }
    }

    fn feed(&mut self, id: QueueId, input: Input) {
        let now = self.shared.now();
        let mut commands = std::mem::take(&mut self.commands);
        let mut epochs = std::mem::take(&mut self.epochs);
        if let Some(queue) = self.queue(id) {
            let jitter = jitter();
            let mut context = Context { now, epochs: &mut epochs, jitter, commands: &mut commands };
            queue.machine.handle(input, &mut context);
        }
        self.epochs = epochs;
        for command in commands.drain(..) {
            self.perform(id, command);
        }
        self.commands = commands;
    }
}
