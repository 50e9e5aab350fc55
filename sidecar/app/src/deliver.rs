//! Delivery of messages to the application over HTTP: one attempt in, one plain result out. What the result means is
//! the engine's business.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use lockstep_core::AttemptResult;
use lockstep_model::{Delivery, Epoch, Moment, QueueName};

/// One attempt to hand a delivery to the application.
#[derive(Debug, Clone)]
pub struct AttemptRequest {
    /// The delivery; its body is sent as it lies in the receive buffer.
    pub delivery: Arc<Delivery>,
    /// The name of its queue.
    pub queue_name: QueueName,
    /// The ownership that the attempt belongs to.
    pub epoch: Epoch,
    /// 1 for the first attempt.
    pub number: u32,
    /// Attempts before the message counts as exhausted; 0 = no limit.
    pub max_attempts: u32,
    /// Nothing is written after this moment.
    pub not_after: Option<Moment>,
    /// The lease's end as known now, told to the application.
    pub lease_deadline: Option<Moment>,
    /// How long the attempt may take, from the call to the answer's end.
    pub timeout: Duration,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempted {
    /// The facts for the engine.
    pub result: AttemptResult,
    /// What logs and `/status` may say of an attempt that did not succeed.
    pub detail: Option<Detail>,
}

/// Text about a failed attempt: the beginning of the answer, or the error. At most 1 KiB, control characters escaped,
/// never a part of the message.
#[derive(Clone, PartialEq, Eq)]
pub struct Detail(Box<str>);

/// Hands deliveries to the application.
pub trait Deliver: Send + Sync + 'static {
    /// Makes one attempt. Never fails: every outcome is a result.
    ///
    /// Cancel safe: dropping the call closes its connection, so that the application can see that nobody waits. Whether
    /// the application saw the message is then unknown.
    fn attempt(&self, request: AttemptRequest) -> impl Future<Output = Attempted> + Send;
}

impl Detail {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
