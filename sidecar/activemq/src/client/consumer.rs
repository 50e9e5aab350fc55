use std::{future::poll_fn, sync::Arc, time::Duration};

use lockstep_openwire::{Destination, MessageId};

use super::{Answer, ClientError, DeliveryEvent, shared::Handle};

/// What is to be consumed, and how.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    /// From where.
    pub(crate) destination: Destination,
    /// How many unsettled messages are sent without being asked for; 0 = each has to be pulled.
    pub(crate) prefetch: u32,
    /// Which messages; absent = all.
    pub(crate) selector: Option<String>,
    /// Whether a Classic broker shall give this queue to one consumer only.
    pub(crate) exclusive: bool,
    /// Consumers of a higher priority come first.
    pub(crate) priority: i8,
    /// Whether the broker hands out by a thread of its own rather than by the one that the message came with.
    pub(crate) dispatch_async: bool,
    /// Whether what this connection sends is left out.
    pub(crate) no_local: bool,
}

impl Subscription {
    /// Of a destination, with nothing that is special, each message pulled.
    pub(crate) const fn new(destination: Destination) -> Self {
        Self {
            destination,
            prefetch: 0,
            selector: None,
            exclusive: false,
            priority: 0,
            dispatch_async: false,
            no_local: false,
        }
    }
}

/// A message to be sent, without a body.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    /// Where to.
    pub(crate) destination: Destination,
    /// Where an answer is to be sent.
    pub(crate) reply_to: Option<Destination>,
    /// Comes back in an answer.
    pub(crate) correlation: Option<String>,
    /// Names and texts.
    pub(crate) properties: Vec<(String, String)>,
}

/// What becomes of a message.
#[derive(Debug, Clone)]
pub(crate) struct Ack {
    /// Where the delivery came from, as it said.
    pub(crate) destination: Destination,
    /// The message's, as it came.
    pub(crate) message: MessageId,
    /// What is said.
    pub(crate) verdict: AckVerdict,
}

/// What is said of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AckVerdict {
    /// It is done: ack type 2, STANDARD.
    Done,
    /// The broker shall put it where its dead letters go: ack type 1, POISON.
    Poison {
        /// Why; at most 512 characters of it are sent.
        cause: String,
    },
}

/// One consumer. Clones share it; when the last is dropped, it is closed without waiting, and the broker counts all that it
/// had as delivered.
#[derive(Debug, Clone)]
pub(crate) struct Consumer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    handle: Arc<Handle>,
    number: i64,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.handle.0.core().leave(self.number);
    }
}

impl Consumer {
    pub(super) fn new(handle: Arc<Handle>, number: i64) -> Self {
        Self { inner: Arc::new(Inner { handle, number }) }
    }

    /// Asks for one message; when there is none for so long, [`DeliveryEvent::Nothing`] comes. Queued for writing, never
    /// waits.
    ///
    /// # Errors
    /// The consumer or the connection ended. What the broker objects to ends the consumer later.
    pub(crate) fn pull(&self, timeout: Duration) -> Result<(), ClientError> {
        self.inner.handle.0.core().pull(self.inner.number, timeout)
    }

    /// How many unsettled messages are sent from now on without being asked for. Queued for writing, never waits.
    ///
    /// # Errors
    /// As [`Consumer::pull`].
    pub(crate) fn prefetch(&self, count: u32) -> Result<(), ClientError> {
        self.inner.handle.0.core().set_prefetch(self.inner.number, count)
    }

    /// Settles one message that this consumer delivered. Sent in the order of the calls.
    ///
    /// # Errors
    /// The consumer or the connection ended, and nothing was sent.
    pub(crate) fn ack(&self, ack: Ack) -> Result<Answer, ClientError> {
        let due = self.inner.handle.0.core().ack(self.inner.number, ack)?;
        Ok(Answer::new("an acknowledgement", due))
    }

    /// Closes it: nothing comes of it and nothing can be settled any more. `last_delivered` is the broker's sequence number
    /// ([`MessageId::broker_sequence`]) of the last unsettled message that anybody may have seen, -1 when there is none: those
    /// up to it count as delivered once more. Of a number that it does not find among the unsettled ones, Classic counts none.
    ///
    /// Cancel safe: it is closed nevertheless.
    ///
    /// # Errors
    /// As [`super::Connection::alive`]. That the broker had removed it before is none.
    pub(crate) async fn close(&self, last_delivered: i64) -> Result<(), ClientError> {
        let due = self.inner.handle.0.core().close_consumer(self.inner.number, last_delivered)?;
        let answer = Answer::new("the end of a consumer", due).await;
        match answer {
            Err(error) if error.exception().is_some() => Ok(()),
            answer => answer,
        }
    }
}

/// What comes to a consumer.
#[derive(Debug)]
pub(crate) struct Deliveries {
    handle: Arc<Handle>,
    number: i64,
}

impl Deliveries {
    pub(super) const fn new(handle: Arc<Handle>, number: i64) -> Self {
        Self { handle, number }
    }

    /// The next that comes; at the end the same each time.
    ///
    /// Cancel safe: nothing is lost.
    pub(crate) async fn next(&mut self) -> DeliveryEvent {
        poll_fn(|context| self.handle.0.core().poll_delivery(self.number, context)).await
    }

    /// What has come already; at the end the same each time.
    pub(crate) fn try_next(&mut self) -> Option<DeliveryEvent> {
        self.handle.0.core().next_delivery(self.number)
    }
}
