//! How messages reach the application, and what happens when it does not answer 2xx.

use std::{fmt, num::NonZeroU16, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    SecretKeyRef, SecretRef, defaults,
    units::{milliseconds, seconds},
};

/// How messages reach the application: a POST each to `http://<host>:<port><path>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Delivery {
    /// The container of the pod template that receives the messages. Default: the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    /// Where it listens. Both address families are tried.
    pub host: String,
    /// Its port: a number, or the name of one of the container's ports.
    pub port: Port,
    /// The path that receives the messages.
    pub path: String,
    /// How a message becomes a request.
    pub format: Format,
    /// The content type of messages that do not name their own.
    pub content_type: String,
    /// A Secret whose keys and values are sent as headers with every request, for example `Authorization`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers_secret_ref: Option<SecretRef>,
    /// How long the application may take for one message, in seconds.
    #[serde(rename = "timeoutSeconds", with = "seconds")]
    #[schemars(with = "u32", range(min = 1, max = 3600))]
    pub timeout: Duration,
    /// How many messages one pod's application handles at the same time at most. The sidecar adapts below it.
    #[schemars(with = "u16", range(min = 1, max = 1024))]
    pub max_in_flight: NonZeroU16,
    /// Answers that are judged otherwise than usual, for example `done: [409]`.
    pub status_codes: StatusCodes,
    /// How the sidecar knows that the application can take messages.
    pub health_check: HealthCheck,
    /// Signs every request as Standard Webhooks describe. Absent = no signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing: Option<Signing>,
}

/// How a message becomes a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Format {
    /// The message is the body, CloudEvents attributes are `ce-` headers.
    #[default]
    CloudEventsBinary,
    /// The body is a CloudEvents JSON document that holds the message.
    CloudEventsStructured,
    /// The message is the body, without CloudEvents attributes.
    Raw,
}

/// A port of the application's container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Port {
    /// By number.
    Number(NonZeroU16),
    /// By name: the operator puts the number in its place.
    Name(String),
}

impl JsonSchema for Port {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Port".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }

    fn inline_schema() -> bool {
        true
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// Answers that are judged otherwise than usual. No status may stand in two lists, and 2xx only in `done`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusCodes {
    /// The message is done.
    #[schemars(length(max = 64), inner(range(min = 100, max = 599)))]
    pub done: Vec<u16>,
    /// Try the message again.
    #[schemars(length(max = 64), inner(range(min = 100, max = 599)))]
    pub again: Vec<u16>,
    /// The message is at fault: give it up as `retry.whenExhausted` says.
    #[schemars(length(max = 64), inner(range(min = 100, max = 599)))]
    pub never: Vec<u16>,
    /// The application is at fault: hold everything until it is repaired.
    #[schemars(length(max = 64), inner(range(min = 100, max = 599)))]
    pub misconfigured: Vec<u16>,
}

/// How the sidecar knows that the application can take messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheck {
    /// A path that answers GET with 2xx when the application can take messages. Absent = it is enough that the port
    /// accepts a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How often it is asked, in seconds.
    #[serde(rename = "periodSeconds", with = "seconds")]
    #[schemars(with = "u32", range(min = 1, max = 300))]
    pub period: Duration,
    /// How many failures in a row make the application unhealthy. One success makes it healthy.
    #[schemars(with = "u16", range(min = 1, max = 100))]
    pub failure_threshold: NonZeroU16,
    /// How long an unhealthy application keeps its queues before they go to another pod, in seconds.
    #[serde(rename = "handOverSeconds", with = "seconds")]
    #[schemars(with = "u32", range(min = 0, max = 3600))]
    pub hand_over: Duration,
}

/// Signatures as Standard Webhooks describe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Signing {
    /// The keys to sign with, each a text that begins with `whsec_`. Several while one replaces another: every
    /// request carries a signature by each.
    #[schemars(length(min = 1, max = 4))]
    pub secret_refs: Vec<SecretKeyRef>,
}

