//! Where messages come from.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    defaults,
    units::{rfc3339, seconds},
};

/// Where messages come from. Exactly one of `rocketmq`, `rabbitmq` and `activemq` must be set; which one can't be
/// changed later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// An Apache RocketMQ cluster, reached through its name servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocketmq: Option<RocketMq>,
    /// A RabbitMQ cluster, reached over AMQP 0-9-1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rabbitmq: Option<RabbitMq>,
    /// An Apache ActiveMQ broker, reached over OpenWire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activemq: Option<ActiveMq>,
    /// A Secret in the same namespace with the keys `username` and `password`, or for RocketMQ `accessKey`, `secretKey`
    /// and if needed `securityToken`. Absent = no authentication; RabbitMQ: by `tls.clientCertSecretRef` (EXTERNAL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretRef>,
    /// TLS to the broker. Absent = no TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// The one source that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::enum_variant_names, reason = "the products are called so")]
pub enum SourceKind<'a> {
    /// An Apache RocketMQ cluster.
    RocketMq(&'a RocketMq),
    /// A RabbitMQ cluster.
    RabbitMq(&'a RabbitMq),
    /// An Apache ActiveMQ broker.
    ActiveMq(&'a ActiveMq),
}

impl Source {
    /// The source that is set; the first one when several are, which [`crate::parse`] refuses.
    pub fn kind(&self) -> Option<SourceKind<'_>> {
        let rocketmq = self.rocketmq.as_ref().map(SourceKind::RocketMq);
        let rabbitmq = || self.rabbitmq.as_ref().map(SourceKind::RabbitMq);
        let activemq = || self.activemq.as_ref().map(SourceKind::ActiveMq);
        rocketmq.or_else(rabbitmq).or_else(activemq)
    }
}

/// An Apache RocketMQ cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RocketMq {
    /// The name servers as `host:port`. All of them: when one fails the next is asked.
    #[schemars(length(min = 1, max = 16))]
    pub name_servers: Vec<String>,
    /// The consumer group in RocketMQ. It can't be changed later: positions belong to it.
    pub consumer_group: String,
    /// The topics to consume, each at most once.
    #[schemars(length(min = 1, max = 64))]
    pub subscriptions: Vec<Subscription>,
    /// Where to start in a queue for which the group has no committed position.
    #[serde(default)]
    pub start_position: StartPosition,
    /// The broker's lock lifetime (`rocketmq.broker.rebalance.lockMaxLiveTime`) in seconds. A lease lasts half of it.
    #[serde(rename = "lockLifetimeSeconds", with = "seconds", default = "lock_lifetime")]
    #[schemars(with = "u32", range(min = 6, max = 3600))]
    pub lock_lifetime: Duration,
    /// Addresses to use in place of those that the name servers tell, for brokers behind a proxy or a NAT:
    /// `advertised host:port` to `reachable host:port`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub address_overrides: BTreeMap<String, String>,
}

/// One topic. At most one of `tags` and `sql`; with neither, every message is consumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// The topic.
    pub topic: String,
    /// The tags to consume, parted by `||`, for example `created || paid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<String>,
    /// An SQL92 filter over message properties, for example `amount > 100`. The broker must allow it
    /// (`enablePropertyFilter=true`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
}

/// Where to start in a queue for which the group has no committed position.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartPosition {
    /// `Latest`: what is published after this resource was created. `Earliest`: everything the broker still has.
    /// `Timestamp`: what was stored from `time` on.
    #[serde(rename = "type", default)]
    pub kind: StartPositionType,
    /// The moment for `Timestamp`, in RFC 3339, for example `2026-11-30T08:00:00Z`.
    #[serde(default, with = "rfc3339", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub time: Option<Timestamp>,
}

/// Kinds of start position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StartPositionType {
    /// What is published after this resource was created (outside a cluster: after the first start).
    #[default]
    Latest,
    /// Everything that the broker still has.
    Earliest,
    /// What was stored from a moment on.
    Timestamp,
}

