//! What the keeper has done by others: each a future that ends by itself, and what it brings back.

use std::{sync::Arc, time::Duration};

use lockstep_broker::Problem;
use lockstep_model::{Moment, QueueId, QueueName};
use lockstep_openwire::Destination;
use tokio::time::{sleep, timeout_at};

use crate::{
    client::{ClientError, Connection, Deliveries, Subscription},
    config::FilesStamp,
    consumer::Consumer,
    problem::{Failure, Pace, of_connection, of_consumer, of_credentials, pace_of_connection, reason},
    shared::{Shared, open_config},
    unsettled::NOTHING_DELIVERED,
    view::{Seen, View},
};

/// How often files that were refused are looked at for a change.
const LOOK_AT_FILES: Duration = Duration::from_secs(1);

/// Who may take a queue at the same moment as others waits for any time up to this and looks once more: consuming takes some
/// milliseconds, so that one of them is seen by the others.
const CONTEST: Duration = Duration::from_millis(400);

/// What a job brings back.
#[derive(Debug)]
pub(super) enum Done {
    Connected(Result<Connection, NotConnected>),
    /// Whether files that say who we are have changed since a refusal.
    Renewed(bool),
    /// The connection of that number ended.
    Disconnected(u64, ClientError),
    Opened {
        queue: QueueId,
        channel: u64,
        /// `None` = somebody else consumes it.
        result: Result<Option<Box<Opened>>, Failure>,
    },
    Looked(Box<Looked>),
    /// `sure` = the broker has said so, or the connection is over.
    Closed {
        queue: QueueId,
        channel: u64,
        sure: bool,
    },
    Counted {
        queue: QueueId,
        consumers: Result<u32, Failure>,
    },
    /// The connection is closed.
    Left,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) struct NotConnected {
    pub(super) problem: Problem,
    pub(super) pace: Pace,
    /// The files that say who we are, as they were.
    pub(super) files: FilesStamp,
}

/// A consumer that is there.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) consumer: Arc<Consumer>,
    pub(super) deliveries: Deliveries,
    pub(super) sent: Moment,
}

/// What a look brings.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) queue: QueueId,
    pub(super) channel: u64,
    pub(super) sent: Moment,
    pub(super) answered: bool,
    /// Who consumes it, where that matters.
    pub(super) seen: Option<Seen>,
}

/// What a consumer is opened for.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) queue: (QueueId, QueueName),
    pub(super) channel: u64,
    /// Others may do the same at the same moment.
    pub(super) contested: bool,
}

/// Connects to the first node that can be reached, beginning with the one of that number.
pub(super) async fn connect(shared: Arc<Shared>, from: usize) -> Done {
    let config = &shared.config;
    // Before they are read, so that no change is missed.
    let files = config.files_stamp().await;
    let open = match open_config(config, &shared.budget).await {
        Ok(open) => open,
        Err(bad) => {
            return Done::Connected(Err(NotConnected {
                problem: of_credentials(&bad),
                pace: Pace::Slow,
                files,
            }));
        }
    };
    let mut found: Option<(Pace, Problem)> = None;
    let nodes = config.nodes.len().max(1);
    for node in config.nodes.iter().cycle().skip(from % nodes).take(nodes) {
        match Connection::open(node, &open).await {
            Ok(connection) => return Done::Connected(Ok(connection)),
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
    let (pace, problem) = found.unwrap_or_else(unset);
    Done::Connected(Err(NotConnected { problem, pace, files }))
}

/// Waits until the files that say who we are have changed, at most until the next try to connect is due anyway.
pub(super) async fn renewed(shared: Arc<Shared>, known: FilesStamp, due: Moment) -> Done {
    let config = &shared.config;
    let changed = async {
        while config.files_stamp().await == known {
            sleep(LOOK_AT_FILES).await;
        }
    };
    Done::Renewed(timeout_at(config.clock.instant(due), changed).await.is_ok())
}

/// Opens a consumer.
pub(super) async fn open(shared: Arc<Shared>, view: View, order: Order) -> Done {
    let (queue, channel) = (order.queue.0, order.channel);
    let product = view.connection.broker().product;
    let name = Arc::clone(&order.queue.1);
    let result = open_consumer(&shared, &view, order).await;
    let result =
        result.map(|opened| opened.map(Box::new)).map_err(|error| of_consumer(&error, &name, product));
    Done::Opened { queue, channel, result }
}

async fn open_consumer(shared: &Shared, view: &View, order: Order) -> Result<Option<Opened>, ClientError> {
    let config = &shared.config;
    let name = &order.queue.1;
    let is_ordered = config.ordering.is_ordered();
    if order.contested {
        sleep(CONTEST * u32::from(jitter()) / u32::from(u16::MAX)).await;
    }
    if is_ordered && view.look(name).await?.others(0) > 0 {
        return Ok(None);
    }
    let selector = config.queues.iter().find(|queue| *queue.name == **name).and_then(|q| q.selector.clone());
    let destination = Destination::queue(name);
    let subscription = Subscription { selector, exclusive: is_ordered, ..Subscription::new(destination) };
    let sent = shared.now();
    let (handle, deliveries) = view.connection.consume(subscription).await?;
    // Nothing was asked for, so that nothing has come. An owner never yields; of two newcomers at one moment none may stay.
    let seen = view.look(name).await?;
    if is_ordered && seen.others(1) > 0 {
        handle.close(NOTHING_DELIVERED).await?;
        return Ok(None);
    }
    let how = (shared.plan, shared.budget.clone(), config.clock);
    let consumer = Arc::new(Consumer::new(order.queue, order.channel, handle, seen, how));
    Ok(Some(Opened { consumer, deliveries, sent }))
}

/// Looks at who consumes a queue, on its behalf.
pub(super) async fn look(shared: Arc<Shared>, view: View, consumer: Arc<Consumer>) -> Done {
    let sent = shared.now();
    let (answered, seen) = if shared.config.ordering.is_ordered() {
        let seen = view.look(&consumer.name).await.ok();
        (seen.is_some(), seen)
    } else {
        (view.connection.alive().await.is_ok(), None)
    };
    let (queue, channel) = (consumer.queue, consumer.number);
    Done::Looked(Box::new(Looked { queue, channel, sent, answered, seen }))
}

/// Closes a consumer.
pub(super) async fn close(consumer: Arc<Consumer>) -> Done {
    let closed = consumer.handle.close(consumer.last_delivered()).await;
    let sure = !matches!(closed, Err(ClientError::Timeout { .. }));
    Done::Closed { queue: consumer.queue, channel: consumer.number, sure }
}

/// Counts the consumers of a queue that we don't consume. Who can't see them sees nobody.
pub(super) async fn count(view: View, queue: QueueId, name: QueueName) -> Done {
    let product = view.connection.broker().product;
    let seen = view.look(&name).await;
    let consumers = seen.map(|seen| seen.others(0)).map_err(|error| of_consumer(&error, &name, product));
    Done::Counted { queue, consumers }
}

/// Any number.
pub(super) fn jitter() -> u16 {
    let mut bytes = [0; 2];
    // Without randomness the members come at once, which is no more than a nuisance.
    let _: Result<(), _> = getrandom::fill(&mut bytes);
    u16::from_le_bytes(bytes)
}
