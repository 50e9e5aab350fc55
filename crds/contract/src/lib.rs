//! What the operator and the sidecar must agree on: the sidecar's part of the ConsumerGroup resource, and the names,
//! ports, paths and documents through which the two meet. No I/O, no kube.

mod activemq;
mod conditions;
mod delivery;
mod heat;
mod mistake;
mod parse;
mod rules;
mod schema;
mod source;
mod spec;
mod status;
mod units;
mod words;
mod yaml;

pub mod defaults;
pub mod names;

pub use activemq::queue_name;
pub use conditions::{ConditionStatus, ConditionType, Reason};
pub use delivery::{
    Backoff, BackoffPolicy, Delivery, Format, HealthCheck, OnDataLoss, Port, Retry, Signing, StatusCodes,
    Undecodable, WhenExhausted,
};
pub use heat::{FIELDS, FieldHeat, Heat, config_hash};
pub use mistake::{Mistake, Mistakes, Rule, Warning};
pub use parse::{Parsed, Strictness, parse, parse_mounted};
pub use schema::schema_of;
pub use source::{
    ActiveMq, ActiveMqMode, ActiveMqQueue, Management, QueueOwnership, RabbitMq, RocketMq, SecretKeyRef,
    SecretRef, Source, SourceKind, StartPosition, StartPositionType, Subscription, Tls, TlsMode,
};
pub use spec::{
    API_VERSION, ConsumerGroup, ConsumerGroupSpec, DeadLetter, DeadLetterPolicy, Drain, KIND, KeyFrom,
    LogLevel, Metadata, Ordering, OrderingKey, OrderingMode, RunState, Sidecar,
};

pub use status::{
    ApplicationStatus, BlockedMessage, ConfigStatus, Counters, Gap, Guard, Health, LimitStatus, Phase,
    PodCondition, QueueState, QueueStatus, STATUS_BLOCKED_MAX, STATUS_FORMAT, STATUS_GAPS_MAX,
    STATUS_QUEUES_MAX, SourceStatus, Status, Totals,
};

/// Exit code of a command that was given a faulty manifest or faulty arguments (BSD's `sysexits.h`).
pub const EX_USAGE: u8 = 64;

#[cfg(test)]
mod tests;
