//! What the broker does for the keeper of queues that have one consumer at a time: connections, consumers, looks, ends.

use std::{sync::Arc, time::Duration};

use lockstep_broker::{Problem, Problems};
use lockstep_exclusive::{
    Failure, Held, Keeper, Looked, Meaning, NotConnected, Opened, Order, Owners, Pace, Pulse, Report,
    Sessions, Settings, jitter, keeper,
};
use lockstep_model::{Epoch, Moment, QueueId, QueueName};
use lockstep_openwire::Destination;
use tokio::{sync::mpsc, time::sleep};
use tracing::info;

use crate::{
    client::{ClientError, Connection, Product, Subscription},
    config::{Config, FilesStamp},
    consumer::{Consumer, End},
    problem::{self, Rank, of_connection, of_consumer, of_credentials, pace_of_connection, reason},
    shared::{Shared, open_config},
    unsettled::NOTHING_DELIVERED,
    view::{Seen, View},
};

/// What is taken off a lease for the time that answers and clocks take.
const MARGIN: Duration = Duration::from_secs(1);

/// How often files that were refused are looked at for a change.
const LOOK_AT_FILES: Duration = Duration::from_secs(1);

/// Who may take a queue at the same moment as others waits for any time up to this and looks once more: consuming takes some
/// milliseconds, so that one of them is seen by the others.
const CONTEST: Duration = Duration::from_millis(400);

/// Keeps session and leases. Dropped, it ends its task and with it the connection.
pub type ActiveKeeper = Keeper;

/// Starts the task on the current runtime.
pub(crate) fn start(shared: Arc<Shared>, reports: mpsc::UnboundedReceiver<Report>) -> ActiveKeeper {
    keeper(shared, reports)
}

/// The broker drops a silent peer after one to two of the agreed durations, so that a lease lasts one.
fn pulse(inactivity: Duration) -> Pulse {
    Pulse { look: inactivity / 4, lease: inactivity.saturating_sub(MARGIN) }
}

impl Held for Consumer {
    fn number(&self) -> u64 {
        self.number
    }

    fn owns(&self, epoch: Epoch, deadline: Moment) {
        Self::owns(self, epoch, deadline);
    }

    fn renewed(&self, deadline: Moment) {
        Self::renewed(self, deadline);
    }

    fn doubtful(&self) {
        Self::doubtful(self);
    }

    fn given_back(&self) {
        Self::given_back(self);
    }

    fn over(&self) {
        Self::over(self);
    }
}

impl Sessions for Shared {
    type Connection = View;
    type Consumer = Consumer;
    type End = End;
    type Rank = Rank;

    const CONNECTION: Rank = Rank::Connection;
    const QUEUE: Rank = Rank::Queue;

    fn settings(&self) -> Settings {
        let config = &self.config;
        Settings {
            clock: config.clock,
            queues: config.queues.iter().map(|queue| queue.name.clone()).collect(),
            exclusive: config.ordering.is_ordered(),
            hint: config.hint.clone(),
            epoch_floor: config.epoch_floor,
            pulse: pulse(config.inactivity),
            settle_within: None,
        }
    }

    fn problems(&self) -> &Problems<Rank> {
        &self.problems
    }

    fn owners(&self) -> &Owners<Consumer> {
        &self.owners
    }

    async fn connect(self: Arc<Self>, from: usize) -> Result<View, NotConnected> {
        let config = &self.config;
        // Before they are read, so that no change is missed.
        let files = config.files_stamp().await;
        let (pace, problem) = match open_config(config, &self.budget).await {
            Ok(open) => match reach(config, &open, from).await {
                Ok(connection) => return Ok(View::new(connection)),
                Err(failure) => failure,
            },
            Err(bad) => (Pace::Slow, of_credentials(&bad)),
        };
        let is_watched = pace == Pace::Slow && !files.is_empty();
        let shared = Arc::clone(&self);
        let changed = is_watched.then(|| Box::pin(renewed(shared, files)) as lockstep_exclusive::Later<()>);
        Err(NotConnected { problem, pace, changed })
    }

    fn connected(&self, view: &View) -> Pulse {
        let broker = view.connection.broker();
        info!(product = ?broker.product, version = broker.version, "connected to the broker");
        pulse(view.connection.inactivity().min(self.config.inactivity))
    }

    async fn ended(self: Arc<Self>, view: View) -> Problem {
        of_connection(&view.connection.closed().await, &self.config)
    }

    async fn close(self: Arc<Self>, view: Option<View>, _: bool) {
        if let Some(view) = view {
            view.connection.close().await;
        }
    }

    async fn open(self: Arc<Self>, view: View, order: Order) -> Result<Option<Opened<Self>>, Failure> {
        let product = view.connection.broker().product;
        let name = Arc::clone(&order.name);
        self.consume(view, order).await.map_err(|error| of_consumer(&error, &name, product))
    }

    fn opened(&self, consumer: &Consumer) {
        self.notice(&consumer.name, &consumer.seen);
    }

