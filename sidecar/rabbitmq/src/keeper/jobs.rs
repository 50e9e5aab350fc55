//! What the keeper has done by others: each a future that ends by itself, and what it brings back.

use std::{sync::Arc, time::Duration};

use lockstep_broker::Problem;
use lockstep_model::{Moment, QueueId, QueueName};
use tokio::time::timeout;

use crate::{
    amqp::{AmqpError, Connection, Deliveries, Fields, OpenConfig, QueueInfo},
    config::Config,
    consumer::Consumer,
    declaration::{Declaration, Learned, Probe, Value, Version, Wanted},
    management::{self, ManagementError},
    problem::{Failure, Pace, of_channel, of_connection, of_credentials, reason},
    shared::Shared,
};

/// How long a channel waits for room for a body before it is tried again.
const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// Who may take a queue at the same moment as others waits for any time up to this and looks once more: consuming takes some
/// milliseconds, so that one of them is seen by the others.
const CONTEST: Duration = Duration::from_millis(400);

/// The broker keeps settlements of a quorum queue to itself while so many of a channel are on their way to it, and forgets
/// what it keeps when the channel closes, answered or not. Fewer unsettled deliveries never make so many.
const STASHED_FROM: u16 = 32;
/// So long after the last one they have arrived.
const APPLIED_WITHIN: Duration = Duration::from_millis(100);

/// What a job brings back.
#[derive(Debug)]
pub(super) enum Done {
    Connected(Result<Connection, Problem>),
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
        consumers: Result<u32, Option<Failure>>,
    },
    /// The connections are closed.
    Left,
}

/// A channel that consumes.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) consumer: Arc<Consumer>,
    pub(super) deliveries: Deliveries,
    pub(super) sent: Moment,
    pub(super) verified: Verified,
}

/// What is known of a queue's declaration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verified {
    pub(crate) may_reject: bool,
    /// What somebody should know of it.
    pub(crate) warnings: Vec<Problem>,
}

/// What a channel is opened for.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) queue: (QueueId, QueueName),
    pub(super) channel: u64,
    /// Others may do the same at the same moment.
    pub(super) contested: bool,
    /// A body of that size must have room; it comes alone.
    pub(super) narrow: Option<u64>,
    /// Known from an earlier channel of this connection.
    pub(super) verified: Option<Verified>,
}

/// Connects to the first node that can be reached, beginning with the one of that number.
pub(super) async fn connect(shared: Arc<Shared>, from: usize) -> Done {
    let config = &shared.config;
    let open = match shared.open_config(&config.name).await {
        Ok(open) => open,
        Err(bad) => return Done::Connected(Err(of_credentials(&bad))),
    };
    let mut problem = None;
    let nodes = config.nodes.len().max(1);
    for node in config.nodes.iter().cycle().skip(from % nodes).take(nodes) {
        match Connection::open(node, &open).await {
            Ok(connection) => return Done::Connected(Ok(connection)),
            Err(error) => problem = Some(of_connection(&error, config)),
        }
    }
    let unset = || Problem {
        reason: reason::UNREACHABLE,
        message: "the source has no node".to_owned(),
        remedy: "name one in urls".to_owned(),
    };
    Done::Connected(Err(problem.unwrap_or_else(unset)))
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
    if let Some(size) = order.narrow
        && timeout(ROOM_WITHIN, shared.budget.room(size)).await.is_err()
    {
        return Err(Failure { pace: Pace::Quick, problem: None });
    }
    let verified = match order.verified {
        Some(verified) => verified,
        None => verify(config, &shared.budget_config().await?, connection, &name).await?,
    };
    let failed = |error: AmqpError| of_channel(&error, &name, config);
    let (channel, deliveries) = connection.open_channel().await.map_err(failed)?;
    let prefetch = if order.narrow.is_some() { 1 } else { shared.prefetch.count };
    channel.qos(prefetch.try_into().unwrap_or(std::num::NonZeroU16::MIN)).await.map_err(failed)?;
    if order.contested {
        tokio::time::sleep(CONTEST * u32::from(jitter()) / u32::from(u16::MAX)).await;
    }
    let QueueInfo { consumers, .. } = channel.declare_passive(&name).await.map_err(failed)?;
    if consumers > 0 && config.ordering.is_ordered() {
        return Ok(None);
    }
    let sent = shared.now();
    channel.consume(&name, "", &Fields::new()).await.map_err(failed)?;
    let keeps_origin = matches!(config.dead_letter, crate::config::DeadLetter::Queue(_));
    let facts = (verified.may_reject, order.narrow.is_some(), keeps_origin);
    let consumer = Arc::new(Consumer::new(order.queue, order.channel, channel, facts));
    Ok(Some(Opened { consumer, deliveries, sent, verified }))
}

impl Shared {
    async fn budget_config(&self) -> Result<OpenConfig, Failure> {
        let bad = |bad| Failure { pace: Pace::Slow, problem: Some(of_credentials(&bad)) };
        self.open_config(&self.config.name).await.map_err(bad)
    }
}

