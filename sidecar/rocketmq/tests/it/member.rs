//! One member of the group, as the runtime would hold it.

use std::{collections::BTreeMap, time::Duration};

use lockstep_broker::{
    Broker, BrokerError, Clock, Commit, FetchRequest, Fetched, LeaseEvent, LeaseKeeper, Reader, Settler,
    SourceState,
};
use lockstep_model::{Delivery, Epoch, Identity, Moment, Position, QueueId};
use lockstep_rocketmq::{
    Config, Filter, KeySource, RocketKeeper, RocketMq, RocketReader, RocketSettler, StartPosition,
    Subscription,
};

use crate::fake::Fake;

/// Leases of 1.5 s, renewed each half second.
pub(crate) const LOCK_LIFE: Duration = Duration::from_secs(3);

pub(crate) struct Member {
    pub(crate) reader: RocketReader,
    pub(crate) settler: RocketSettler,
    pub(crate) keeper: RocketKeeper,
    pub(crate) clock: Clock,
}

/// An acquired queue.
#[derive(Debug, Clone)]
pub(crate) struct Owned {
    pub(crate) queue: QueueId,
    pub(crate) name: String,
    pub(crate) epoch: Epoch,
    pub(crate) cursor: Position,
}

pub(crate) fn config(fake: &Fake, client_id: &str) -> Config {
    Config {
        name_servers: vec![fake.address.to_string()],
        group: "g".to_owned(),
        client_id: client_id.to_owned(),
        subscriptions: vec![Subscription { topic: "t".to_owned(), filter: Filter::All }],
        start: StartPosition::Earliest,
        lock_lifetime: LOCK_LIFE,
        address_overrides: BTreeMap::new(),
        credentials: lockstep_rocketmq::remoting::CredentialsSource::None,
        tls: None,
        key: KeySource::Native,
        epoch_floor: Epoch(0),
        clock: Clock::new(),
        limits: lockstep_rocketmq::codec::BodyLimits::default(),
    }
}

impl Member {
    pub(crate) fn join(config: Config) -> Self {
        let mut member = Self::apart(config);
        member.keeper.join();
        member
    }

    /// One that has not joined.
    pub(crate) fn apart(config: Config) -> Self {
        let clock = config.clock;
        let (reader, settler, keeper) = RocketMq::new(config).split();
        Self { reader, settler, keeper, clock }
    }

    /// A member that owns the only queue of a topic.
    pub(crate) async fn owner(fake: &Fake) -> (Self, Owned) {
        let mut member = Self::join(config(fake, "me"));
        let owned = member.acquired().await;
        (member, owned)
    }

    /// The next event but session states and renewals.
    pub(crate) async fn event(&mut self) -> LeaseEvent {
        self.find("an event", |event| match event {
            LeaseEvent::Source(_) | LeaseEvent::Renewed { .. } => None,
            event => Some(event),
        })
        .await
    }

    /// The first event that is as wanted; what comes before is dropped.
    pub(crate) async fn find<T>(&mut self, what: &str, mut wanted: impl FnMut(LeaseEvent) -> Option<T>) -> T {
        let mut dropped = Vec::new();
        let found = tokio::time::timeout(Duration::from_secs(20), async {
            loop {
                let event = self.keeper.next().await;
                dropped.push(event.clone());
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
        });
        found.await.unwrap_or_else(|_| panic!("waited for {what}, and only {dropped:?} came"))
    }

    pub(crate) async fn acquired(&mut self) -> Owned {
        match self.event().await {
            LeaseEvent::Acquired { queue, name, epoch, cursor, .. } => {
                Owned { queue, name: name.to_string(), epoch, cursor }
            }
            other => panic!("expected an acquisition, got {other:?}"),
        }
    }

    pub(crate) async fn lost(&mut self) -> Epoch {
        match self.event().await {
            LeaseEvent::Lost { epoch, .. } => epoch,
            other => panic!("expected a loss, got {other:?}"),
        }
    }

    pub(crate) async fn source(&mut self, what: &str, wanted: impl Fn(&SourceState) -> bool) -> SourceState {
        self.find(what, |event| match event {
            LeaseEvent::Source(state) if wanted(&state) => Some(state),
            _ => None,
        })
        .await
    }

    pub(crate) async fn problem(&mut self, reason: &str) -> SourceState {
        self.source(reason, |state| state.problem.as_ref().is_some_and(|problem| problem.reason == reason))
            .await
    }

    pub(crate) async fn fetch(&self, owned: &Owned, from: u64) -> Result<Fetched, BrokerError> {
        let request = FetchRequest {
            queue: owned.queue,
            epoch: owned.epoch,
            from: Position(from),
            count: 32,
            bytes: 1 << 20,
        };
        self.reader.fetch(request).await
    }

    pub(crate) async fn read(&self, owned: &Owned, from: u64) -> (Vec<Delivery>, Position) {
        match self.fetch(owned, from).await {
            Ok(Fetched::Deliveries { deliveries, next, .. }) => (deliveries, next),
            other => panic!("expected deliveries, got {other:?}"),
        }
    }

    pub(crate) async fn commit(
        &self,
        owned: &Owned,
        position: u64,
        last: Identity,
        not_after: Option<Moment>,
    ) -> Result<(), BrokerError> {
        let commit =
            Commit { queue: owned.queue, epoch: owned.epoch, position: Position(position), last, not_after };
        self.settler.commit(commit).await
    }
}
