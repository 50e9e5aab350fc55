use std::{
    future::poll_fn,
    num::{NonZeroU16, NonZeroU64},
    pin::pin,
    sync::{Arc, OnceLock},
    task::Poll,
};

use bytes::Bytes;
use tokio::{sync::oneshot, time::timeout};

use super::{
    ANSWER_WITHIN, AmqpError, DeliveryEvent, Fields, Malformed, Properties, Reservation,
    codec::{Answer, Call, Reply},
    core::{Core, Publish, Settle},
    shared::Handle,
};

/// Why a channel ended; set once, and kept after the channel's number has gone to another.
pub(super) type End = OnceLock<AmqpError>;

/// What a broker says of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueInfo {
    /// Ready to be delivered, those that are out to consumers not counted.
    pub messages: u32,
    /// Consumers of the queue, on all connections.
    pub consumers: u32,
}

/// What became of a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmation {
    /// The broker has it, in each queue that it is for. Without `mandatory` that may be none.
    Acked,
    /// No queue is there for it; only told of mandatory ones.
    Returned {
        /// The reply code, 312 for no route.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// The broker did not take it.
    Nacked,
}

/// One channel. Clones share it; when the last is dropped, it is closed without waiting.
///
/// Questions of several callers may be open at once; they are answered in their order. A dropped question is asked
/// nevertheless.
#[derive(Debug, Clone)]
pub struct Channel {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    handle: Arc<Handle>,
    number: u16,
    end: Arc<End>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.handle.0.core().leave_channel(self.number, &self.end, None);
    }
}

impl Inner {
    fn core(&self) -> std::sync::MutexGuard<'_, Core> {
        self.handle.0.core()
    }

    fn ended(&self) -> Option<AmqpError> {
        self.end.get().map(AmqpError::afterwards)
    }
}

impl Channel {
    /// Opens a channel and waits for the answer.
    pub(super) async fn open(handle: &Arc<Handle>) -> Result<(Self, Deliveries), AmqpError> {
        let (number, end, answer) = handle.0.core().open_channel()?;
        let inner = Inner { handle: Arc::clone(handle), number, end: Arc::clone(&end) };
        let channel = Self { inner: Arc::new(inner) };
        let deliveries = Deliveries { handle: Arc::clone(handle), number, end };
        wait("channel.open", answer).await?;
        Ok((channel, deliveries))
    }

    /// How many unsettled deliveries each consumer that is started afterwards may have.
    ///
    /// # Errors
    /// Channel or connection ended, or no answer within [`ANSWER_WITHIN`]; so of all questions.
    pub async fn qos(&self, prefetch: NonZeroU16) -> Result<(), AmqpError> {
        self.inner.core().set_prefetch(self.inner.number, &self.inner.end, prefetch.get())?;
        self.round_trip().await
    }

    /// Asks the broker something that changes nothing (the prefetch as it is). The answer comes when the broker has
    /// read all that was sent on this channel before; it did with it what it does, unless the channel ended.
    ///
    /// # Errors
    /// As [`Channel::qos`].
    pub async fn round_trip(&self) -> Result<(), AmqpError> {
        let prefetch = self.inner.core().prefetch(self.inner.number, &self.inner.end)?;
        self.ask("basic.qos", Reply::Qos, Call::Qos { prefetch }).await.map(drop)
    }

    /// Looks at a queue without creating it.
    ///
    /// # Errors
    /// [`AmqpError::ChannelClosed`] with 404 when there is no such queue, 403 when the user may not see it, 405 when it
    /// is another connection's own; the channel is gone then. Else as [`Channel::qos`].
    pub async fn declare_passive(&self, queue: &str) -> Result<QueueInfo, AmqpError> {
        self.declare_as(Call::Declare { queue, passive: true, durable: false, arguments: &[] }).await
    }

    /// Declares a queue that is neither exclusive nor deleted by itself.
    ///
    /// # Errors
    /// [`AmqpError::ChannelClosed`] with 406 when there is one with other arguments; the text names the first that
    /// differs. Else as [`Channel::declare_passive`].
    pub async fn declare(
        &self,
        queue: &str,
        durable: bool,
        arguments: &Fields,
    ) -> Result<QueueInfo, AmqpError> {
        let arguments = arguments.raw().ok_or(AmqpError::TooLong { what: "an argument" })?;
        self.declare_as(Call::Declare { queue, passive: false, durable, arguments }).await
    }

