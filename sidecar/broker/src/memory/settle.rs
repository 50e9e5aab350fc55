use std::sync::Arc;

use lockstep_model::{Delivery, Identity, KeyHash, Moment, Position, QueueId, Undecodable};

use super::{
    DeadLetter, Happening,
    state::{Hand, Queue, State, Stored, refused},
};
use crate::{BrokerError, Commit, FetchRequest, Fetched, Settle, Settlement, reason};

impl State {
    /// What a fetch brings now; `None` while there is nothing.
    pub(super) fn fetch(
        &mut self,
        instance: u64,
        request: FetchRequest,
    ) -> Result<Option<Fetched>, BrokerError> {
        let held = self.current("fetch", instance, request.queue, request.epoch)?;
        let next_tag = held.next_tag;
        let locks = self.locks();
        let lookahead = self.options.lookahead;
        let Some(queue) = self.queue_mut(request.queue) else {
            return Err(refused("fetch", "QueueNotFound", "the queue does not exist"));
        };
        if locks {
            return Ok(queue.read(request));
        }
        let (fetched, next_tag) = queue.hand_out(request, next_tag, lookahead);
        self.current("fetch", instance, request.queue, request.epoch)?.next_tag = next_tag;
        Ok(fetched)
    }

    pub(super) fn commit(&mut self, instance: u64, commit: &Commit) -> Result<(), BrokerError> {
        if !self.locks() {
            return Err(refused("commit", reason::NOT_SUPPORTED, "this source settles one by one"));
        }
        let held = self.current("commit", instance, commit.queue, commit.epoch)?;
        if held.moved.is_some() {
            return Err(refused("commit", "PositionMoved", "the position was just set from outside"));
        }
        self.in_time("commit", commit.not_after)?;
        let end = self.queue(commit.queue).map_or(0, Queue::end);
        if commit.position.0 > end {
            return Err(refused("commit", "OutOfRange", "the position lies behind the queue's end"));
        }
        self.current("commit", instance, commit.queue, commit.epoch)?.committed = commit.position.0;
        if let Some(queue) = self.queue_mut(commit.queue) {
            queue.committed = Some(commit.position.0);
        }
        let member = self.name(instance);
        let what = Happening::Committed { member, epoch: commit.epoch, position: commit.position };
        self.record(commit.queue, what);
        Ok(())
    }

    pub(super) fn settle(&mut self, instance: u64, settle: &Settle) -> Result<(), BrokerError> {
        let id = settle.delivery.queue;
        self.current("settle", instance, id, settle.epoch)?;
        self.in_time("settle", settle.not_after)?;
        if self.locks() {
            return match settle.settlement {
                Settlement::DeadLetter => {
                    let offset = settle.delivery.position.0;
                    self.dead_letter(instance, settle, offset);
                    Ok(())
                }
                Settlement::Accept | Settlement::Release => {
                    Err(refused("settle", reason::NOT_SUPPORTED, "a log is settled by its cursor"))
                }
            };
        }
        let (epoch, tag) = (settle.epoch, settle.delivery.position.0);
        let found = self.queue_mut(id).and_then(|queue| {
            let index = queue.messages.iter().position(|stored| stored.hand == Hand::Out { epoch, tag })?;
            Some(queue.base + index as u64)
        });
        // A tag that is not out any more was settled before: a repeated settlement is no failure.
        let Some(offset) = found else { return Ok(()) };
        let hand = match settle.settlement {
            Settlement::Accept => {
                let member = self.name(instance);
                self.record(id, Happening::Accepted { member, epoch, offset });
                Hand::Settled { epoch, tag }
            }
            Settlement::DeadLetter => {
                self.dead_letter(instance, settle, offset);
                Hand::Settled { epoch, tag }
            }
            Settlement::Release => Hand::Ready,
        };
        if let Some(queue) = self.queue_mut(id) {
            let index = usize::try_from(offset - queue.base).unwrap_or(usize::MAX);
            if let Some(stored) = queue.messages.get_mut(index) {
                stored.hand = hand;
                stored.redeliveries += u32::from(hand == Hand::Ready);
            }
            queue.shed();
        }
        Ok(())
    }

