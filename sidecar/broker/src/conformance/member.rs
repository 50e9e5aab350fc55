use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use lockstep_model::{
    Capabilities, Delivery, Epoch, Identity, Moment, Position, QueueId, Settlement as Kind,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{Failure, Source};
use crate::{
    Broker, BrokerError, Certainty, Class, Clock, Commit, FetchRequest, Fetched, LeaseEvent, LeaseKeeper,
    Reader, Settle, Settlement, Settler, SourceState,
};

/// The wait between two tries of an operation that failed for now.
const PAUSE: Duration = Duration::from_millis(20);
/// Room for bodies in a fetch that is not about it.
const PLENTY: usize = 64 << 20;

/// A member of the group whose leases are kept by a task of their own, as in the runtime.
pub(super) struct Member<B: Broker> {
    pub(super) reader: B::Reader,
    pub(super) settler: B::Settler,
    pub(super) capabilities: Capabilities,
    pub(super) patience: Duration,
    orders: mpsc::UnboundedSender<Order>,
    view: watch::Receiver<View>,
    task: JoinHandle<()>,
}

/// What the keeper is told to do.
enum Order {
    Join,
    Leave,
    Release(QueueId, Epoch),
}

/// What the keeper's events add up to.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) owned: BTreeMap<String, Owned>,
    /// Every ownership that there was: name, number, epoch, begin, end.
    pub(super) spans: Vec<Span>,
    pub(super) renewals: u64,
    /// Ownerships that may have ended.
    pub(super) doubtful: BTreeSet<(QueueId, Epoch)>,
    pub(super) left: bool,
    pub(super) source: Option<SourceState>,
    /// Broken promises about the order of events.
    pub(super) faults: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Owned {
    pub(super) queue: QueueId,
    pub(super) epoch: Epoch,
    pub(super) cursor: Position,
    pub(super) deadline: Option<Moment>,
}

#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) name: String,
    pub(super) queue: QueueId,
    pub(super) epoch: Epoch,
    pub(super) begin: Moment,
    pub(super) end: Option<Moment>,
    /// Whether it ended by `Released`.
    pub(super) released: bool,
}

impl<B: Broker> Member<B> {
    /// A member that joined.
    pub(super) async fn joined<S: Source<Broker = B>>(source: &S, client_id: &str) -> Self {
        let member = Self::new(source, client_id).await;
        member.order(Order::Join);
        member
    }

    pub(super) async fn new<S: Source<Broker = B>>(source: &S, client_id: &str) -> Self {
        let broker = source.member(client_id).await;
        let capabilities = broker.capabilities();
        let (reader, settler, keeper) = broker.split();
        let (orders, commands) = mpsc::unbounded_channel();
        let (events, view) = watch::channel(View::default());
        let task = tokio::spawn(keep(keeper, source.clock(), commands, events));
        // A dead member before it may keep its leases for their whole life.
        let patience = source.patience() + source.lease_life().unwrap_or_default();
        Self { reader, settler, capabilities, patience, orders, view, task }
    }

    pub(super) fn leave(&self) {
        self.order(Order::Leave);
    }

    pub(super) fn release(&self, owned: &Owned) {
        self.order(Order::Release(owned.queue, owned.epoch));
    }

    /// The keeper's task ended only when the test ends it, so nobody can be missing.
    fn order(&self, order: Order) {
        let _: Result<(), _> = self.orders.send(order);
    }

    pub(super) fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// Waits until the events add up to what is wanted.
    pub(super) async fn wait(
        &self,
        what: &str,
        time: Duration,
        mut wanted: impl FnMut(&View) -> bool,
    ) -> Result<View, Failure> {
        let mut view = self.view.clone();
        let found = timeout(time, view.wait_for(|view| wanted(view))).await;
        match found {
            Ok(Ok(view)) => Ok(view.clone()),
            Ok(Err(_)) => Err("the lease keeper's task ended".into()),
            Err(_) => {
                let view = self.view();
                Err(Failure(format!("waited {time:?} for {what}; saw {view:?}")))
            }
        }
    }

    /// Waits until the queue is owned.
    pub(super) async fn own(&self, queue: &str) -> Result<Owned, Failure> {
        let what = format!("{queue} to be owned");
        let view = self.wait(&what, self.patience, |view| view.owned.contains_key(queue)).await?;
        view.owned.get(queue).cloned().ok_or_else(|| what.into())
    }

    /// One fetch, tried again while it fails for now.
    pub(super) async fn fetch(
        &self,
        owned: &Owned,
        from: Position,
        count: u32,
        bytes: usize,
    ) -> Result<(Vec<Delivery>, Position, Option<Position>), Failure> {
        let request = FetchRequest { queue: owned.queue, epoch: owned.epoch, from, count, bytes };
        let end = Instant::now() + self.patience;
        loop {
            match self.reader.fetch(request).await {
                Ok(Fetched::Deliveries { deliveries, next, end }) => return Ok((deliveries, next, end)),
                Ok(Fetched::Moved { to, .. }) => {
                    return Err(Failure(format!("a fetch from {from} was moved to {to}")));
                }
                Err(error) => again("fetch", &error, end)?,
            }
            sleep(PAUSE).await;
        }
    }

