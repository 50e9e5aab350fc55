use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use lockstep_model::{Epoch, Moment, Position, QueueId};

use super::{
    Happening,
    state::{Held, Member, Owner, State},
};
use crate::{LeaseEvent, Problem, SourceState, reason};

/// What the broker says to a request for a lock.
enum Lock {
    Granted,
    Refused,
}

impl State {
    /// One turn of a member's lease keeping: appends what happened and answers when to look again.
    pub(super) fn turn(&mut self, instance: u64, events: &mut VecDeque<LeaseEvent>) -> Option<Moment> {
        let now = self.clock.now();
        let member = self.members.get_mut(&instance)?;
        member.last_seen = now;
        let cut = member.cut;
        for (queue, epoch) in std::mem::take(&mut member.released) {
            events.push_back(LeaseEvent::Released { queue, epoch });
        }
        let held: Vec<QueueId> = member.held.keys().copied().collect();
        let allocated = self.allocation(instance);
        for queue in held {
            self.keep(instance, queue, &allocated, now, events);
        }
        if !cut {
            self.acquire(instance, &allocated, now, events);
        }
        self.tell_source(instance, events);
        self.members.get_mut(&instance)?.finish_leaving(events);
        self.next_look(instance, now)
    }

    /// The queues that this member should own: equal consecutive shares in the order of client ids.
    fn allocation(&self, instance: u64) -> BTreeSet<QueueId> {
        let now = self.clock.now();
        let present = |member: &&Member| {
            member.joined
                && !member.leaving
                && !member.cut
                && now.since(member.last_seen) < self.options.lock_lifetime
        };
        let names: BTreeSet<&str> =
            self.members.values().filter(present).map(|member| member.name.as_str()).collect();
        let Some(me) = self.members.get(&instance).filter(present) else { return BTreeSet::new() };
        let Some(index) = names.iter().position(|name| *name == me.name) else { return BTreeSet::new() };
        let (queues, members) = (self.queues.len(), names.len());
        let (share, rest) = (queues / members, queues % members);
        let first = index * share + index.min(rest);
        let count = share + usize::from(index < rest);
        (first..first + count).filter_map(|number| u32::try_from(number).ok().map(QueueId)).collect()
    }

    fn keep(
        &mut self,
        instance: u64,
        queue: QueueId,
        allocated: &BTreeSet<QueueId>,
        now: Moment,
        events: &mut VecDeque<LeaseEvent>,
    ) {
        let locks = self.locks();
        let Some(member) = self.members.get_mut(&instance) else { return };
        let (cut, leaving) = (member.cut, member.leaving);
        let Some(held) = member.held.get_mut(&queue) else { return };
        let epoch = held.epoch;
        if held.lost || held.deadline.is_some_and(|deadline| deadline <= now) {
            return self.lose(instance, queue, epoch, events);
        }
        if cut {
            if !held.doubtful {
                held.doubtful = true;
                events.push_back(LeaseEvent::Doubtful { queue, epoch });
            }
            return;
        }
        let (doubtful, known) = (held.doubtful, held.committed);
        let due = doubtful || held.renew_at.is_some_and(|at| at <= now);
        let mine = self.owns(queue, instance);
        if !mine || due {
            let foreign = self.queue(queue).and_then(|queue| queue.committed).is_some_and(|at| at > known);
            let kept =
                if locks { !(doubtful && foreign) && self.relock(instance, queue, epoch) } else { mine };
            if !kept {
                return self.lose(instance, queue, epoch, events);
            }
        }
        let half = self.options.lock_lifetime / 2;
        let renewals = self.options.lock_lifetime / 6;
        let Some(held) = self.members.get_mut(&instance).and_then(|member| member.held.get_mut(&queue))
        else {
            return;
        };
        if due || !mine {
            held.doubtful = false;
            held.deadline = locks.then(|| now + half);
            held.renew_at = locks.then(|| now + renewals);
            events.push_back(LeaseEvent::Renewed { queue, epoch, deadline: held.deadline });
        }
        if let Some(to) = held.moved.take() {
            held.committed = to.0;
            events.push_back(LeaseEvent::Moved { queue, epoch, to });
        }
        let wanted = allocated.contains(&queue);
        if !wanted && !held.revoking && !leaving {
            held.revoking = true;
            events.push_back(LeaseEvent::Revoking { queue, epoch, deadline: None });
        } else if wanted && held.revoking {
            held.revoking = false;
            events.push_back(LeaseEvent::RevocationCancelled { queue, epoch });
        }
    }

    fn lose(&mut self, instance: u64, queue: QueueId, epoch: Epoch, events: &mut VecDeque<LeaseEvent>) {
        if self.owns(queue, instance)
            && self
                .queue(queue)
                .and_then(|queue| queue.owner.as_ref())
                .is_some_and(|owner| owner.epoch == epoch)
        {
            self.free(queue);
        }
        let Some(member) = self.members.get_mut(&instance) else { return };
        member.held.remove(&queue);
        let name = member.name.clone();
        self.record(queue, Happening::Lost { member: name, epoch });
        events.push_back(LeaseEvent::Lost { queue, epoch });
    }

