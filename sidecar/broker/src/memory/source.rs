use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use lockstep_model::{Epoch, Message, Position, QueueId, Text};

use super::{
    DeadLetter, Happening, MemoryBroker, MemoryOptions, Record,
    halves::Shared,
    state::{Hand, Owner, Queue, State, Stored},
};
use crate::Clock;

/// The memory broker as a test sees it. Copies share one broker.
#[derive(Debug, Clone)]
pub struct MemorySource {
    shared: Arc<Shared>,
}

impl MemorySource {
    /// A broker with these queues and no member. Every part of one test needs the same clock.
    pub fn new(options: MemoryOptions, clock: Clock, queues: &[&str]) -> Self {
        let source = Self { shared: Shared::new(State::new(options, clock)) };
        for queue in queues {
            source.create_queue(queue);
        }
        source
    }

    /// A new member of the group. Two members of one client id share their locks, as two processes with one id would.
    pub fn member(&self, client_id: &str) -> MemoryBroker {
        MemoryBroker::new(Arc::clone(&self.shared), client_id)
    }

    /// Adds a queue behind the others; the members divide anew.
    pub fn create_queue(&self, name: &str) -> QueueId {
        self.shared.change(|state| {
            let id = QueueId(u32::try_from(state.queues.len()).unwrap_or(u32::MAX));
            state.queues.push(Queue {
                name: Arc::from(name),
                base: 0,
                messages: Default::default(),
                committed: None,
                owner: None,
            });
            id
        })
    }

    /// The queues' numbers, in order.
    pub fn queues(&self) -> Vec<QueueId> {
        (0..self.shared.look().queues.len()).filter_map(|n| u32::try_from(n).ok().map(QueueId)).collect()
    }

    /// Stores a message and answers its offset. Its id is `<queue>-<offset>`.
    pub fn publish(&self, queue: QueueId, key: Option<&str>, body: impl Into<Bytes>) -> Position {
        let message = Message { key: key.map(Text::from), body: body.into(), ..Message::default() };
        self.publish_message(queue, message)
    }

    /// Stores a message; an empty id and an absent storing time are filled in.
    pub fn publish_message(&self, queue: QueueId, message: Message) -> Position {
        self.store(queue, message, None)
    }

    /// Stores bytes that no consumer can decode.
    pub fn publish_undecodable(&self, queue: QueueId, raw: impl Into<Bytes>) -> Position {
        self.store(queue, Message::default(), Some((raw.into(), Arc::from("the frame is corrupt"))))
    }

    fn store(&self, id: QueueId, mut message: Message, raw: Option<(Bytes, Arc<str>)>) -> Position {
        self.shared.change(|state| {
            let now = i64::try_from(state.clock.now().as_nanos() / 1_000_000).unwrap_or(i64::MAX);
            state.log_offset += 1;
            let log_offset = state.log_offset;
            let queue = state.queue_mut(id).expect("a test must publish to a queue that exists");
            let offset = queue.end();
            if message.id.is_empty() {
                message.id = Text::from(format!("{}-{offset}", queue.name));
            }
            message.stored_ms.get_or_insert(now);
            let what = Happening::Published { offset, id: message.id.clone(), key: message.key.clone() };
            queue.messages.push_back(Stored { message, raw, log_offset, redeliveries: 0, hand: Hand::Ready });
            state.record(id, what);
            Position(offset)
        })
    }

    /// The committed position of a log; `None` before the first owner.
    pub fn committed(&self, queue: QueueId) -> Option<Position> {
        self.shared.look().queue(queue)?.committed.map(Position)
    }

    /// Messages that are not finished: behind the cursor, or not settled.
    pub fn unsettled(&self, queue: QueueId) -> u64 {
        let state = self.shared.look();
        let locks = state.locks();
        state.queue(queue).map_or(0, |queue| {
            if locks {
                return queue.end() - queue.committed.unwrap_or(queue.base).max(queue.base).min(queue.end());
            }
            queue.messages.iter().filter(|stored| !matches!(stored.hand, Hand::Settled { .. })).count() as u64
        })
    }

