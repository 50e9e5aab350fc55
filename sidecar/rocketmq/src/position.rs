//! Where a queue begins, and whether the place that we committed still is what it was.

use std::{sync::Arc, time::Duration};

use lockstep_model::{Epoch, Identity, Moment, Position, QueueId};

use crate::{
    codec::{Command, Entry, Stored, StoredMessages, lenient},
    config::StartPosition,
    leases::Confirmed,
    protocol::{
        BoundaryType, MaxOffset, MessageQueue, MinOffset, Pull, PullReply, PullStatus, QueryOffset,
        SearchOffset, UpdateOffset,
    },
    shared::{AskError, Shared},
};

/// Each question is short; the lease is renewed meanwhile.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Asks for every group's offsets on a broker (GET_ALL_CONSUMER_OFFSET), the only honest answer that 4.9 has.
const ALL_OFFSETS: i32 = 43;
/// How many messages are looked at to find the first one of a time; searches of 4.9 end at a neighbour.
const LOOK: u32 = 32;
/// How often.
const LOOKS: u32 = 8;

/// Where a queue begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) position: Position,
    /// The message before it, to recognise the place after a broker's restart.
    pub(crate) before: Identity,
}

/// What became of the place that we committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The broker holds it, or holds it again.
    Kept,
    /// The broker's position holds.
    Moved(Position),
    /// The broker holds more than we ever sent.
    Ahead,
}

/// Finds where a locked queue begins and makes sure that the broker holds it, so that the answer is stable. `new`: the
/// queue appeared after its topic's first route.
///
/// # Errors
/// A question was not answered: nothing is known and nothing begins.
pub(crate) async fn find(
    shared: &Shared,
    queue: &MessageQueue,
    new: bool,
    not_after: Moment,
) -> Result<Start, AskError> {
    let position = match committed(shared, queue).await? {
        Some(position) => position,
        None => {
            // Messages of the retry topic belong to the group, whenever they were sent back.
            let start = match shared.config.start {
                StartPosition::At(time) if !new && *queue.topic != *shared.config.retry_topic() => {
                    at_time(shared, queue, time).await?
                }
                StartPosition::At(_) | StartPosition::Earliest => min(shared, queue).await?,
            };
            commit(shared, queue, start, not_after).await?;
            start
        }
    };
    before(shared, queue, position).await
}

/// Compares the broker's committed position with ours after doubt, and repeats our commit where it may be.
///
/// # Errors
/// A question was not answered: the doubt goes on.
pub(crate) async fn verify(
    shared: &Shared,
    queue: &MessageQueue,
    (id, epoch): (QueueId, Epoch),
    not_after: Moment,
) -> Result<Place, AskError> {
    let Some((ours, sent)) = shared.leases.progress(id, epoch) else { return Ok(Place::Ahead) };
    let theirs = committed(shared, queue).await?;
    match theirs {
        Some(position) if position > sent => Ok(Place::Ahead),
        Some(position) if position >= ours.position => Ok(Place::Kept),
        Some(_) | None => match (standing(shared, queue, &ours).await?, theirs) {
            (Standing::Unchanged, _) => {
                commit(shared, queue, ours.position, not_after).await?;
                Ok(Place::Kept)
            }
            (Standing::Reset(to), _) => Ok(Place::Moved(to)),
            (Standing::Unproven, Some(position)) => Ok(Place::Moved(position)),
            (Standing::Unproven, None) => {
                Ok(Place::Moved(find(shared, queue, false, not_after).await?.position))
            }
        },
    }
}

/// The group's committed position.
async fn committed(shared: &Shared, queue: &MessageQueue) -> Result<Option<Position>, AskError> {
    let request = QueryOffset {
        group: Arc::clone(&shared.group),
        topic: Arc::clone(&queue.topic),
        queue_id: queue.queue_id,
    };
    let offset = shared.ask(queue, &request, TIMEOUT, None).await?;
    // Brokers before 5.0 answer 0 for a group that never committed while message 0 is still in memory.
    let doubtful =
        offset == Some(0) && !shared.masters.get(&queue.broker_name).is_some_and(|master| master.honest);
    if doubtful && never_committed(shared, queue).await {
        return Ok(None);
    }
    Ok(offset.and_then(|offset| u64::try_from(offset).ok()).map(Position))
}

/// Whether a broker's table of all offsets lacks the queue. Unknown counts as committed: that repeats, but never skips.
async fn never_committed(shared: &Shared, queue: &MessageQueue) -> bool {
    let Ok(reply) = shared.ask(queue, &Command::request(ALL_OFFSETS), TIMEOUT, None).await else {
        return false;
    };
    let Ok(document) = lenient::parse(&reply.body) else { return false };
    let Some(table) = document.get("offsetTable") else { return false };
    let Some(queues) = table.get(&format!("{}@{}", queue.topic, shared.group)) else { return true };
    let ours = i64::from(queue.queue_id);
    queues.members().is_some_and(|members| members.iter().all(|(number, _)| number.as_i64() != Some(ours)))
}

async fn min(shared: &Shared, queue: &MessageQueue) -> Result<Position, AskError> {
    let request = MinOffset { topic: Arc::clone(&queue.topic), queue_id: queue.queue_id };
    Ok(at(shared.ask(queue, &request, TIMEOUT, None).await?))
}

