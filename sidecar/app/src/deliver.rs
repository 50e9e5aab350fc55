//! Delivery of messages to the application over HTTP: one attempt in, one plain result out. What the result means is
//! the engine's business.

mod answer;
mod escape;
mod event;
mod http;
mod names;
mod request;
mod settings;
mod signing;
mod slot;
mod template;
#[cfg(test)]
mod tests;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use lockstep_core::AttemptResult;
use lockstep_model::{Delivery, Epoch, Moment, QueueName};

pub use self::{
    http::Http,
    names::ROCKETMQ_HIDDEN,
    settings::{Endpoint, Settings, SettingsError, SourceInfo},
};

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

/// Text about an attempt that did not succeed, control characters escaped, never a part of the message as we sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    summary: Box<str>,
    answer: Option<Box<str>>,
}

/// Hands deliveries to the application.
pub trait Deliver: Send + Sync + 'static {
    /// Makes one attempt. Never fails: every outcome is a result.
    ///
    /// Cancel safe: dropping the call closes its connection, so that the application can see that nobody waits. Whether
    /// the application saw the message is then unknown.
    fn attempt(&self, request: AttemptRequest) -> impl Future<Output = Attempted> + Send;
}

impl Detail {
    /// The error, or the status: fit for `/status` and conditions. At most 1 KiB.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The beginning of the answer's body, at most 1 KiB. For logs only: an application may repeat the message in it.
    pub fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    fn failed(text: &str) -> Self {
        Self { summary: escape::printable(text.as_bytes(), answer::DETAIL_LIMIT).into(), answer: None }
    }

    fn answered(status: u16, body: &[u8]) -> Self {
        let answer = escape::printable(body, answer::DETAIL_LIMIT);
        let answer = (!answer.is_empty()).then(|| answer.into());
        Self { summary: format!("answered {status}").into(), answer }
    }
}

/// The summary.
impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)
    }
}