/// Finds out how a queue was declared, and judges it.
///
/// # Errors
/// It must not be consumed, or the connection failed.
pub(crate) async fn verify(
    config: &Config,
    open: &OpenConfig,
    connection: &Connection,
    queue: &str,
) -> Result<Verified, Failure> {
    let version = Version::of(&connection.server().version);
    let mut verified = Verified::default();
    let mut found = None;
    if let Some(url) = &config.management {
        match management::queue(url, &config.vhost, queue, open).await {
            Ok(declaration) => found = declaration,
            Err(error) => verified.warnings.push(management_failed(url, &error)),
        }
    }
    if found.is_none() {
        found = probe(config, connection, queue).await?;
    }
    let Some(found) = found else {
        if config.ordering.is_ordered() && !config.assumed {
            verified.warnings.push(unverified(config, queue));
        }
        return Ok(verified);
    };
    verified.may_reject = found.dead_letter_exchange;
    let judgement = Wanted { queue, config, version }.judge(&found);
    verified.warnings.extend(judgement.warnings);
    match judgement.refused {
        Some(problem) => Err(Failure { pace: Pace::Slow, problem: Some(problem) }),
        None => Ok(verified),
    }
}

/// Learns a queue's arguments by declaring it until the broker agrees. `None` where that is not permitted or leads nowhere.
async fn probe(
    config: &Config,
    connection: &Connection,
    queue: &str,
) -> Result<Option<Declaration>, Failure> {
    let failed = |error: AmqpError| of_channel(&error, queue, config);
    let mut probe = Probe::new();
    loop {
        let (channel, _) = connection.open_channel().await.map_err(failed)?;
        // A queue that does not exist must not be made by the question.
        channel.declare_passive(queue).await.map_err(failed)?;
        let arguments = probe.arguments().fold(Fields::new(), |fields, (name, value)| match value {
            Value::Bool(value) => fields.flag(name, *value),
            Value::Int(value) => fields.int(name, *value),
            Value::Text(value) => fields.text(name, value),
        });
        match channel.declare(queue, probe.durable(), &arguments).await {
            Ok(_) => {
                // What became of it changes nothing.
                let _: Result<(), AmqpError> = channel.close().await;
                return Ok(Some(probe.agreed()));
            }
            Err(error) => match error.close() {
                Some(close) if close.code == 406 && probe.learn(&close.text) == Learned::Something => {}
                Some(close) if matches!(close.code, 403 | 405 | 406) => return Ok(None),
                Some(_) | None => return Err(failed(error)),
            },
        }
    }
}

fn unverified(config: &Config, queue: &str) -> Problem {
    Problem {
        reason: reason::OWNERSHIP_UNVERIFIED,
        message: format!(
            "it can't be verified that queue {queue} hands its messages to one consumer at a time: there is no management \
             API to ask, and the user may not declare the queue"
        ),
        remedy: format!(
            "set management.url, or permit it: rabbitmqctl set_permissions -p '{}' USER '^{queue}$' '^$' '^{queue}$'; or, \
             when you are sure, set ownership: Assumed",
            config.vhost
        ),
    }
}

fn management_failed(url: &str, error: &ManagementError) -> Problem {
    Problem {
        reason: reason::MANAGEMENT_FAILED,
        message: format!("the management API at {url} can't be used: {error}"),
        remedy: "correct management.url, or give the user the tag monitoring or management: rabbitmqctl set_user_tags USER \
                 monitoring"
            .to_owned(),
    }
}

/// Counts a queue's consumers on its channel.
pub(super) async fn look(shared: Arc<Shared>, consumer: Arc<Consumer>) -> Done {
    let sent = shared.now();
    let before = consumer.came_and_went();
    let info = consumer.channel.declare_passive(&consumer.name).await.ok();
    let nothing_came = before.is_some() && before == consumer.came_and_went();
    let starved = nothing_came && info.is_some_and(|info| info.messages > 0);
    let consumers = info.map(|info| info.consumers);
    Done::Looked { queue: consumer.queue, channel: consumer.number, sent, consumers, starved }
}

/// Closes a channel.
pub(super) async fn close(shared: Arc<Shared>, consumer: Arc<Consumer>) -> Done {
    if shared.prefetch.count >= STASHED_FROM {
        let since = shared.now().since(consumer.last_written());
        tokio::time::sleep(APPLIED_WITHIN.saturating_sub(since)).await;
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
    let consumers = counted.await.map_err(|error: AmqpError| {
        error.close().is_some().then(|| of_channel(&error, &name, &shared.config))
    });
    Done::Counted { queue, consumers }
}

/// Any number.
pub(super) fn jitter() -> u16 {
    let mut bytes = [0; 2];
    // Without randomness the members come at once, which is no more than a nuisance.
    let _: Result<(), _> = getrandom::fill(&mut bytes);
    u16::from_le_bytes(bytes)
}