    /// The dead letters so far.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.shared.look().dead.clone()
    }

    /// Everything that happened at the broker so far, in order.
    pub fn records(&self) -> Vec<Record> {
        self.shared.look().records.clone()
    }

    /// Who owns each queue at the broker, locks that ran out left out.
    pub fn owners(&self) -> BTreeMap<QueueId, (String, Epoch)> {
        let state = self.shared.look();
        let now = state.clock.now();
        let live = |owner: &&Owner| owner.expires.is_none_or(|at| now < at);
        self.queues_of(&state)
            .filter_map(|(id, queue)| {
                queue.owner.as_ref().filter(live).map(|owner| (id, (owner.name.clone(), owner.epoch)))
            })
            .collect()
    }

    /// How many queues each owner has.
    pub fn owned_by(&self, client_id: &str) -> usize {
        self.owners().values().filter(|(name, _)| name == client_id).count()
    }

    fn queues_of<'a>(&self, state: &'a State) -> impl Iterator<Item = (QueueId, &'a Queue)> + use<'a> {
        (0u32..).map(QueueId).zip(state.queues.iter())
    }

    /// Retention: removes the messages of a log before `to`, read or not.
    pub fn trim(&self, id: QueueId, to: Position) {
        self.shared.change(|state| {
            let Some(queue) = state.queue_mut(id) else { return };
            while queue.base < to.0 && queue.messages.pop_front().is_some() {
                queue.base += 1;
            }
            state.record(id, Happening::Trimmed { to });
        });
    }

    /// Sets the group's position of a log as an operator's tool does; the owner learns it as `Moved`.
    pub fn reset(&self, id: QueueId, to: Position) {
        self.shared.change(|state| {
            if let Some(queue) = state.queue_mut(id) {
                queue.committed = Some(to.0);
            }
            for member in state.members.values_mut() {
                if let Some(held) = member.held.get_mut(&id) {
                    held.moved = Some(to);
                }
            }
            state.record(id, Happening::Reset { to });
        });
    }

    /// Takes the queue from its owner; whoever it is allocated to takes it anew.
    pub fn lose(&self, id: QueueId) {
        self.shared.change(|state| state.take_away(id));
    }

    /// Gives the queue to somebody outside the group for a time; its owner loses it.
    pub fn seize(&self, id: QueueId, time: Duration) {
        self.shared.change(|state| {
            state.take_away(id);
            state.last_epoch += 1;
            let epoch = Epoch(state.last_epoch);
            let expires = Some(state.clock.now() + time);
            if let Some(queue) = state.queue_mut(id) {
                queue.owner = Some(Owner { name: "outsider".into(), instance: 0, epoch, expires });
            }
        });
    }

    /// Cuts a member's connection: its leases become doubtful, and it leaves the allocation. A log keeps its locks
    /// until they run out; an exclusive consumer's queues are free at once.
    pub fn cut(&self, client_id: &str) {
        self.shared.change(|state| {
            let mut instances = Vec::new();
            for (instance, member) in &mut state.members {
                if member.name == client_id && !member.cut {
                    member.cut = true;
                    instances.push(*instance);
                }
            }
            for instance in instances {
                state.abandon(instance);
            }
        });
    }

    /// Restores a cut connection.
    pub fn restore(&self, client_id: &str) {
        self.shared.change(|state| {
            let now = state.clock.now();
            for member in state.members.values_mut().filter(|member| member.name == client_id && member.cut) {
                member.cut = false;
                member.reconnects += 1;
                member.last_seen = now;
            }
        });
    }

    /// Restarts the broker: it forgets all locks and channels, keeps messages and cursors, and for the time of one
    /// lease only locks that a member held before are taken again.
    pub fn restart(&self) {
        self.shared.change(|state| {
            let half = state.options.lock_lifetime / 2;
            let locks = state.locks();
            state.restarts += 1;
            state.quiet_until = locks.then(|| state.clock.now() + half);
            for id in (0..state.queues.len()).filter_map(|n| u32::try_from(n).ok().map(QueueId)) {
                state.free(id);
            }
        });
    }
}

impl State {
    fn take_away(&mut self, id: QueueId) {
        self.free(id);
        for member in self.members.values_mut() {
            if let Some(held) = member.held.get_mut(&id) {
                held.lost = true;
            }
        }
    }

    /// The broker sees a member's connection end: exclusive queues are free, locks stay.
    fn abandon(&mut self, instance: u64) {
        if self.locks() {
            return;
        }
        let owned: Vec<QueueId> = (0u32..)
            .map(QueueId)
            .zip(&self.queues)
            .filter(|(_, queue)| queue.owner.as_ref().is_some_and(|owner| owner.instance == instance))
            .map(|(id, _)| id)
            .collect();
        for id in owned {
            self.free(id);
        }
    }

    /// A member's process is gone.
    pub(super) fn forget(&mut self, instance: u64) {
        self.abandon(instance);
        self.members.remove(&instance);
    }
}
