//! What the three halves know together: which queue is owned under which epoch, until when, and how far it was
//! committed. Looked at right before each write.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use lockstep_broker::QueueTable;
use lockstep_model::{Epoch, Identity, Moment, Position, QueueId, QueueName};

use crate::protocol::MessageQueue;

/// Why something may not be done under an ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It ended, or its time is over.
    Over,
    /// The connection was lost and the lock was not regained yet.
    Doubtful,
    /// The position was moved from outside and the engine has not followed yet.
    Moved {
        /// Where to go on.
        to: Position,
        /// Whether an operator set it.
        reset: bool,
    },
}

/// The place that this member committed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confirmed {
    /// Everything before it is finished.
    pub(crate) position: Position,
    /// The delivery before it.
    pub(crate) last: Identity,
}

#[derive(Debug)]
struct Lease {
    queue: MessageQueue,
    epoch: Epoch,
    deadline: Moment,
    doubtful: bool,
    /// The highest cursor ever sent: what the broker holds beyond it is somebody else's.
    sent: Position,
    confirmed: Confirmed,
    /// Where to, and whether by an operator.
    moved: Option<(Position, bool)>,
}

/// The owned queues. As many as the group has at most.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    names: QueueTable,
    leases: BTreeMap<QueueId, Lease>,
}

impl Leases {
    /// A new ownership begins.
    pub(crate) fn acquired(
        &self,
        queue: &MessageQueue,
        epoch: Epoch,
        deadline: Moment,
        cursor: Confirmed,
    ) -> (QueueId, QueueName) {
        let name = queue.to_string();
        let mut inner = self.lock();
        let id = inner.names.id(&name);
        let sent = cursor.position;
        let lease = Lease {
            queue: queue.clone(),
            epoch,
            deadline,
            doubtful: false,
            sent,
            confirmed: cursor,
            moved: None,
        };
        inner.leases.insert(id, lease);
        let name = inner.names.name(id).unwrap_or_else(|| name.into());
        (id, name)
    }

    /// The number of a queue, owned or not.
    pub(crate) fn id(&self, queue: &MessageQueue) -> QueueId {
        self.lock().names.id(&queue.to_string())
    }

    /// The lease lives on.
    pub(crate) fn renewed(&self, id: QueueId, epoch: Epoch, deadline: Moment) {
        self.with(id, epoch, |lease| (lease.deadline, lease.doubtful) = (deadline, false));
    }

    /// The connection behind it is lost.
    pub(crate) fn doubtful(&self, id: QueueId, epoch: Epoch) {
        self.with(id, epoch, |lease| lease.doubtful = true);
    }

    /// The ownership ends.
    pub(crate) fn ended(&self, id: QueueId, epoch: Epoch) {
        let mut inner = self.lock();
        if inner.leases.get(&id).is_some_and(|lease| lease.epoch == epoch) {
            inner.leases.remove(&id);
        }
    }

    /// The position was moved from outside: commits wait until the engine follows.
    pub(crate) fn moved(&self, id: QueueId, epoch: Epoch, to: Position, reset: bool) {
        self.with(id, epoch, |lease| {
            lease.moved = Some((to, reset));
            lease.confirmed = Confirmed { position: to, last: Identity::None };
            lease.sent = lease.sent.max(to);
        });
    }

    /// The queue of an ownership that is current and not doubtful, for a fetch from `from`.
    ///
    /// # Errors
    /// Why it may not be fetched.
    pub(crate) fn may_fetch(
        &self,
        id: QueueId,
        epoch: Epoch,
        from: Position,
        now: Moment,
    ) -> Result<MessageQueue, Refusal> {
        let mut inner = self.lock();
        let lease = usable(inner.leases.get_mut(&id), epoch, now)?;
        match lease.moved {
            Some((to, reset)) if to != from => Err(Refusal::Moved { to, reset }),
            Some(_) | None => {
                lease.moved = None;
                Ok(lease.queue.clone())
            }
        }
    }

