//! One channel that consumes from one queue, from its beginning to its end: what came and was not taken, what is not settled,
//! and the ownership that it has become.

use std::{
    collections::VecDeque,
    num::NonZeroU64,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use lockstep_broker::{Clock, FetchRequest, Settle};
use lockstep_exclusive::Held;
use lockstep_model::{Delivery, Epoch, Moment, Position, QueueId, QueueName};
use tokio::sync::{Notify, futures::Notified};

use crate::{
    amqp::{AmqpError, BodyState, Budget, Channel, Deliveries, DeliveryEvent, RawDelivery, RawProperties},
    config::KeySource,
    message,
    unsettled::{Standing, Unsettled},
};

/// So long after the last settlement a body that had no room waits no longer for those before it.
const HELD_UP: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) queue: QueueId,
    pub(crate) name: QueueName,
    /// The channel's number in the queue's machine.
    pub(crate) number: u64,
    pub(crate) channel: Channel,
    /// Where a rejected message goes is known: it is not dropped.
    pub(crate) may_reject: bool,
    /// Opened with room for a body that had none.
    with_room: bool,
    /// Whether properties are kept for dead letters.
    pub(crate) keeps_origin: bool,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    epoch: Option<Epoch>,
    deadline: Moment,
    doubtful: bool,
    over: bool,
    /// The last settlement.
    written: Moment,
    /// At most as many as the prefetch.
    inbox: VecDeque<RawDelivery>,
    unsettled: Unsettled<Option<Origin>>,
}

/// What a dead letter needs of a message beside its body.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) properties: Option<RawProperties>,
    pub(crate) exchange: Bytes,
    pub(crate) routing_key: Bytes,
    /// Whether its body was kept.
    pub(crate) whole: bool,
}

/// What a fetch finds.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Something, and where to go on.
    Deliveries(Vec<Delivery>, Position),
    /// Nothing now.
    Nothing,
    /// The next one's body of that size had no room, and all before it is done: it has to come anew.
    NoRoom(u64),
    /// The ownership is over or in doubt.
    NotOwned,
}

/// What ended a channel that consumes.
#[derive(Debug)]
pub(crate) enum End {
    /// The broker ended the consumer; the channel is open.
    Cancelled,
    /// The channel ended.
    Closed(AmqpError),
    /// The broker sent what it may not.
    Nonsense,
}