/// A RabbitMQ cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RabbitMq {
    /// The nodes as `amqp://host:port`, or `amqps://host:port` with TLS, without user and password.
    #[schemars(length(min = 1, max = 16))]
    pub urls: Vec<String>,
    /// The virtual host.
    #[serde(default = "vhost")]
    #[schemars(length(min = 1, max = 255))]
    pub vhost: String,
    /// The queues to consume, each at most once.
    #[schemars(length(min = 1, max = 256))]
    pub queues: Vec<String>,
    /// The management API, to verify how the queues were declared. Absent = verified as far as AMQP allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management: Option<Management>,
    /// Seconds between heartbeats; the broker may ask for fewer. A lease lasts twice as long, less one second, and a
    /// broker takes two to three times as long to notice that an owner has vanished.
    #[serde(rename = "heartbeatSeconds", with = "seconds", default = "heartbeat")]
    #[schemars(with = "u32", range(min = 10, max = 20))]
    pub heartbeat: Duration,
    /// The broker's acknowledgement timeout (`consumer_timeout`) in seconds: a message that is not acknowledged within it
    /// costs the channel. It can't be asked for. At least twice `delivery.timeoutSeconds`; a message that takes longer is
    /// given back and taken again well before it.
    #[serde(rename = "acknowledgementTimeoutSeconds", with = "seconds", default = "acknowledgement_timeout")]
    #[schemars(with = "u32", range(min = 60, max = 86_400))]
    pub acknowledgement_timeout: Duration,
    /// What to do where it can't be verified that a queue hands its messages to one consumer at a time.
    #[serde(default)]
    pub ownership: QueueOwnership,
}

/// Whether queues must be seen to have one active consumer at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QueueOwnership {
    /// What can't be verified is told as `OwnershipUnverified`.
    #[default]
    Verified,
    /// It is taken for granted and not told. What is seen to be wrong is refused all the same.
    Assumed,
}

/// RabbitMQ's management API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Management {
    /// Its address, for example `http://rabbit.mq:15672`, without user and password.
    pub url: String,
}

/// An Apache ActiveMQ broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveMq {
    /// The brokers as `tcp://host:port`, or `ssl://host:port` with TLS, without user and password.
    #[schemars(length(min = 1, max = 16))]
    pub urls: Vec<String>,
    /// The queues to consume, each at most once; no wildcards. Behind a name may stand a selector of its own:
    /// `orders?consumer.selector=amount > 100`, percent-encoded where it holds `%`, `&` or `+`.
    #[schemars(length(min = 1, max = 256))]
    pub queues: Vec<String>,
    /// How deliveries come.
    #[serde(default)]
    pub mode: ActiveMqMode,
    /// A JMS selector for all queues, for example `amount > 100`. Absent = every message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub selector: Option<String>,
}

/// How ActiveMQ hands messages over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ActiveMqMode {
    /// Each is asked for. With `PerQueue` one at a time, which keeps order with every broker setting.
    #[default]
    Pull,
    /// Ahead of need: faster. `PerQueue` then needs a broker that dispatches in strict order (`strictOrderDispatch`).
    Push,
}

/// One queue of ActiveMQ, as it is consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveMqQueue {
    /// Its name, without options.
    pub name: String,
    /// The JMS selector that holds for it. `None` = every message.
    pub selector: Option<String>,
}

/// A Secret in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// The Secret's name.
    pub name: String,
}

/// One key of a Secret in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// The Secret's name.
    pub name: String,
    /// The key in the Secret.
    pub key: String,
}

/// TLS to the broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// How the broker's certificate is judged.
    #[serde(default)]
    pub mode: TlsMode,
    /// The certificates of the authorities to trust, as PEM. Absent = the operating system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretKeyRef>,
    /// A Secret of type `kubernetes.io/tls` (keys `tls.crt` and `tls.key`) with the certificate to show to the
    /// broker. Absent = none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert_secret_ref: Option<SecretRef>,
}

/// How the broker's certificate is judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TlsMode {
    /// It must be signed by a trusted authority and name the host.
    #[default]
    Verify,
}

fn lock_lifetime() -> Duration {
    defaults::LOCK_LIFETIME
}

fn heartbeat() -> Duration {
    defaults::HEARTBEAT
}

fn acknowledgement_timeout() -> Duration {
    defaults::ACKNOWLEDGEMENT_TIMEOUT
}

fn vhost() -> String {
    defaults::VHOST.to_owned()
}