    /// The queue of an ownership under which something may be written now.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) fn may_write(&self, id: QueueId, epoch: Epoch, now: Moment) -> Result<MessageQueue, Refusal> {
        let mut inner = self.lock();
        Ok(usable(inner.leases.get_mut(&id), epoch, now)?.queue.clone())
    }

    /// Like [`Leases::may_write`], for a cursor; remembers that it was sent.
    ///
    /// # Errors
    /// Why it may not be written.
    pub(crate) fn may_commit(
        &self,
        id: QueueId,
        epoch: Epoch,
        position: Position,
        now: Moment,
    ) -> Result<MessageQueue, Refusal> {
        let mut inner = self.lock();
        let lease = usable(inner.leases.get_mut(&id), epoch, now)?;
        match lease.moved {
            Some((to, reset)) if to != position => Err(Refusal::Moved { to, reset }),
            Some(_) | None => {
                lease.sent = lease.sent.max(position);
                Ok(lease.queue.clone())
            }
        }
    }

    /// The broker confirmed a cursor.
    pub(crate) fn confirmed(&self, id: QueueId, epoch: Epoch, confirmed: Confirmed) {
        self.with(id, epoch, |lease| {
            if lease.moved.is_none() {
                lease.confirmed = confirmed;
            }
        });
    }

    /// What was committed and what was sent under an ownership.
    pub(crate) fn progress(&self, id: QueueId, epoch: Epoch) -> Option<(Confirmed, Position)> {
        let inner = self.lock();
        let lease = inner.leases.get(&id).filter(|lease| lease.epoch == epoch)?;
        Some((lease.confirmed.clone(), lease.sent))
    }

    /// When an ownership ends unless renewed.
    pub(crate) fn deadline(&self, id: QueueId, epoch: Epoch) -> Option<Moment> {
        let inner = self.lock();
        inner.leases.get(&id).filter(|lease| lease.epoch == epoch).map(|lease| lease.deadline)
    }

    /// Every owned queue and its committed position.
    pub(crate) fn all(&self) -> Vec<(MessageQueue, Position)> {
        self.lock().leases.values().map(|lease| (lease.queue.clone(), lease.confirmed.position)).collect()
    }

    fn with(&self, id: QueueId, epoch: Epoch, change: impl FnOnce(&mut Lease)) {
        if let Some(lease) = self.lock().leases.get_mut(&id).filter(|lease| lease.epoch == epoch) {
            change(lease);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No change leaves the table half done, so one that a panic interrupted is as good as any.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn usable(lease: Option<&mut Lease>, epoch: Epoch, now: Moment) -> Result<&mut Lease, Refusal> {
    let lease = lease.filter(|lease| lease.epoch == epoch && now < lease.deadline).ok_or(Refusal::Over)?;
    if lease.doubtful { Err(Refusal::Doubtful) } else { Ok(lease) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const EPOCH: Epoch = Epoch(7);

    fn owned() -> (Leases, QueueId) {
        let leases = Leases::default();
        let queue = MessageQueue { topic: Arc::from("t"), broker_name: Arc::from("b"), queue_id: 0 };
        let (id, name) = leases.acquired(
            &queue,
            EPOCH,
            Moment::from_millis(100),
            Confirmed { position: Position(5), last: Identity::None },
        );
        assert_eq!(&*name, "t/b/0");
        (leases, id)
    }

    fn at(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    #[test]
    fn nothing_is_done_under_another_epoch_or_behind_the_deadline() {
        let (leases, id) = owned();
        assert!(leases.may_commit(id, EPOCH, Position(6), at(99)).is_ok());
        assert_eq!(leases.may_commit(id, EPOCH, Position(6), at(100)), Err(Refusal::Over));
        assert_eq!(leases.may_write(id, Epoch(6), at(0)), Err(Refusal::Over));
        assert_eq!(leases.may_fetch(id, Epoch(8), Position(5), at(0)), Err(Refusal::Over));
        leases.renewed(id, EPOCH, at(200));
        assert!(leases.may_write(id, EPOCH, at(150)).is_ok());
        leases.ended(id, EPOCH);
        assert_eq!(leases.may_write(id, EPOCH, at(150)), Err(Refusal::Over));
    }

    #[test]
    fn under_doubt_nothing_is_done_until_the_lease_is_renewed() {
        let (leases, id) = owned();
        leases.doubtful(id, EPOCH);
        assert_eq!(leases.may_write(id, EPOCH, at(1)), Err(Refusal::Doubtful));
        assert_eq!(leases.may_fetch(id, EPOCH, Position(5), at(1)), Err(Refusal::Doubtful));
        leases.renewed(id, EPOCH, at(200));
        assert!(leases.may_write(id, EPOCH, at(1)).is_ok());
    }

    #[test]
    fn after_a_move_commits_wait_for_the_engine_to_follow() {
        let (leases, id) = owned();
        leases.moved(id, EPOCH, Position(2), true);
        let moved = Err(Refusal::Moved { to: Position(2), reset: true });
        assert_eq!(leases.may_commit(id, EPOCH, Position(6), at(1)), moved);
        assert!(leases.may_commit(id, EPOCH, Position(2), at(1)).is_ok());
        // A fetch from the old place is told again: the first telling may have been dropped.
        assert_eq!(leases.may_fetch(id, EPOCH, Position(6), at(1)), moved);
        assert!(leases.may_fetch(id, EPOCH, Position(2), at(1)).is_ok());
        assert!(leases.may_commit(id, EPOCH, Position(3), at(1)).is_ok());
    }

    #[test]
    fn a_move_is_not_taken_back_by_a_confirmation_that_was_on_its_way() {
        let (leases, id) = owned();
        leases.may_commit(id, EPOCH, Position(6), at(1)).unwrap();
        leases.moved(id, EPOCH, Position(2), true);
        leases.confirmed(id, EPOCH, Confirmed { position: Position(6), last: Identity::None });
        let moved = Confirmed { position: Position(2), last: Identity::None };
        assert_eq!(leases.progress(id, EPOCH), Some((moved, Position(6))));
    }

    #[test]
    fn a_position_set_further_on_is_no_other_owners() {
        let (leases, id) = owned();
        leases.moved(id, EPOCH, Position(9), true);
        assert_eq!(leases.progress(id, EPOCH).unwrap().1, Position(9));
    }

    #[test]
    fn the_highest_cursor_sent_is_remembered_whether_confirmed_or_not() {
        let (leases, id) = owned();
        let confirmed = Confirmed { position: Position(6), last: Identity::None };
        leases.may_commit(id, EPOCH, Position(6), at(1)).unwrap();
        leases.confirmed(id, EPOCH, confirmed.clone());
        leases.may_commit(id, EPOCH, Position(9), at(1)).unwrap();
        assert_eq!(leases.progress(id, EPOCH), Some((confirmed, Position(9))));
    }
}