    fn relock(&mut self, instance: u64, queue: QueueId, epoch: Epoch) -> bool {
        matches!(self.lock(instance, queue, epoch), Lock::Granted)
    }

    fn lock(&mut self, instance: u64, id: QueueId, epoch: Epoch) -> Lock {
        let now = self.clock.now();
        let expires = self.locks().then(|| now + self.options.lock_lifetime);
        let mine = self.owns(id, instance);
        let Some(name) = self.members.get(&instance).map(|member| member.name.clone()) else {
            return Lock::Refused;
        };
        let Some(queue) = self.queue_mut(id) else { return Lock::Refused };
        let free = queue.owner.as_ref().is_none_or(|owner| owner.expires.is_some_and(|at| at <= now));
        if !free && !mine {
            return Lock::Refused;
        }
        queue.owner = Some(Owner { name, instance, epoch, expires });
        Lock::Granted
    }

    fn acquire(
        &mut self,
        instance: u64,
        allocated: &BTreeSet<QueueId>,
        now: Moment,
        events: &mut VecDeque<LeaseEvent>,
    ) {
        if self.quiet_until.is_some_and(|until| now < until) {
            return;
        }
        for id in allocated {
            let held = self.members.get(&instance).is_some_and(|member| member.held.contains_key(id));
            let epoch = Epoch(self.last_epoch + 1);
            if held || !matches!(self.lock(instance, *id, epoch), Lock::Granted) {
                continue;
            }
            self.last_epoch = epoch.0;
            self.acquired(instance, *id, epoch, now, events);
        }
    }

    fn acquired(
        &mut self,
        instance: u64,
        id: QueueId,
        epoch: Epoch,
        now: Moment,
        events: &mut VecDeque<LeaseEvent>,
    ) {
        let options = self.options;
        let locks = self.locks();
        let Some(queue) = self.queue_mut(id) else { return };
        // A channel counts its deliveries from 1; a log starts at the committed position, or the oldest message.
        let cursor = if locks { *queue.committed.get_or_insert(queue.base) } else { 1 };
        let name = Arc::clone(&queue.name);
        let Some(member) = self.members.get_mut(&instance) else { return };
        let deadline = locks.then(|| now + options.lock_lifetime / 2);
        member.held.insert(
            id,
            Held {
                epoch,
                deadline,
                renew_at: locks.then(|| now + options.lock_lifetime / 6),
                doubtful: false,
                revoking: false,
                lost: false,
                moved: None,
                committed: cursor,
                next_tag: 1,
            },
        );
        events.push_back(LeaseEvent::Acquired {
            queue: id,
            name,
            epoch,
            deadline,
            cursor: Position(cursor),
            settle_within: options.settle_within,
            extra: false,
        });
        let member = member.name.clone();
        self.record(id, Happening::Acquired { member, epoch });
    }

    fn tell_source(&mut self, instance: u64, events: &mut VecDeque<LeaseEvent>) {
        let queues = self.queues.len();
        let idle = self.allocation(instance).is_empty();
        let Some(member) = self.members.get_mut(&instance) else { return };
        if !member.joined {
            return;
        }
        let problem = if member.cut {
            Some(Problem {
                reason: reason::CONNECTION_LOST,
                message: "the connection to the broker in memory is cut".into(),
                remedy: String::new(),
            })
        } else if queues == 0 {
            Some(Problem {
                reason: "QueueNotFound",
                message: "the source has no queue".into(),
                remedy: "create a queue".into(),
            })
        } else if idle && !member.leaving {
            Some(Problem {
                reason: Problem::MORE_REPLICAS_THAN_QUEUES,
                message: format!("the group has more members than the {queues} queues"),
                remedy: "lower the replicas or add queues".into(),
            })
        } else {
            None
        };
        let state = SourceState {
            connected: !member.cut,
            problem,
            queues_total: u32::try_from(queues).unwrap_or(u32::MAX),
            reconnects: member.reconnects,
        };
        if member.told.as_ref() != Some(&state) {
            member.told = Some(state.clone());
            events.push_back(LeaseEvent::Source(state));
        }
    }

    /// When something can change without a notice from elsewhere.
    fn next_look(&self, instance: u64, now: Moment) -> Option<Moment> {
        let member = self.members.get(&instance).filter(|member| member.joined)?;
        let deadlines = member.held.values().filter_map(|held| held.deadline);
        let renewals = member.held.values().filter(|_| !member.cut).filter_map(|held| held.renew_at);
        let missing = self.allocation(instance).iter().any(|queue| !member.held.contains_key(queue));
        let retry = missing.then(|| now + self.options.lock_retry);
        let heartbeat = now + self.options.lock_lifetime / 6;
        deadlines.chain(renewals).chain(retry).chain([heartbeat]).min()
    }
}

impl Member {
    fn finish_leaving(&mut self, events: &mut VecDeque<LeaseEvent>) {
        if self.leaving && self.held.is_empty() {
            self.leaving = false;
            self.joined = false;
            self.told = None;
            events.push_back(LeaseEvent::Left);
        }
    }
}