impl Consumer {
    pub(crate) fn new(
        (queue, name): (QueueId, QueueName),
        number: u64,
        channel: Channel,
        (may_reject, with_room, keeps_origin): (bool, bool, bool),
    ) -> Self {
        Self {
            queue,
            name,
            number,
            channel,
            may_reject,
            with_room,
            keeps_origin,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Takes what comes until the end.
    pub(crate) async fn receive(&self, mut deliveries: Deliveries, clock: Clock) -> End {
        loop {
            let mut event = Some(deliveries.next().await);
            let mut state = self.lock();
            let now = clock.now();
            while let Some(arrived) = event {
                let raw = match arrived {
                    DeliveryEvent::Message(raw) => raw,
                    DeliveryEvent::Cancelled => return End::Cancelled,
                    DeliveryEvent::Closed(error) => return End::Closed(error),
                };
                let origin = self.keeps_origin.then(|| Origin::of(&raw));
                if state.unsettled.arrived(raw.tag.get(), now, origin).is_err() {
                    return End::Nonsense;
                }
                state.inbox.push_back(raw);
                event = deliveries.try_next();
            }
            drop(state);
            self.changed.notify_one();
        }
    }

    /// When the oldest delivery came that nothing was said of.
    pub(crate) fn oldest(&self) -> Option<Moment> {
        self.lock().unsettled.oldest()
    }

    /// How many deliveries have come; `None` while some of them are not settled.
    pub(crate) fn came_and_went(&self) -> Option<u64> {
        let state = self.lock();
        state.unsettled.is_empty().then(|| state.unsettled.next())
    }

    /// Wakes when something has come or changed since this call.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Takes what a fetch asks for.
    pub(crate) fn take(&self, request: FetchRequest, key: &KeySource, now: Moment) -> Taken {
        let mut state = self.lock();
        if !state.is_owned(request.epoch, now) {
            return Taken::NotOwned;
        }
        let context = message::Context { queue: self.queue, name: &self.name, epoch: request.epoch, key };
        let mut deliveries = Vec::new();
        let mut bytes = 0_u64;
        while let Some(next) = state.inbox.front() {
            if let Some(size) = no_room(next) {
                // Each time that it has to come anew something was done: else those before it would come with it for ever,
                // and take the room that it needs.
                if state.unsettled.first() == Some(next.tag.get()) {
                    return Taken::NoRoom(size);
                }
                break;
            }
            bytes += next.body.size();
            if deliveries.len() >= request.count as usize
                || (!deliveries.is_empty() && bytes > request.bytes as u64)
            {
                break;
            }
            if let Some(raw) = state.inbox.pop_front() {
                deliveries.push(message::delivery(&context, raw));
            }
        }
        match deliveries.last() {
            Some(last) => {
                let next = last.position.next();
                Taken::Deliveries(deliveries, next)
            }
            None => Taken::Nothing,
        }
    }

    /// Whether the next one had no room, and those before it keep it from coming anew: they are held, as one of another key
    /// may be for long.
    pub(crate) fn is_held_up(&self, now: Moment) -> bool {
        self.lock().is_held_up(self.with_room, now)
    }

    /// The size of the first body that had no room.
    pub(crate) fn without_room(&self) -> Option<u64> {
        self.lock().inbox.iter().find_map(no_room)
    }

    /// How far the settlement of each has come; `None` where it is not owned under that epoch.
    pub(crate) fn standings(&self, batch: &[Settle], now: Moment) -> Vec<Option<Standing>> {
        let state = self.lock();
        let standing = |settle: &Settle| {
            let tag = settle.delivery.position.0;
            state.is_owned(settle.epoch, now).then(|| state.unsettled.standing(tag))
        };
        batch.iter().map(standing).collect()
    }

    /// Runs something on what is not settled, if it is owned under that epoch.
    pub(crate) fn with_unsettled<T>(
        &self,
        epoch: Epoch,
        now: Moment,
        run: impl FnOnce(&mut Unsettled<Option<Origin>>, &Channel) -> T,
    ) -> Option<T> {
        let mut state = self.lock();
        state.is_owned(epoch, now).then(|| run(&mut state.unsettled, &self.channel))
    }

    /// What was kept of a delivery.
    pub(crate) fn origin(&self, tag: u64) -> Option<Origin> {
        self.lock().unsettled.kept(tag).cloned().flatten()
    }

    /// The broker has read what it was told of these.
    pub(crate) fn settled(&self, tags: impl Iterator<Item = u64>, now: Moment) {
        let mut state = self.lock();
        state.written = now;
        tags.for_each(|tag| state.unsettled.settled(tag));
        if state.inbox.front().and_then(no_room).is_some() {
            // It may be its turn to come anew.
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Whether as many are out as the prefetch lets out, and the broker was told of none of them: then it has applied all
    /// that it was told, since it sends no more before.
    pub(crate) fn is_full(&self, prefetch: u16) -> bool {
        self.lock().unsettled.untold() >= usize::from(prefetch)
    }

    /// When something was last settled.
    pub(crate) fn last_written(&self) -> Moment {
        self.lock().written
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No change leaves the state half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_held_up(&self, with_room: bool, now: Moment) -> bool {
        let waits = self.inbox.front().and_then(no_room).is_some();
        // When it comes anew, either something was done, or there is room for it that there was not before.
        let moves = self.unsettled.has_settled() || !with_room;
        waits && moves && now.since(self.written) >= HELD_UP
    }

    fn is_owned(&self, epoch: Epoch, now: Moment) -> bool {
        self.epoch == Some(epoch) && !self.over && !self.doubtful && now < self.deadline
    }
}

impl Held for Consumer {
    fn number(&self) -> u64 {
        self.number
    }

    fn owns(&self, epoch: Epoch, deadline: Moment) {
        let mut state = self.lock();
        state.epoch = Some(epoch);
        state.deadline = deadline;
    }

    fn renewed(&self, deadline: Moment) {
        self.lock().deadline = deadline;
    }

    fn doubtful(&self) {
        let mut state = self.lock();
        state.doubtful = true;
        state.inbox.clear();
        drop(state);
        self.changed.notify_one();
    }

    fn over(&self) {
        let mut state = self.lock();
        state.over = true;
        state.inbox.clear();
        drop(state);
        self.changed.notify_one();
    }
}

impl Origin {
    fn of(raw: &RawDelivery) -> Self {
        Self {
            properties: raw.properties.as_ref().ok().cloned(),
            exchange: raw.exchange.clone(),
            routing_key: raw.routing_key.clone(),
            whole: matches!(raw.body, BodyState::Whole(_)),
        }
    }
}

/// The bytes that a delivery needs and had no room for, unless there never will be.
fn no_room(raw: &RawDelivery) -> Option<u64> {
    match raw.body {
        // With its properties, for which there was no room either.
        BodyState::Stub { size } => Some(size).filter(|size| *size <= Budget::largest()),
        BodyState::Whole(_) => None,
    }
}

/// A tag, which is never 0.
pub(crate) fn tag(position: Position) -> Option<NonZeroU64> {
    NonZeroU64::new(position.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::{BadProperties, HeaderDefect};

    fn of(size: u64) -> RawDelivery {
        RawDelivery {
            tag: NonZeroU64::MIN,
            redelivered: false,
            exchange: Bytes::new(),
            routing_key: Bytes::new(),
            // Those of a message that was not kept are not either.
            properties: Err(BadProperties { raw: Bytes::new(), defect: HeaderDefect::NoRoom { size: 5000 } }),
            body: BodyState::Stub { size },
        }
    }

    #[test]
    fn what_has_no_room_waits_for_those_before_it_while_they_move_and_comes_anew_only_for_a_gain() {
        let mut state = State { written: Moment::from_millis(1000), ..State::default() };
        for tag in 1..=3 {
            state.unsettled.arrived(tag, Moment::ZERO, None).unwrap();
        }
        let held = |state: &State| {
            let at = |with_room, now| state.is_held_up(with_room, Moment::from_millis(now));
            (at(false, 5999), at(false, 6000), at(true, 6000))
        };
        assert_eq!(held(&state), (false, false, false));
        state.inbox.push_back(of(5000));
        assert_eq!(held(&state), (false, true, false));
        state.unsettled.written(2);
        state.unsettled.settled(2);
        assert_eq!(held(&state), (false, true, true));
    }

    #[test]
    fn what_has_no_room_is_fetched_again_unless_there_never_will_be_any() {
        let largest = Budget::largest();
        assert_eq!(
            [5000, largest, largest + 1].map(|size| no_room(&of(size))),
            [Some(5000), Some(largest), None]
        );
    }
}
