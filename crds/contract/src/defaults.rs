//! Every default of the resource, with its reason. What depends on another field is resolved by
//! [`ConsumerGroup::when_exhausted`](crate::ConsumerGroup::when_exhausted) and
//! [`ConsumerGroup::drain_timeout`](crate::ConsumerGroup::drain_timeout).

use std::time::Duration;

/// RocketMQ's own broker default (`rebalanceLockMaxLiveTime`), so that nobody has to look it up.
pub const LOCK_LIFETIME: Duration = Duration::from_secs(60);
/// RabbitMQ's own default virtual host.
pub const VHOST: &str = "/";
/// The shortest that one lost packet does not end: a lease of 19 s and a dead owner found within 30 s.
pub const HEARTBEAT: Duration = Duration::from_secs(10);
/// RabbitMQ's own default (`consumer_timeout`, 30 minutes).
pub const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(1800);
/// The application listens beside the sidecar; both address families are tried.
pub const HOST: &str = "localhost";
/// The usual port of an HTTP application.
pub const PORT: u16 = 8080;
/// Says what is posted there.
pub const PATH: &str = "/messages";
/// Most bodies are; a message that names its own type wins.
pub const CONTENT_TYPE: &str = "application/json";
/// The upper end of what the Standard Webhooks advise (15 to 30 s).
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Enough to hide latency of a small application, small enough not to drown one; the limit adapts below it.
pub const MAX_IN_FLIGHT: u16 = 32;
/// Finds a dead application within a quarter of a minute together with [`HEALTH_FAILURES`].
pub const HEALTH_PERIOD: Duration = Duration::from_secs(5);
/// One lost probe is no illness.
pub const HEALTH_FAILURES: u16 = 3;
/// A restart of the application usually ends within it, and then its queues need not move.
pub const HAND_OVER: Duration = Duration::from_secs(30);
/// RocketMQ's own default; with the default backoff nine minutes of waiting at most, half of it on average.
pub const MAX_ATTEMPTS: u32 = 16;
/// Short enough for a hiccup.
pub const BACKOFF_INITIAL: Duration = Duration::from_millis(500);
/// A repaired application is noticed within a minute.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Caps an answer that asks for too much, without ignoring a rate limit's usual minutes.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// What a drain needs beyond the longest attempt: to commit, release and leave.
pub const DRAIN_RESERVE: Duration = Duration::from_secs(5);
/// Free in Kubernetes' usual port ranges and not registered.
pub const ADMIN_PORT: u16 = crate::names::ADMIN_PORT;