    /// So many deliveries from a position on, by as many fetches as it takes.
    pub(super) async fn read(
        &self,
        owned: &Owned,
        from: Position,
        wanted: usize,
    ) -> Result<Vec<Delivery>, Failure> {
        let end = Instant::now() + self.patience;
        let (mut from, mut read) = (from, Vec::new());
        while read.len() < wanted {
            if Instant::now() > end {
                return Err(Failure(format!("read only {} of {wanted} messages: {read:?}", read.len())));
            }
            let missing = u32::try_from(wanted - read.len()).unwrap_or(u32::MAX);
            let (deliveries, next, _) = self.fetch(owned, from, missing, PLENTY).await?;
            read.extend(deliveries);
            from = next;
        }
        Ok(read)
    }

    /// How many of so many deliveries may be held unsettled.
    pub(super) fn holdable(&self, wanted: usize) -> usize {
        self.capabilities.lookahead.map_or(wanted, |most| wanted.min(most as usize))
    }

    /// Reads and finishes so many deliveries, as many at a time as may be held.
    pub(super) async fn consume(&self, owned: &Owned, wanted: usize) -> Result<Vec<Delivery>, Failure> {
        let (mut from, mut read) = (owned.cursor, Vec::new());
        while read.len() < wanted {
            let part = self.read(owned, from, self.holdable(wanted - read.len())).await?;
            self.finish(owned.epoch, &part).await?;
            from = part.last().map_or(from, |last| last.position.next());
            read.extend(part);
        }
        Ok(read)
    }

    /// Tells the broker that these deliveries, the next of their queue, are done.
    pub(super) async fn finish(&self, epoch: Epoch, deliveries: &[Delivery]) -> Result<(), Failure> {
        if self.capabilities.settlement == Kind::PerDelivery {
            for delivery in deliveries {
                self.settle(epoch, delivery, Settlement::Accept).await?;
            }
            return Ok(());
        }
        let Some(last) = deliveries.last() else { return Ok(()) };
        let end = Instant::now() + self.patience;
        while let Err(error) = self.settler.commit(commit(epoch, last, None)).await {
            again("commit", &error, end)?;
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Settles one delivery, tried again while it fails for now.
    pub(super) async fn settle(
        &self,
        epoch: Epoch,
        delivery: &Delivery,
        settlement: Settlement,
    ) -> Result<(), Failure> {
        let end = Instant::now() + self.patience;
        loop {
            let results = self.settler.settle(vec![settle(epoch, delivery, settlement, None)]).await;
            match results.as_slice() {
                [Ok(())] => return Ok(()),
                [Err(error)] => again("settle", error, end)?,
                other => return Err(Failure(format!("one settlement has {} results", other.len()))),
            }
            sleep(PAUSE).await;
        }
    }

    /// The dead letters once there are some, as the broker shows them.
    pub(super) async fn dead_letters<S: Source<Broker = B>>(
        &self,
        source: &S,
    ) -> Result<Vec<Bytes>, Failure> {
        let end = Instant::now() + self.patience;
        loop {
            let dead = source.dead_letters().await;
            if !dead.is_empty() {
                return Ok(dead);
            }
            if Instant::now() > end {
                return Err(Failure(format!("no dead letter is to be seen within {:?}", self.patience)));
            }
            sleep(PAUSE).await;
        }
    }

    /// Whether a broken promise about events was seen.
    pub(super) fn sound(&self) -> Result<(), Failure> {
        let faults = self.view().faults;
        if faults.is_empty() { Ok(()) } else { Err(Failure(faults.join("; "))) }
    }
}

impl<B: Broker> Drop for Member<B> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A cursor behind a delivery.
pub(super) fn commit(epoch: Epoch, last: &Delivery, not_after: Option<Moment>) -> Commit {
    Commit {
        queue: last.queue,
        epoch,
        position: last.position.next(),
        last: last.identity.clone(),
        not_after,
    }
}

pub(super) fn settle(
    epoch: Epoch,
    delivery: &Delivery,
    settlement: Settlement,
    not_after: Option<Moment>,
) -> Settle {
    Settle { epoch, delivery: Arc::new(delivery.clone()), settlement, attempts: 1, not_after }
}

/// Whether to try again what failed.
fn again(what: &str, error: &BrokerError, end: Instant) -> Result<(), Failure> {
    if error.class == Class::Permanent {
        return Err(Failure(format!("{what} failed for good: {error}")));
    }
    if Instant::now() > end {
        return Err(Failure(format!("{what} still fails: {error}")));
    }
    Ok(())
}

/// The refusal that a call has to end with: it surely did not happen. Lost answers are asked for again.
pub(super) async fn refusal<T, F>(
    what: &str,
    patience: Duration,
    mut call: impl FnMut() -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<T, BrokerError>>,
{
    let end = Instant::now() + patience;
    loop {
        match call().await {
            Ok(_) => return Err(Failure(format!("{what} was done, and should have been refused"))),
            Err(error) if error.certainty == Certainty::NotDone => return Ok(()),
            Err(error) => again(what, &error, end)?,
        }
        sleep(PAUSE).await;
    }
}

async fn keep<K: LeaseKeeper>(
    mut keeper: K,
    clock: Clock,
    mut orders: mpsc::UnboundedReceiver<Order>,
    view: watch::Sender<View>,
) {
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Join) => keeper.join(),
                Some(Order::Leave) => {
                    keeper.leave();
                    // What is idle is given back at once, as the core does it.
                    for owned in view.borrow().owned.values() {
                        keeper.release(owned.queue, owned.epoch);
                    }
                }
                Some(Order::Release(queue, epoch)) => keeper.release(queue, epoch),
                None => return,
            },
            event = keeper.next() => {
                if let LeaseEvent::Revoking { queue, epoch, .. } = &event {
                    keeper.release(*queue, *epoch);
                }
                view.send_modify(|view| view.add(clock.now(), event));
            }
        }
    }
}

