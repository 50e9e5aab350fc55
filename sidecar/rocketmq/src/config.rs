use std::{collections::BTreeMap, time::Duration};

use lockstep_broker::Clock;
use lockstep_model::{Epoch, Text};

use crate::{
    codec::BodyLimits,
    protocol::SubscriptionData,
    remoting::{CredentialsSource, TlsFiles},
};

/// All settings of the source. Nothing changes after the start; secrets are read again at each connect.
#[derive(Debug, Clone)]
pub struct Config {
    /// `host:port` of each name server; any of them knows every route.
    pub name_servers: Vec<String>,
    /// The consumer group.
    pub group: String,
    /// Unique among the group's live processes and the same after a restart of this one, so that it regains its locks.
    pub client_id: String,
    /// The topics and their filters; the same for every member of the group.
    pub subscriptions: Vec<Subscription>,
    /// Where a queue starts that has no committed position.
    pub start: StartPosition,
    /// How long the broker keeps a lock that nobody renews (`rocketmq.broker.rebalance.lockMaxLiveTime`, 60 s by
    /// default). The lease is half of it.
    pub lock_lifetime: Duration,
    /// Addresses to use in place of those that brokers advertise.
    pub address_overrides: BTreeMap<String, String>,
    /// What requests are signed with.
    pub credentials: CredentialsSource,
    /// TLS with verification; absent = none.
    pub tls: Option<TlsFiles>,
    /// What the ordering key is.
    pub key: KeySource,
    /// Epochs rise above this one, kept from an earlier life of the process.
    pub epoch_floor: Epoch,
    /// The process's clock.
    pub clock: Clock,
    /// How much a compressed body may grow.
    pub limits: BodyLimits,
}

/// One subscribed topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The topic.
    pub topic: String,
    /// Which of its messages.
    pub filter: Filter,
}

/// Which messages of a topic are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// All.
    All,
    /// Those with one of these tags, `a || b`.
    Tags(String),
    /// Those that an SQL92 expression over their properties picks; the broker needs `enablePropertyFilter=true`.
    Sql(String),
}

/// Where a queue starts that has no committed position. Queues that appear later in a known topic start at their
/// beginning, whatever is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartPosition {
    /// The first message that the broker still has.
    Earliest,
    /// The first message stored at or after this moment, in Unix milliseconds. For `Latest` it is the group's creation,
    /// so that all members agree and nothing published since is skipped.
    At(i64),
}

/// What the ordering key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The message group of 5.x, which is the sharding key of older clients (`__SHARDINGKEY`).
    Native,
    /// A property.
    Property(Text),
}

impl Config {
    /// How long a lock counts as ours after it was asked for: half its life, which leaves the other half for clocks,
    /// pauses and an application that is slow to notice a cancelled request.
    pub(crate) fn lease(&self) -> Duration {
        self.lock_lifetime / 2
    }

    /// How often held locks are renewed: three tries fit into a lease.
    pub(crate) fn renew_every(&self) -> Duration {
        self.lock_lifetime / 6
    }

    /// The topic of messages that members of the group sent back.
    pub(crate) fn retry_topic(&self) -> String {
        format!("%RETRY%{}", self.group)
    }

    /// What is told to brokers: the subscriptions, and the group's retry topic, since brokers keep one set of topics a
    /// group and Java members always have it.
    pub(crate) fn subscription_data(&self, version: i64) -> Vec<SubscriptionData> {
        let data = |subscription: &Subscription| match &subscription.filter {
            Filter::All => SubscriptionData::tags(&subscription.topic, "*", version),
            Filter::Tags(tags) => SubscriptionData::tags(&subscription.topic, tags, version),
            Filter::Sql(expression) => SubscriptionData::sql(&subscription.topic, expression, version),
        };
        let retry = SubscriptionData::tags(self.retry_topic(), "*", version);
        self.subscriptions.iter().map(data).chain([retry]).collect()
    }
}