    async fn look(self: Arc<Self>, consumer: Arc<Consumer>) -> Looked {
        // What was given back while the queue was to be released stays with us otherwise, unseen.
        if consumer.has_given_back() {
            self.report(Report::Rewind { queue: consumer.queue, number: consumer.number });
        }
        let sent = self.now();
        let is_answered = if self.config.ordering.is_ordered() {
            let seen = consumer.view.look(&consumer.name).await.ok();
            if let Some(seen) = &seen {
                self.notice(&consumer.name, seen);
            }
            seen.is_some()
        } else {
            consumer.view.connection.alive().await.is_ok()
        };
        // Each answer is a sign of life, whatever it says of the queue: an owner never yields.
        Looked { sent, consumers: is_answered.then_some(1), starved: false }
    }

    fn looked(&self, queue: QueueId, name: &str) {
        if self.forgets_end(queue) {
            self.problems.clear(Rank::Ended, name);
        }
    }

    fn meaning(&self, queue: QueueId, name: &str, end: &End) -> Meaning {
        let over = |open, pace, problem: Option<Problem>| {
            if let Some(problem) = problem {
                // It is over in a moment, and comes again: it is told for long enough to be seen.
                self.notes_end(queue);
                self.problems.set(Rank::Ended, name, problem);
            }
            Meaning::Over { open, failure: Failure { pace, problem: None } }
        };
        match end {
            End::Closed(ClientError::ClosedByUs) => Meaning::Nothing,
            End::Closed(error) => {
                // Only Artemis ends a consumer with a queue; both say it in their own words.
                let Failure { pace, problem } = of_consumer(error, name, Product::Artemis);
                if pace == Pace::Reconnect { Meaning::Nothing } else { over(false, pace, problem) }
            }
            End::Cancelled => over(true, Pace::Quick, Some(problem::slow_consumer(name))),
            End::Refused(error) => over(true, Pace::Quick, Some(problem::unmatched(name, error))),
            End::Unanswered => over(true, Pace::Quick, None),
        }
    }

    async fn close_consumer(self: Arc<Self>, consumer: Arc<Consumer>) -> bool {
        let closed = consumer.handle.close(consumer.last_delivered()).await;
        !matches!(closed, Err(ClientError::Timeout { .. }))
    }

    async fn count(self: Arc<Self>, view: View, name: QueueName) -> Result<u32, Failure> {
        let product = view.connection.broker().product;
        // Who can't see them sees nobody.
        let seen = view.look(&name).await.map_err(|error| of_consumer(&error, &name, product))?;
        Ok(seen.others(0))
    }
}

impl Shared {
    async fn consume(
        self: &Arc<Self>,
        view: View,
        order: Order,
    ) -> Result<Option<Opened<Self>>, ClientError> {
        let config = &self.config;
        let name = &order.name;
        let is_ordered = config.ordering.is_ordered();
        if order.contested {
            sleep(CONTEST * u32::from(jitter()) / u32::from(u16::MAX)).await;
        }
        if is_ordered && view.look(name).await?.others(0) > 0 {
            return Ok(None);
        }
        let queue = config.queues.iter().find(|queue| *queue.name == **name);
        let selector = queue.and_then(|queue| queue.selector.clone());
        let destination = Destination::queue(name);
        let subscription = Subscription { selector, exclusive: is_ordered, ..Subscription::new(destination) };
        let sent = self.now();
        let (handle, deliveries) = view.connection.consume(subscription).await?;
        // Nothing was asked for, so that nothing has come. An owner never yields; of two newcomers at one moment none may stay.
        let seen = view.look(name).await?;
        if is_ordered && seen.others(1) > 0 {
            handle.close(NOTHING_DELIVERED).await?;
            return Ok(None);
        }
        let how = (self.plan, self.budget.clone(), config.clock);
        let queue = (order.queue, Arc::clone(&order.name));
        let consumer = Arc::new(Consumer::new(queue, order.number, handle, (view, seen), how));
        let receiver = Arc::clone(&consumer);
        let receiving = Box::pin(async move { receiver.receive(deliveries).await });
        Ok(Some(Opened { consumer, sent, receiving }))
    }

    /// Tells what is to be known of a queue that we consume.
    fn notice(&self, name: &str, seen: &Seen) {
        if !self.config.ordering.is_ordered() {
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
                Some(notice) => drop(self.problems.set(rank, name, notice)),
                None => drop(self.problems.clear(rank, name)),
            }
        }
    }
}

/// Connects to the first node that can be reached, beginning with the one of that number.
async fn reach(
    config: &Config,
    open: &crate::client::OpenConfig,
    from: usize,
) -> Result<Connection, (Pace, Problem)> {
    let mut found: Option<(Pace, Problem)> = None;
    let nodes = config.nodes.len().max(1);
    for node in config.nodes.iter().cycle().skip(from % nodes).take(nodes) {
        match Connection::open(node, open).await {
            Ok(connection) => return Ok(connection),
            Err(error) => {
                let pace = pace_of_connection(&error);
                // A node that refuses says more than one that is not there.
                if pace == Pace::Slow || found.as_ref().is_none_or(|(pace, _)| *pace != Pace::Slow) {
                    found = Some((pace, of_connection(&error, config)));
                }
            }
        }
    }
    let unset = || {
        let message = "the source has no node".to_owned();
        (Pace::Slow, Problem { reason: reason::UNREACHABLE, message, remedy: "name one in urls".to_owned() })
    };
    Err(found.unwrap_or_else(unset))
}

/// Waits until the files that say who we are have changed.
async fn renewed(shared: Arc<Shared>, known: FilesStamp) {
    while shared.config.files_stamp().await == known {
        sleep(LOOK_AT_FILES).await;
    }
}
