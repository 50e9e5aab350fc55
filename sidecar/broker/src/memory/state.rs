use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use lockstep_model::{Epoch, Message, Moment, Position, QueueId, QueueName, Settlement};

use super::{DeadLetter, Happening, MemoryOptions, Record};
use crate::{BrokerError, Class, Clock, SourceState, reason, refusal};

/// Everything the broker and the adapters' halves share. One lock, held for a moment at a time.
#[derive(Debug)]
pub(super) struct State {
    pub(super) options: MemoryOptions,
    pub(super) clock: Clock,
    pub(super) queues: Vec<Queue>,
    pub(super) members: BTreeMap<u64, Member>,
    pub(super) dead: Vec<DeadLetter>,
    pub(super) records: Vec<Record>,
    pub(super) last_epoch: u64,
    pub(super) last_instance: u64,
    pub(super) log_offset: i64,
    /// Set by a restart: until then only locks held before are taken again.
    pub(super) quiet_until: Option<Moment>,
    /// Rises with each restart; fetches in flight over one fail.
    pub(super) restarts: u64,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: QueueName,
    /// The offset of the first message kept.
    pub(super) base: u64,
    pub(super) messages: VecDeque<Stored>,
    pub(super) committed: Option<u64>,
    pub(super) owner: Option<Owner>,
}

#[derive(Debug)]
pub(super) struct Stored {
    pub(super) message: Message,
    pub(super) raw: Option<(Bytes, Arc<str>)>,
    pub(super) log_offset: i64,
    pub(super) redeliveries: u32,
    pub(super) hand: Hand,
}

/// Where a message of a `PerDelivery` queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hand {
    Ready,
    Out { epoch: Epoch, tag: u64 },
    Settled { epoch: Epoch, tag: u64 },
}

/// The broker's view of an ownership.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    pub(super) name: String,
    pub(super) instance: u64,
    pub(super) epoch: Epoch,
    pub(super) expires: Option<Moment>,
}

/// One process of the group, as it sees itself.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) joined: bool,
    pub(super) leaving: bool,
    pub(super) cut: bool,
    pub(super) reconnects: u64,
    pub(super) last_seen: Moment,
    pub(super) held: BTreeMap<QueueId, Held>,
    pub(super) released: Vec<(QueueId, Epoch)>,
    pub(super) told: Option<SourceState>,
}

/// A member's view of one of its ownerships.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) epoch: Epoch,
    pub(super) deadline: Option<Moment>,
    pub(super) renew_at: Option<Moment>,
    pub(super) doubtful: bool,
    pub(super) revoking: bool,
    pub(super) lost: bool,
    pub(super) moved: Option<Position>,
    /// The cursor this ownership knows to be committed; a higher one at the broker is another owner's.
    pub(super) committed: u64,
    pub(super) next_tag: u64,
}

impl State {
    pub(super) fn new(options: MemoryOptions, clock: Clock) -> Self {
        Self {
            options,
            clock,
            queues: Vec::new(),
            members: BTreeMap::new(),
            dead: Vec::new(),
            records: Vec::new(),
            last_epoch: 0,
            last_instance: 0,
            log_offset: 0,
            quiet_until: None,
            restarts: 0,
        }
    }

    pub(super) fn locks(&self) -> bool {
        self.options.settlement == Settlement::Cumulative
    }

    pub(super) fn queue(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(id.0 as usize)
    }

    pub(super) fn queue_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues.get_mut(id.0 as usize)
    }

    pub(super) fn record(&mut self, queue: QueueId, what: Happening) {
        self.records.push(Record { at: self.clock.now(), queue, what });
    }

    /// The ownership that a member acts under, or why it may not act.
    pub(super) fn current(
        &mut self,
        operation: &'static str,
        instance: u64,
        queue: QueueId,
        epoch: Epoch,
    ) -> Result<&mut Held, BrokerError> {
        let now = self.clock.now();
        let Some(member) = self.members.get_mut(&instance) else {
            return Err(refused(operation, "NotConnected", "the member is gone"));
        };
        if member.cut {
            return Err(refused(operation, reason::CONNECTION_LOST, "the connection to the broker is lost"));
        }
        match member.held.get_mut(&queue) {
            Some(held)
                if held.epoch == epoch
                    && !held.lost
                    && held.deadline.is_none_or(|deadline| now < deadline) =>
            {
                Ok(held)
            }
            Some(_) | None => Err(refused(operation, "NotOwner", "the queue is not owned under that epoch")),
        }
    }

    /// Takes the queue from its owner at the broker; what was handed out and not settled is ready again, in order.
    pub(super) fn free(&mut self, queue: QueueId) {
        let per_delivery = !self.locks();
        let Some(queue) = self.queue_mut(queue) else { return };
        queue.owner = None;
        if per_delivery {
            for stored in &mut queue.messages {
                if matches!(stored.hand, Hand::Out { .. }) {
                    stored.hand = Hand::Ready;
                    stored.redeliveries = stored.redeliveries.saturating_add(1);
                }
            }
        }
    }

    pub(super) fn owns(&self, queue: QueueId, instance: u64) -> bool {
        let now = self.clock.now();
        let Some(owner) = self.queue(queue).and_then(|queue| queue.owner.as_ref()) else { return false };
        if owner.expires.is_some_and(|expires| expires <= now) {
            return false;
        }
        if !self.locks() {
            return owner.instance == instance;
        }
        self.members.get(&instance).is_some_and(|member| member.name == owner.name)
    }
}

impl Queue {
    pub(super) fn end(&self) -> u64 {
        self.base + self.messages.len() as u64
    }

    pub(super) fn stored(&self, offset: u64) -> Option<&Stored> {
        let index = usize::try_from(offset.checked_sub(self.base)?).ok()?;
        self.messages.get(index)
    }

    /// Drops settled messages from the front (`PerDelivery`).
    pub(super) fn shed(&mut self) {
        while self.messages.front().is_some_and(|stored| matches!(stored.hand, Hand::Settled { .. })) {
            self.messages.pop_front();
            self.base += 1;
        }
    }
}

pub(super) fn refused(operation: &'static str, reason: &'static str, message: &str) -> BrokerError {
    refusal(operation, Class::Transient, reason, message)
}
