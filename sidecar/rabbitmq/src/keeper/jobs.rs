//! What the keeper has done by others: each a future that ends by itself, and what it brings back.

use std::{sync::Arc, time::Duration};

use lockstep_broker::Problem;
use lockstep_model::{Moment, QueueId, QueueName};
use tokio::time::{sleep, timeout, timeout_at};

use super::{
    Awaited,
    verify::{Verified, verify},
};
use crate::{
    amqp::{AmqpError, Connection, Deliveries, Fields, OpenConfig, QueueInfo, Reservation},
    config::FilesStamp,
    consumer::Consumer,
    problem::{Failure, Pace, of_channel, of_connection, of_credentials, pace_of_connection, reason},
    shared::Shared,
};

/// How often files that were refused are looked at for a change.
const LOOK_AT_FILES: Duration = Duration::from_secs(1);

/// How long a channel waits for room for a body before it is tried again. There is some at once or a second later, unless
/// another body holds what is beyond the budget's limit.
const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// Who may take a queue at the same moment as others waits for any time up to this and looks once more: consuming takes some
/// milliseconds, so that one of them is seen by the others.
const CONTEST: Duration = Duration::from_millis(400);

/// The broker keeps settlements of a quorum queue to itself while so many of a channel are on their way to it, and forgets
/// what it keeps when the channel closes, answered or not. Fewer unsettled deliveries never make so many.
const STASHED_FROM: u16 = 32;
/// So long after the last one they have arrived, if nothing shows that they have before.
const APPLIED_WITHIN: Duration = Duration::from_millis(500);
/// How often a channel is looked at for a sign that they have.
const LOOK_FOR_SIGN: Duration = Duration::from_millis(5);

/// What a job brings back.
#[derive(Debug)]
pub(super) enum Done {
    Connected(Result<Connection, NotConnected>),
    /// Whether files that say who we are have changed since a refusal.
    Renewed(bool),
    /// The connection of that number ended.
    Disconnected(u64, AmqpError),
    Opened {
        queue: QueueId,
        channel: u64,
        /// `None` = somebody else consumes it.
        result: Result<Option<Box<Opened>>, Failure>,
    },
    Looked {
        queue: QueueId,
        channel: u64,
        sent: Moment,
        consumers: Option<u32>,
        starved: bool,
    },
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
    /// The connections are closed.
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

/// A channel that consumes.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) consumer: Arc<Consumer>,
    pub(super) deliveries: Deliveries,
    pub(super) sent: Moment,
    pub(super) verified: Verified,
}

/// What a channel is opened for.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) queue: (QueueId, QueueName),
    pub(super) channel: u64,
    /// Others may do the same at the same moment.
    pub(super) contested: bool,
    /// A body of that size must have room. The prefetch stays: what the channel before gave back and this one does not take
    /// would come before what this one gives back.
    pub(super) awaited: Option<Awaited>,
    /// Known from an earlier channel of this connection.
    pub(super) verified: Option<Verified>,
}