    async fn declare_as(&self, call: Call<'_>) -> Result<QueueInfo, AmqpError> {
        let answer = self.ask("queue.declare", Reply::Declare, call).await?;
        let Answer::Declare { messages, consumers } = answer else {
            return Err(AmqpError::Protocol(Malformed::Order("answer")));
        };
        Ok(QueueInfo { messages, consumers })
    }

    /// Deletes a queue, whatever is in it.
    ///
    /// # Errors
    /// As [`Channel::declare_passive`].
    pub async fn delete(&self, queue: &str) -> Result<(), AmqpError> {
        self.ask("queue.delete", Reply::Delete, Call::Delete { queue }).await.map(drop)
    }

    /// Keeps this room for the first delivery that finds no other, until the channel ends; `None` gives it back.
    ///
    /// # Errors
    /// The channel ended, and the room is given back.
    pub fn reserve(&self, room: Option<Reservation>) -> Result<(), AmqpError> {
        self.inner.core().reserve(self.inner.number, &self.inner.end, room)
    }

    /// Starts a consumer whose deliveries come to this channel's [`Deliveries`], possibly before this returns. Needs
    /// a prefetch ([`Channel::qos`]), which bounds what is buffered.
    ///
    /// # Errors
    /// As [`Channel::declare_passive`].
    pub async fn consume(&self, queue: &str, tag: &str, arguments: &Fields) -> Result<(), AmqpError> {
        let arguments = arguments.raw().ok_or(AmqpError::TooLong { what: "an argument" })?;
        self.inner.core().expect_consumer(self.inner.number, &self.inner.end)?;
        self.ask("basic.consume", Reply::Consume, Call::Consume { queue, tag, arguments }).await.map(drop)
    }

    /// Ends a consumer and keeps what it has. Only for unordered queues: the broker makes the next consumer active while
    /// this one still has unsettled deliveries.
    ///
    /// # Errors
    /// As [`Channel::qos`].
    pub async fn cancel(&self, tag: &str) -> Result<(), AmqpError> {
        self.ask("basic.cancel", Reply::Cancel, Call::Cancel { tag }).await.map(drop)
    }

    /// Acknowledges a delivery, with `multiple` also all unsettled ones before it. Appended to what goes out, in the
    /// order of the calls; [`Channel::round_trip`] tells when the broker has read it.
    ///
    /// # Errors
    /// Nothing was sent: the channel ended, or the delivery is not unsettled on it.
    pub fn ack(&self, tag: NonZeroU64, multiple: bool) -> Result<(), AmqpError> {
        self.settle(tag, Settle::Ack { multiple })
    }

    /// Gives a delivery back; with `requeue` to its queue, else to its dead-letter exchange if it has one. From RabbitMQ
    /// 4.3 on this does not count as a failed delivery.
    ///
    /// # Errors
    /// As [`Channel::ack`].
    pub fn nack(&self, tag: NonZeroU64, requeue: bool) -> Result<(), AmqpError> {
        self.settle(tag, Settle::Nack { requeue })
    }

    /// Refuses a delivery; as [`Channel::nack`], but it counts as a failed delivery.
    ///
    /// # Errors
    /// As [`Channel::ack`].
    pub fn reject(&self, tag: NonZeroU64, requeue: bool) -> Result<(), AmqpError> {
        self.settle(tag, Settle::Reject { requeue })
    }

    fn settle(&self, tag: NonZeroU64, settle: Settle) -> Result<(), AmqpError> {
        self.inner.core().settle(self.inner.number, &self.inner.end, tag.get(), settle)
    }

    /// Asks for confirms of all that is published on this channel.
    ///
    /// # Errors
    /// As [`Channel::qos`].
    pub async fn confirm_select(&self) -> Result<(), AmqpError> {
        self.ask("confirm.select", Reply::Select, Call::Select).await?;
        self.inner.core().confirms(self.inner.number, &self.inner.end)
    }