    fn dead_letter(&mut self, instance: u64, settle: &Settle, offset: u64) {
        let queue = settle.delivery.queue;
        if self.dead.iter().any(|dead| dead.queue == queue && dead.offset == offset) {
            return;
        }
        let stored = self.queue(queue).and_then(|queue| queue.stored(offset));
        // Retention may have removed the original: then the copy in hand is stored.
        let (message, raw) = match stored {
            Some(stored) => (stored.message.clone(), stored.raw.as_ref().map(|(raw, _)| raw.clone())),
            None => (
                settle.delivery.message.clone(),
                settle.delivery.undecodable.as_ref().map(|undecodable| undecodable.raw.clone()),
            ),
        };
        self.dead.push(DeadLetter { queue, offset, message, raw, attempts: settle.attempts });
        let member = self.name(instance);
        self.record(queue, Happening::DeadLettered { member, epoch: settle.epoch, offset });
    }

    fn in_time(&self, operation: &'static str, not_after: Option<Moment>) -> Result<(), BrokerError> {
        if not_after.is_some_and(|limit| self.clock.now() > limit) {
            return Err(refused(operation, "TooLate", "the time to write it is over"));
        }
        Ok(())
    }

    fn name(&self, instance: u64) -> String {
        self.members.get(&instance).map(|member| member.name.clone()).unwrap_or_default()
    }
}

impl Queue {
    fn read(&self, request: FetchRequest) -> Option<Fetched> {
        let (from, end) = (request.from.0, self.end());
        if from < self.base || from > end {
            let to = Position(from.clamp(self.base, end));
            return Some(Fetched::Moved { to, reset: false });
        }
        let mut room = Room::new(request);
        let mut deliveries = Vec::new();
        for offset in from..end {
            let Some(stored) = self.stored(offset) else { break };
            let identity = Identity::Position {
                offset,
                stored_ms: stored.message.stored_ms.unwrap_or_default(),
                log_offset: stored.log_offset,
            };
            let delivery = stored.delivery(request.queue, Position(offset), identity);
            if !room.take(&delivery) {
                break;
            }
            deliveries.push(delivery);
        }
        let next = Position(from + deliveries.len() as u64);
        (!deliveries.is_empty()).then(|| Fetched::Deliveries { deliveries, next, end: Some(Position(end)) })
    }

    fn hand_out(
        &mut self,
        request: FetchRequest,
        first_tag: u64,
        lookahead: Option<u32>,
    ) -> (Option<Fetched>, u64) {
        let out = self.messages.iter().filter(|stored| matches!(stored.hand, Hand::Out { .. })).count();
        let most = lookahead.map_or(usize::MAX, |most| (most as usize).saturating_sub(out));
        let mut room = Room::new(request);
        let mut tag = first_tag;
        let mut deliveries = Vec::new();
        for stored in self.messages.iter_mut().filter(|stored| stored.hand == Hand::Ready).take(most) {
            let identity = Identity::Unique(bytes::Bytes::copy_from_slice(stored.message.id.as_bytes()));
            let delivery = stored.delivery(request.queue, Position(tag), identity);
            if !room.take(&delivery) {
                break;
            }
            stored.hand = Hand::Out { epoch: request.epoch, tag };
            tag += 1;
            deliveries.push(delivery);
        }
        let next = Position(tag);
        let fetched = (!deliveries.is_empty()).then(|| Fetched::Deliveries { deliveries, next, end: None });
        (fetched, tag)
    }
}

impl Stored {
    fn delivery(&self, queue: QueueId, position: Position, identity: Identity) -> Delivery {
        Delivery {
            queue,
            position,
            identity,
            key: self.message.key.as_ref().map(|key| KeyHash::of(key.as_bytes())),
            redeliveries: self.redeliveries,
            message: self.message.clone(),
            undecodable: self
                .raw
                .as_ref()
                .map(|(raw, reason)| Undecodable { raw: raw.clone(), reason: Arc::clone(reason) }),
        }
    }
}

/// What is left of a request's bounds.
struct Room {
    count: u32,
    bytes: usize,
    first: bool,
}

impl Room {
    const fn new(request: FetchRequest) -> Self {
        Self { count: request.count, bytes: request.bytes, first: true }
    }

    fn take(&mut self, delivery: &Delivery) -> bool {
        let size = delivery.size();
        if self.count == 0 || (!self.first && size > self.bytes) {
            return false;
        }
        self.count -= 1;
        self.bytes = self.bytes.saturating_sub(size);
        self.first = false;
        true
    }
}
