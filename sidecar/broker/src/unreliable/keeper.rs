use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use lockstep_model::{Epoch, Moment, QueueId};
use tokio::time::sleep_until;

use super::{Faults, random::Random};
use crate::{Clock, LeaseEvent, LeaseKeeper};

/// A doubt ends so long before the lease's deadline, so that a renewal still reaches its reader.
const DOUBT_RESERVE: Duration = Duration::from_millis(500);

/// The lease-keeping half of an unreliable broker.
#[derive(Debug)]
pub struct UnreliableKeeper<K> {
    inner: K,
    faults: Faults,
    clock: Clock,
    random: Random,
    owned: BTreeMap<QueueId, Lease>,
    /// Ownerships given up behind the caller's back: their release is told as a loss.
    losing: BTreeSet<(QueueId, Epoch)>,
    next_doubt: Option<Moment>,
    next_loss: Option<Moment>,
    events: VecDeque<LeaseEvent>,
}

#[derive(Debug)]
struct Lease {
    epoch: Epoch,
    /// As last told to the caller: the doubt has to end before it.
    told: Option<Moment>,
    /// As last told by the inner broker.
    deadline: Option<Moment>,
    /// Set while it is doubted by us: when that ends.
    doubted_until: Option<Moment>,
    /// Whether the inner broker doubts it: then only the inner broker ends it.
    doubted: bool,
}

impl<K: LeaseKeeper> UnreliableKeeper<K> {
    pub(super) fn new(inner: K, faults: Faults, clock: Clock, mut random: Random) -> Self {
        let now = clock.now();
        let mut first = |every: Option<Duration>| every.map(|every| now + random.up_to(every * 2));
        let (next_doubt, next_loss) = (first(faults.doubt_every), first(faults.loss_every));
        Self {
            inner,
            faults,
            clock,
            random,
            owned: BTreeMap::new(),
            losing: BTreeSet::new(),
            next_doubt,
            next_loss,
            events: VecDeque::new(),
        }
    }

    /// Takes an event of the inner broker; `None` when the caller is not to hear of it.
    fn pass(&mut self, event: LeaseEvent) -> Option<LeaseEvent> {
        match event {
            LeaseEvent::Acquired { queue, epoch, deadline, .. } => {
                let lease = Lease { epoch, told: deadline, deadline, doubted_until: None, doubted: false };
                self.owned.insert(queue, lease);
            }
            LeaseEvent::Renewed { queue, epoch, deadline } => {
                if let Some(lease) = self.owned.get_mut(&queue).filter(|lease| lease.epoch == epoch) {
                    lease.deadline = deadline;
                    lease.doubted = false;
                    if lease.doubted_until.is_some() {
                        return None;
                    }
                    lease.told = deadline;
                }
            }
            LeaseEvent::Lost { queue, epoch } => self.ended(queue, epoch),
            LeaseEvent::Released { queue, epoch } => {
                self.ended(queue, epoch);
                if self.losing.remove(&(queue, epoch)) {
                    return Some(LeaseEvent::Lost { queue, epoch });
                }
            }
            LeaseEvent::Doubtful { queue, epoch } => {
                if let Some(lease) = self.owned.get_mut(&queue).filter(|lease| lease.epoch == epoch) {
                    lease.doubted = true;
                    if lease.doubted_until.take().is_some() {
                        return None;
                    }
                }
            }
            LeaseEvent::Revoking { .. }
            | LeaseEvent::RevocationCancelled { .. }
            | LeaseEvent::Moved { .. }
            | LeaseEvent::Source(_)
            | LeaseEvent::Left => {}
        }
        Some(event)
    }

    fn ended(&mut self, queue: QueueId, epoch: Epoch) {
        if self.owned.get(&queue).is_some_and(|lease| lease.epoch == epoch) {
            self.owned.remove(&queue);
        }
    }

    /// When a fault or the end of a doubt is due.
    fn due(&self) -> Option<Moment> {
        let doubts = self.owned.values().filter_map(|lease| lease.doubted_until);
        doubts.chain(self.next_doubt).chain(self.next_loss).min()
    }

    fn misbehave(&mut self) {
        let now = self.clock.now();
        for (queue, lease) in &mut self.owned {
            if lease.doubted_until.is_some_and(|until| until <= now) {
                lease.doubted_until = None;
                lease.told = lease.deadline;
                let (queue, epoch, deadline) = (*queue, lease.epoch, lease.deadline);
                self.events.push_back(LeaseEvent::Renewed { queue, epoch, deadline });
            }
        }
        if self.next_doubt.is_some_and(|at| at <= now) {
            self.next_doubt = self.faults.doubt_every.map(|every| now + self.pause(every));
            self.doubt(now);
        }
        if self.next_loss.is_some_and(|at| at <= now) {
            self.next_loss = self.faults.loss_every.map(|every| now + self.pause(every));
            self.lose();
        }
    }

    /// Never zero, so that one turn has an end.
    fn pause(&mut self, average: Duration) -> Duration {
        self.random.up_to(average * 2).max(Duration::from_millis(1))
    }

    fn doubt(&mut self, now: Moment) {
        let time = self.random.up_to(self.faults.doubt_for);
        let Some((queue, lease)) = self.pick() else { return };
        let bound = lease.told.map(|told| told.before(DOUBT_RESERVE));
        let until = bound.map_or(now + time, |bound| bound.min(now + time));
        if lease.doubted || lease.doubted_until.is_some() || until <= now {
            return;
        }
        lease.doubted_until = Some(until);
        let epoch = lease.epoch;
        self.events.push_back(LeaseEvent::Doubtful { queue, epoch });
    }

    fn lose(&mut self) {
        let Some((queue, lease)) = self.pick() else { return };
        let epoch = lease.epoch;
        if self.losing.insert((queue, epoch)) {
            self.inner.release(queue, epoch);
        }
    }

    fn pick(&mut self) -> Option<(QueueId, &mut Lease)> {
        let at = usize::try_from(self.random.below(self.owned.len() as u64)).unwrap_or(0);
        self.owned.iter_mut().nth(at).map(|(queue, lease)| (*queue, lease))
    }
}

impl<K: LeaseKeeper> LeaseKeeper for UnreliableKeeper<K> {
    fn join(&mut self) {
        self.inner.join();
    }

    fn leave(&mut self) {
        self.inner.leave();
    }

    fn release(&mut self, queue: QueueId, epoch: Epoch) {
        self.inner.release(queue, epoch);
    }

    async fn next(&mut self) -> LeaseEvent {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            let due = self.due().map(|due| self.clock.instant(due));
            let event = tokio::select! {
                biased;
                event = self.inner.next() => Some(event),
                () = async {
                    match due {
                        Some(due) => sleep_until(due).await,
                        None => std::future::pending().await,
                    }
                } => None,
            };
            match event {
                Some(event) => {
                    if let Some(event) = self.pass(event) {
                        return event;
                    }
                }
                None => self.misbehave(),
            }
        }
    }
}