    /// Publishes and does not wait for the confirm; the channel must be in confirm mode. Waits while the broker takes no messages or much is unwritten.
    ///
    /// Cancel safe: a dropped call sent nothing.
    ///
    /// # Errors
    /// Nothing was sent.
    pub async fn send(
        &self,
        exchange: &str,
        routing_key: &str,
        mandatory: bool,
        properties: &Properties,
        body: Bytes,
    ) -> Result<Confirm, AmqpError> {
        let publish = Publish { exchange, routing_key, mandatory, properties, body: &body };
        let shared = &self.inner.handle.0;
        let sent = async {
            loop {
                let mut room = pin!(shared.room.notified());
                room.as_mut().enable();
                if let Some(answer) = shared.core().publish(self.inner.number, &self.inner.end, publish)? {
                    return Ok(Confirm { answer });
                }
                room.await;
            }
        };
        timeout(ANSWER_WITHIN, sent).await.unwrap_or_else(|_| {
            if let Some(ended) = self.inner.ended() {
                return Err(ended);
            }
            let reason = shared.blocked.borrow().clone();
            let reason = reason.unwrap_or_else(|| "too much is unwritten".into());
            Err(AmqpError::Blocked { reason, after: ANSWER_WITHIN })
        })
    }

    /// Closes the channel and waits until the broker has done so: all that is unsettled is back in its queue then, in
    /// its order. At once when the broker had closed it before.
    ///
    /// Cancel safe: it is closed nevertheless.
    ///
    /// # Errors
    /// The connection ended, or there was no answer within [`ANSWER_WITHIN`]: whether it was done is not known.
    pub async fn close(&self) -> Result<(), AmqpError> {
        let (sender, answer) = oneshot::channel();
        self.inner.core().leave_channel(self.inner.number, &self.inner.end, Some(sender));
        wait("channel.close", answer).await
    }

    /// Whether it can be used.
    pub fn is_open(&self) -> bool {
        self.inner.end.get().is_none()
    }

    /// Why it can't be used any more.
    pub fn end(&self) -> Option<AmqpError> {
        self.inner.end.get().cloned()
    }

    async fn ask(&self, what: &'static str, reply: Reply, call: Call<'_>) -> Result<Answer, AmqpError> {
        if let Some(ended) = self.inner.ended() {
            return Err(ended);
        }
        let answer = self.inner.core().ask(self.inner.number, &self.inner.end, reply, call)?;
        wait(what, answer).await
    }
}

/// An answer that is due.
async fn wait<T>(
    what: &'static str,
    answer: oneshot::Receiver<Result<T, AmqpError>>,
) -> Result<T, AmqpError> {
    match timeout(ANSWER_WITHIN, answer).await {
        Ok(Ok(answer)) => answer,
        // The task of the connection answers all when it ends.
        Ok(Err(_)) => Err(AmqpError::ClosedByUs),
        Err(_) => Err(AmqpError::Timeout { what, after: ANSWER_WITHIN }),
    }
}

/// The confirm of one publish.
#[derive(Debug)]
pub struct Confirm {
    answer: oneshot::Receiver<Result<Confirmation, AmqpError>>,
}

impl Confirm {
    /// Waits for it as long as the caller likes.
    ///
    /// Cancel safe: it can be waited for again.
    ///
    /// # Errors
    /// It may be in its queue: the channel ended first.
    pub async fn answered(&mut self) -> Result<Confirmation, AmqpError> {
        (&mut self.answer).await.unwrap_or(Err(AmqpError::ClosedByUs))
    }

    /// Waits for it.
    ///
    /// # Errors
    /// It may be in its queue: the channel ended first, or there was no confirm within [`ANSWER_WITHIN`].
    pub async fn wait(self) -> Result<Confirmation, AmqpError> {
        wait("basic.publish", self.answer).await
    }
}

/// What comes to the consumers of a channel.
#[derive(Debug)]
pub struct Deliveries {
    handle: Arc<Handle>,
    number: u16,
    end: Arc<End>,
}

impl Deliveries {
    /// Waits for the next.
    ///
    /// Cancel safe: nothing is taken by a dropped call.
    pub async fn next(&mut self) -> DeliveryEvent {
        poll_fn(|context| {
            let mut core = self.handle.0.core();
            match core.next_delivery(self.number, &self.end, Some(context.waker())) {
                Some(event) => Poll::Ready(event),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// The next, if it is there.
    pub fn try_next(&mut self) -> Option<DeliveryEvent> {
        self.handle.0.core().next_delivery(self.number, &self.end, None)
    }
}