/// The first message stored at or after a time.
async fn at_time(shared: &Shared, queue: &MessageQueue, time: i64) -> Result<Position, AskError> {
    let request = SearchOffset {
        topic: Arc::clone(&queue.topic),
        queue_id: queue.queue_id,
        // Of several messages of one time 4.9 finds any; those of the millisecond before may be passed over.
        timestamp_ms: time.saturating_sub(1),
        boundary: BoundaryType::Lower,
    };
    let mut position = at(shared.ask(queue, &request, TIMEOUT, None).await?);
    let request = MaxOffset { topic: Arc::clone(&queue.topic), queue_id: queue.queue_id };
    let end = at(shared.ask(queue, &request, TIMEOUT, None).await?);
    for _ in 0..LOOKS {
        if position >= end {
            return Ok(end);
        }
        let reply = look(shared, queue, position, LOOK).await?;
        // A place that the answer can't hold is a damaged one.
        let place = |offset| Some(at(offset)).filter(|place| (position..at(reply.next)).contains(place));
        // What can't be decoded, or claims a place that can't be its own, counts too: its time is not known, and passing
        // it over would be silent.
        let start = |offset: Option<i64>, stored_ms: Option<i64>| match offset.and_then(place) {
            Some(place) => stored_ms.is_none_or(|stored| stored >= time).then_some(place),
            None => Some(position),
        };
        let found = StoredMessages::new(reply.messages.clone()).find_map(|entry| match entry {
            Ok(Entry::Stored(stored)) => start(Some(stored.offset), Some(stored.stored_ms)),
            Ok(Entry::Bad(bad)) => start(bad.offset, bad.stored_ms),
            Err(broken) => Some(broken.last_offset.and_then(place).map_or(position, Position::next)),
        });
        match found {
            Some(found) => return Ok(found.min(end)),
            None if reply.messages.is_empty() && reply.status != PullStatus::NoMatch => return Ok(position),
            None => position = at(reply.next).max(position),
        }
    }
    Ok(position)
}

/// A start with the message before it, if that is still there.
///
/// # Errors
/// The answer was lost, and with it perhaps a reset that waited for the next pull.
async fn before(shared: &Shared, queue: &MessageQueue, position: Position) -> Result<Start, AskError> {
    let nothing = Start { position, before: Identity::None };
    let Some(last) = position.0.checked_sub(1).map(Position) else { return Ok(nothing) };
    let reply = match look(shared, queue, last, 1).await {
        Ok(reply) => reply,
        Err(AskError::Call(error)) if error.refusal().is_some() => return Ok(nothing),
        Err(error) => return Err(error),
    };
    if reply.is_reset() {
        return Ok(Start { position: at(reply.next), before: Identity::None });
    }
    let found = messages(&reply).find(|message| at(message.offset) == last);
    let before = found.map_or(Identity::None, |message| Identity::Position {
        offset: last.0,
        stored_ms: message.stored_ms,
        log_offset: message.log_offset,
    });
    Ok(Start { position, before })
}

/// What stands where we committed last.
enum Standing {
    /// The message that we saw there, or none since retention removed it.
    Unchanged,
    /// Another one, or none; or we never knew.
    Unproven,
    /// An operator's reset waited for this look and is told only once.
    Reset(Position),
}

async fn standing(shared: &Shared, queue: &MessageQueue, ours: &Confirmed) -> Result<Standing, AskError> {
    let Identity::Position { offset, log_offset, .. } = ours.last else { return Ok(Standing::Unproven) };
    let reply = look(shared, queue, Position(offset), 1).await?;
    if reply.is_reset() {
        return Ok(Standing::Reset(at(reply.next)));
    }
    let removed = at(reply.min).0 > offset && reply.max > reply.min;
    let same =
        messages(&reply).any(|message| at(message.offset).0 == offset && message.log_offset == log_offset);
    Ok(if removed || same { Standing::Unchanged } else { Standing::Unproven })
}

/// Looks at messages whatever their tags, without waiting for any.
async fn look(
    shared: &Shared,
    queue: &MessageQueue,
    from: Position,
    count: u32,
) -> Result<PullReply, AskError> {
    let request = Pull {
        group: Arc::clone(&shared.group),
        topic: Arc::clone(&queue.topic),
        queue_id: queue.queue_id,
        offset: i64::try_from(from.0).unwrap_or(i64::MAX),
        count,
        hold: Duration::ZERO,
        expression: Arc::from("*"),
        expression_type: "TAG",
        version: shared.started_ms,
    };
    shared.ask(queue, &request, TIMEOUT, None).await
}

fn messages(reply: &PullReply) -> impl Iterator<Item = Box<Stored>> {
    StoredMessages::new(reply.messages.clone()).filter_map(|entry| match entry {
        Ok(Entry::Stored(stored)) => Some(stored),
        Ok(Entry::Bad(_)) | Err(_) => None,
    })
}

/// Commits a position, for the keeper: not bound to an epoch, but never written after the lease.
pub(crate) async fn commit(
    shared: &Shared,
    queue: &MessageQueue,
    position: Position,
    not_after: Moment,
) -> Result<(), AskError> {
    let request = UpdateOffset {
        group: Arc::clone(&shared.group),
        topic: Arc::clone(&queue.topic),
        queue_id: queue.queue_id,
        offset: i64::try_from(position.0).unwrap_or(i64::MAX),
    };
    shared.ask(queue, &request, TIMEOUT, Some(not_after)).await.map(drop)
}

fn at(offset: i64) -> Position {
    Position(u64::try_from(offset).unwrap_or(0))
}