/// Connects to the first node that can be reached, beginning with the one of that number.
pub(super) async fn connect(shared: Arc<Shared>, from: usize) -> Done {
    let config = &shared.config;
    // Before they are read, so that no change is missed.
    let files = config.files_stamp().await;
    let open = match shared.open_config(&config.name).await {
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

/// Waits for room for a body that had none.
async fn room_for(shared: &Shared, awaited: Awaited, queue: &str) -> Result<Reservation, Failure> {
    let Awaited { size, held_up } = awaited;
    let reserve = async {
        if held_up { shared.budget.reserve_beyond(size).await } else { shared.budget.reserve(size).await }
    };
    timeout(ROOM_WITHIN, reserve).await.map_err(|_| {
        let problem = Problem {
            reason: reason::NO_ROOM,
            message: format!(
                "queue {queue} waits for room for a message of {size} bytes: messages of other queues hold it"
            ),
            remedy: "see what blocks the other queues; smaller messages, or a group of its own for this queue, keep it \
                     from waiting"
                .to_owned(),
        };
        Failure { pace: Pace::Quick, problem: Some(problem) }
    })
}

/// Opens a channel and consumes.
pub(super) async fn open(shared: Arc<Shared>, connection: Connection, order: Order) -> Done {
    let (queue, channel) = (order.queue.0, order.channel);
    let result = open_channel(&shared, &connection, order).await.map(|opened| opened.map(Box::new));
    Done::Opened { queue, channel, result }
}

async fn open_channel(
    shared: &Shared,
    connection: &Connection,
    order: Order,
) -> Result<Option<Opened>, Failure> {
    let config = &shared.config;
    let name = Arc::clone(&order.queue.1);
    let room = match order.awaited {
        Some(awaited) => Some(room_for(shared, awaited, &name).await?),
        None => None,
    };
    let verified = match order.verified {
        Some(verified) => verified,
        None => verify(config, &shared.budget_config().await?, connection, &name).await?,
    };
    let failed = |error: AmqpError| of_channel(&error, &name, config);
    let (channel, deliveries) = connection.open_channel().await.map_err(failed)?;
    channel
        .qos(shared.prefetch.count.try_into().unwrap_or(std::num::NonZeroU16::MIN))
        .await
        .map_err(failed)?;
    if order.contested {
        sleep(CONTEST * u32::from(jitter()) / u32::from(u16::MAX)).await;
    }
    let QueueInfo { consumers, .. } = channel.declare_passive(&name).await.map_err(failed)?;
    if consumers > 0 && config.ordering.is_ordered() {
        return Ok(None);
    }
    let sent = shared.now();
    let with_room = room.is_some();
    channel.reserve(room).map_err(failed)?;
    channel.consume(&name, "", &Fields::new()).await.map_err(failed)?;
    let keeps_origin = matches!(config.dead_letter, crate::config::DeadLetter::Queue(_));
    let facts = (verified.may_reject, with_room, keeps_origin);
    let consumer = Arc::new(Consumer::new(order.queue, order.channel, channel, facts));
    Ok(Some(Opened { consumer, deliveries, sent, verified }))
}

impl Shared {
    async fn budget_config(&self) -> Result<OpenConfig, Failure> {
        let bad = |bad| Failure { pace: Pace::Slow, problem: Some(of_credentials(&bad)) };
        self.open_config(&self.config.name).await.map_err(bad)
    }
}

/// Counts a queue's consumers on its channel.
pub(super) async fn look(shared: Arc<Shared>, consumer: Arc<Consumer>) -> Done {
    let sent = shared.now();
    let before = consumer.came_and_went();
    let info = consumer.channel.declare_passive(&consumer.name).await.ok();
    // What was awaited is gone, or has come.
    let _: Result<(), AmqpError> = consumer.channel.reserve(None);
    let nothing_came = before.is_some() && before == consumer.came_and_went();
    let starved = nothing_came && info.is_some_and(|info| info.messages > 0);
    let consumers = info.map(|info| info.consumers);
    Done::Looked { queue: consumer.queue, channel: consumer.number, sent, consumers, starved }
}

/// Closes a channel.
pub(super) async fn close(shared: Arc<Shared>, consumer: Arc<Consumer>) -> Done {
    let window = shared.prefetch.count;
    if window >= STASHED_FROM {
        let all_applied = || {
            let waited = shared.now().since(consumer.last_written());
            consumer.is_full(window) || waited >= APPLIED_WITHIN
        };
        while !all_applied() {
            sleep(LOOK_FOR_SIGN).await;
        }
    }
    let sure = !matches!(consumer.channel.close().await, Err(AmqpError::Timeout { .. }));
    Done::Closed { queue: consumer.queue, channel: consumer.number, sure }
}

/// Counts the consumers of a queue that we don't consume.
pub(super) async fn count(
    shared: Arc<Shared>,
    connection: Connection,
    queue: QueueId,
    name: QueueName,
) -> Done {
    let counted = async {
        let (channel, _) = connection.open_channel().await?;
        let info = channel.declare_passive(&name).await?;
        let _: Result<(), AmqpError> = channel.close().await;
        Ok(info.consumers)
    };
    let consumers = counted.await.map_err(|error: AmqpError| of_channel(&error, &name, &shared.config));
    Done::Counted { queue, consumers }
}

/// Any number.
pub(super) fn jitter() -> u16 {
    let mut bytes = [0; 2];
    // Without randomness the members come at once, which is no more than a nuisance.
    let _: Result<(), _> = getrandom::fill(&mut bytes);
    u16::from_le_bytes(bytes)
}