impl View {
    fn add(&mut self, now: Moment, event: LeaseEvent) {
        match event {
            LeaseEvent::Acquired { queue, name, epoch, deadline, cursor, settle_within: _, extra: _ } => {
                self.acquired(now, &name, Owned { queue, epoch, cursor, deadline });
            }
            LeaseEvent::Renewed { queue, epoch, deadline } => {
                self.renewals += 1;
                self.doubtful.remove(&(queue, epoch));
                match self.owned.values_mut().find(|owned| owned.queue == queue && owned.epoch == epoch) {
                    Some(owned) => owned.deadline = deadline,
                    None => self.faults.push(format!("{queue:?} {epoch:?} was renewed and is not owned")),
                }
            }
            LeaseEvent::Lost { queue, epoch } => self.ended(now, queue, epoch, false),
            LeaseEvent::Released { queue, epoch } => self.ended(now, queue, epoch, true),
            LeaseEvent::Left => {
                if !self.owned.is_empty() {
                    self.faults.push("the group was left with queues still owned".into());
                }
                self.left = true;
            }
            LeaseEvent::Source(state) => self.source = Some(state),
            LeaseEvent::Doubtful { queue, epoch } => {
                self.doubtful.insert((queue, epoch));
            }
            LeaseEvent::Revoking { .. }
            | LeaseEvent::RevocationCancelled { .. }
            | LeaseEvent::Moved { .. } => {}
        }
    }

    fn acquired(&mut self, now: Moment, name: &str, owned: Owned) {
        let earlier = self.spans.iter().rev().find(|span| span.name == name);
        if let Some(earlier) = earlier.filter(|earlier| earlier.epoch >= owned.epoch || earlier.end.is_none())
        {
            self.faults.push(format!("{name} was acquired as {:?} after {earlier:?}", owned.epoch));
        }
        if let Some(other) = self.spans.iter().find(|span| (span.name == name) != (span.queue == owned.queue))
        {
            self.faults.push(format!(
                "{name} has the number {:?}, and {} has {:?}",
                owned.queue, other.name, other.queue
            ));
        }
        self.spans.push(Span {
            name: name.into(),
            queue: owned.queue,
            epoch: owned.epoch,
            begin: now,
            end: None,
            released: false,
        });
        self.owned.insert(name.into(), owned);
    }

    fn ended(&mut self, now: Moment, queue: QueueId, epoch: Epoch, released: bool) {
        self.doubtful.remove(&(queue, epoch));
        self.owned.retain(|_, owned| (owned.queue, owned.epoch) != (queue, epoch));
        match self.spans.iter_mut().find(|span| span.queue == queue && span.epoch == epoch) {
            Some(span) if span.end.is_none() => {
                span.end = Some(now);
                span.released = released;
            }
            Some(_) | None => self.faults.push(format!("{queue:?} {epoch:?} ended and was not owned")),
        }
    }
}

/// Bodies as texts, to compare and to print.
pub(super) fn bodies(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(|delivery| String::from_utf8_lossy(&delivery.message.body).into_owned()).collect()
}

/// The texts of numbers.
pub(super) fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

pub(super) fn identities(deliveries: &[Delivery]) -> Vec<Identity> {
    deliveries.iter().map(|delivery| delivery.identity.clone()).collect()
}
