//! What the keeper has done by others: each a future that ends by itself, and what it brings back.

use std::{sync::Arc, time::Duration};

use lockstep_broker::Problem;
use lockstep_exclusive::{Failure, Later, Looked, NotConnected, Opened, Order, Pace, jitter};
use tokio::time::{sleep, timeout};

use super::{Awaited, verify::verify};
use crate::{
    amqp::{AmqpError, Connection, Fields, OpenConfig, QueueInfo, Reservation},
    config::{FilesStamp, Ordering},
    consumer::Consumer,
    problem::{of_channel, of_connection, of_credentials, pace_of_connection, reason},
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

/// Connects to the first node that can be reached, beginning with the one of that number.
pub(super) async fn connect(shared: Arc<Shared>, from: usize) -> Result<Connection, NotConnected> {
    let config = &shared.config;
    // Before they are read, so that no change is missed.
    let files = config.files_stamp().await;
    let open = match shared.open_config(&config.name).await {
        Ok(open) => open,
        Err(bad) => {
            let changed = changed(Arc::clone(&shared), files);
            return Err(NotConnected { problem: of_credentials(&bad), pace: Pace::Slow, changed });
        }
    };
    let mut found: Option<(Pace, Problem)> = None;
    let nodes = config.nodes.len().max(1);
    for node in config.nodes.iter().cycle().skip(from % nodes).take(nodes) {
        match Connection::open(node, &open).await {
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
    let (pace, problem) = found.unwrap_or_else(unset);
    let changed = changed(Arc::clone(&shared), files);
    Err(NotConnected { problem, pace, changed })
}

/// Waits until the files that say who we are have changed.
fn changed(shared: Arc<Shared>, known: FilesStamp) -> Option<Later<()>> {
    if known.is_empty() {
        return None;
    }
    Some(Box::pin(async move {
        while shared.config.files_stamp().await == known {
            sleep(LOOK_AT_FILES).await;
        }
    }))
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
pub(super) async fn open(
    shared: Arc<Shared>,
    connection: Connection,
    order: Order,
) -> Result<Option<Opened<Shared>>, Failure> {
    let config = &shared.config;
    let name = Arc::clone(&order.name);
    let (awaited, verified) = shared.with_kept(order.queue, |kept| (kept.awaited, kept.verified.clone()));
    let room = match awaited {
        Some(awaited) => Some(room_for(&shared, awaited, &name).await?),
        None => None,
    };
    let verified = match verified {
        Some(verified) => verified,
        None => verify(config, &shared.budget_config().await?, &connection, &name).await?,
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
    let queue = (order.queue, Arc::clone(&name));
    let consumer = Arc::new(Consumer::new(queue, order.number, channel, facts));
    shared.with_kept(order.queue, |kept| {
        kept.verified = Some(verified);
        kept.awaited = None;
    });
    let (receiver, clock) = (Arc::clone(&consumer), config.clock);
    let receiving = Box::pin(async move { receiver.receive(deliveries, clock).await });
    Ok(Some(Opened { consumer, sent, receiving }))
}

impl Shared {
    async fn budget_config(&self) -> Result<OpenConfig, Failure> {
        let bad = |bad| Failure { pace: Pace::Slow, problem: Some(of_credentials(&bad)) };
        self.open_config(&self.config.name).await.map_err(bad)
    }
}

/// Counts a queue's consumers on its channel.
pub(super) async fn look(shared: Arc<Shared>, consumer: Arc<Consumer>) -> Looked {
    rewind_if_due(&shared, &consumer);
    let sent = shared.now();
    let before = consumer.came_and_went();
    let info = consumer.channel.declare_passive(&consumer.name).await.ok();
    // What was awaited is gone, or has come.
    let _: Result<(), AmqpError> = consumer.channel.reserve(None);
    let nothing_came = before.is_some() && before == consumer.came_and_went();
    let starved = nothing_came && info.is_some_and(|info| info.messages > 0);
    Looked { sent, consumers: info.map(|info| info.consumers), starved }
}

/// What is out has to come anew well before the broker takes it back in its own way, and when what waits for room is held up.
fn rewind_if_due(shared: &Shared, consumer: &Consumer) {
    let (config, now) = (&shared.config, shared.now());
    let old = consumer.oldest().is_some_and(|oldest| now.since(oldest) >= config.acknowledgement_timeout / 2);
    // What waits behind one that is held is in a line of its own.
    let held_up = config.ordering != Ordering::PerQueue && consumer.is_held_up(now);
    if old || held_up {
        // What is only old asks for no room: it may be taken by another queue's body for long.
        let size = if held_up { consumer.without_room() } else { None };
        shared.rewind(consumer, size.map(|size| Awaited { size, held_up }));
    }
}

/// Closes a channel.
pub(super) async fn close(shared: Arc<Shared>, consumer: Arc<Consumer>) -> bool {
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
    !matches!(consumer.channel.close().await, Err(AmqpError::Timeout { .. }))
}

/// Counts the consumers of a queue that we don't consume.
pub(super) async fn count(shared: Arc<Shared>, connection: Connection, name: &str) -> Result<u32, Failure> {
    let counted = async {
        let (channel, _) = connection.open_channel().await?;
        let info = channel.declare_passive(name).await?;
        let _: Result<(), AmqpError> = channel.close().await;
        Ok(info.consumers)
    };
    counted.await.map_err(|error: AmqpError| of_channel(&error, name, &shared.config))
}