/// What happens when the application does not answer 2xx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Retry {
    /// How often a message is tried, the first time included. 0 = no limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_attempts: u32,
    /// How long to wait between two tries.
    pub backoff: Backoff,
    /// The longest wait that an application can ask for by `Retry-After`, in seconds. A message that is put off for
    /// ten times as long in total spends attempts from then on. 0 = the header is
    /// ignored, and `Lockstep-Verdict: again` spends an attempt.
    #[serde(rename = "retryAfterMaxSeconds", with = "seconds")]
    #[schemars(with = "u32", range(min = 0, max = 86_400))]
    pub retry_after_max: Duration,
    /// What happens to a message whose tries are used up, or that the application calls faulty. `Block`: it is tried
    /// on and what is behind it waits. `DeadLetter`: it goes to the dead-letter queue. `Skip`: it is dropped.
    /// Default: `Block`, for `Unordered` `DeadLetter`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_exhausted: Option<WhenExhausted>,
    /// What happens to a stored message that can't be decoded.
    pub undecodable: Undecodable,
    /// What happens when the broker removed messages before they were delivered. Always told by a condition.
    pub on_data_loss: OnDataLoss,
}

/// How long to wait between two tries. The wait is drawn at random up to the bound, so that pods do not beat in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Backoff {
    /// `Exponential`: the bound doubles with each try. `Constant`: it stays.
    pub policy: BackoffPolicy,
    /// The first bound, in milliseconds.
    #[serde(rename = "initialMilliseconds", with = "milliseconds")]
    #[schemars(with = "u32", range(min = 1, max = 3_600_000))]
    pub initial: Duration,
    /// The largest bound, in seconds.
    #[serde(rename = "maxSeconds", with = "seconds")]
    #[schemars(with = "u32", range(min = 1, max = 3600))]
    pub max: Duration,
}

/// How the wait grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BackoffPolicy {
    /// It doubles with each try.
    #[default]
    Exponential,
    /// It stays.
    Constant,
}

/// What happens to a message whose tries are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenExhausted {
    /// It is tried on; what is behind it waits.
    Block,
    /// It goes to the dead-letter queue.
    DeadLetter,
    /// It is dropped.
    Skip,
}

/// What happens to a stored message that can't be decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Undecodable {
    /// It waits for a person, and so does what is behind it.
    #[default]
    Block,
    /// Its raw bytes go to the dead-letter queue.
    DeadLetter,
}

/// What happens when the broker removed messages before they were delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDataLoss {
    /// Go on behind the gap.
    #[default]
    Continue,
    /// The queue stops until this is changed.
    Stop,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            container_name: None,
            host: defaults::HOST.to_owned(),
            port: Port::Number(at_least_one(defaults::PORT)),
            path: defaults::PATH.to_owned(),
            format: Format::default(),
            content_type: defaults::CONTENT_TYPE.to_owned(),
            headers_secret_ref: None,
            timeout: defaults::TIMEOUT,
            max_in_flight: at_least_one(defaults::MAX_IN_FLIGHT),
            status_codes: StatusCodes::default(),
            health_check: HealthCheck::default(),
            signing: None,
        }
    }
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            path: None,
            period: defaults::HEALTH_PERIOD,
            failure_threshold: at_least_one(defaults::HEALTH_FAILURES),
            hand_over: defaults::HAND_OVER,
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: defaults::MAX_ATTEMPTS,
            backoff: Backoff::default(),
            retry_after_max: defaults::RETRY_AFTER_MAX,
            when_exhausted: None,
            undecodable: Undecodable::default(),
            on_data_loss: OnDataLoss::default(),
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            policy: BackoffPolicy::default(),
            initial: defaults::BACKOFF_INITIAL,
            max: defaults::BACKOFF_MAX,
        }
    }
}

/// Turns a non-zero constant into its type without a way to fail.
fn at_least_one(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN)
}
