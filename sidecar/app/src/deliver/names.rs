//! The names of all headers that Lockstep sets, and of the properties it keeps to itself.

use http::HeaderName;

pub(super) const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
pub(super) const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
pub(super) const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

pub(super) const MESSAGE_ID: HeaderName = HeaderName::from_static("lockstep-message-id");
pub(super) const POSITION: HeaderName = HeaderName::from_static("lockstep-position");
pub(super) const ATTEMPT: HeaderName = HeaderName::from_static("lockstep-attempt");
pub(super) const MAX_ATTEMPTS: HeaderName = HeaderName::from_static("lockstep-max-attempts");
pub(super) const DEADLINE: HeaderName = HeaderName::from_static("lockstep-deadline");
pub(super) const LEASE_DEADLINE: HeaderName = HeaderName::from_static("lockstep-lease-deadline");
pub(super) const LEASE_EPOCH: HeaderName = HeaderName::from_static("lockstep-lease-epoch");
pub(super) const QUEUE: HeaderName = HeaderName::from_static("lockstep-queue");
pub(super) const CONSUMER_GROUP: HeaderName = HeaderName::from_static("lockstep-consumer-group");
pub(super) const PROPERTIES_DROPPED: HeaderName = HeaderName::from_static("lockstep-properties-dropped");
pub(super) const PROPERTY_PREFIX: &str = "lockstep-property-";

pub(super) const CE_ID: HeaderName = HeaderName::from_static("ce-id");
pub(super) const CE_SOURCE: HeaderName = HeaderName::from_static("ce-source");
pub(super) const CE_SPECVERSION: HeaderName = HeaderName::from_static("ce-specversion");
pub(super) const CE_TYPE: HeaderName = HeaderName::from_static("ce-type");
pub(super) const CE_SUBJECT: HeaderName = HeaderName::from_static("ce-subject");
pub(super) const CE_TIME: HeaderName = HeaderName::from_static("ce-time");
pub(super) const CE_PARTITIONKEY: HeaderName = HeaderName::from_static("ce-partitionkey");
pub(super) const CE_SEQUENCE: HeaderName = HeaderName::from_static("ce-sequence");
pub(super) const CE_DELIVERYATTEMPT: HeaderName = HeaderName::from_static("ce-deliveryattempt");
pub(super) const CE_CONSUMERGROUP: HeaderName = HeaderName::from_static("ce-consumergroup");
pub(super) const CE_IDSYNTHETIC: HeaderName = HeaderName::from_static("ce-idsynthetic");
pub(super) const CE_PREFIX: &str = "ce-";

/// `type` of messages that carry none.
pub(super) const DEFAULT_TYPE: &str = "lockstep.dev.message.v1";

/// RocketMQ's own bookkeeping, which tells an application nothing that the headers do not: see `MessageConst` of the
/// RocketMQ client. Kept visible are those with a meaning for people: `KEYS`, `TAGS`, `__SHARDINGKEY`, `DELAY`,
/// `ORIGIN_MESSAGE_ID`, `DLQ_ORIGIN_TOPIC`, `DLQ_ORIGIN_MESSAGE_ID`, `RETRY_TOPIC`, `CORRELATION_ID`.
pub const ROCKETMQ_HIDDEN: &[&str] = &[
    "UNIQ_KEY",
    "WAIT",
    "MSG_REGION",
    "TRACE_ON",
    "CLUSTER",
    "INSTANCE_ID",
    "MIN_OFFSET",
    "MAX_OFFSET",
    "REAL_TOPIC",
    "REAL_QID",
    "TRAN_MSG",
    "PGROUP",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "__transactionId__",
    "RECONSUME_TIME",
    "MAX_RECONSUME_TIMES",
    "CONSUME_START_TIME",
    "INNER_NUM",
    "INNER_BASE",
    "MSG_TYPE",
    "POP_CK",
    "POP_CK_OFFSET",
    "1ST_POP_TIME",
    "TIMER_*",
    "TRACE_CONTEXT",
    "__BORNHOST",
    "BORN_TIMESTAMP",
    "__CRC32#",
    "__RMQ.TRANSIENT.*",
];

/// RabbitMQ's own bookkeeping: how often a message was handed out, which says nothing of what the application saw. Kept
/// visible are those with a meaning for people: `x-death` and what else tells of a dead letter's way, `CC`.
pub(super) const RABBITMQ_HIDDEN: &[&str] = &["x-delivery-count", "x-acquired-count"];

/// Artemis' own bookkeeping: the connection of a publisher that speaks its core protocol. Kept visible are those with a
/// meaning for people: `JMSX*`, `dlqDeliveryFailureCause` and what else tells of a dead letter's way.
pub(super) const ACTIVEMQ_HIDDEN: &[&str] = &["__AMQ_CID"];
