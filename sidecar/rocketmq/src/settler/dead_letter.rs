//! Dead letters. The broker copies the message out of its own log into `%DLQ%group`; if it is not there any more, we
//! publish what we hold.

use std::sync::Arc;

use bytes::Bytes;
use lockstep_broker::{BrokerError, Settle};
use lockstep_model::{Delivery, Identity, Moment};

use super::{RocketSettler, TIMEOUT, earlier, in_time};
use crate::{
    codec::{Command, write_properties},
    protocol::{MessageQueue, ReplyError, Request, ResponseCode, SendBack, SendMessage, SendReply},
    shared::{AskError, not_owned, unix_ms},
};

const DEAD_LETTER: &str = "dead-letter";
/// Straight to the dead-letter topic, in place of a retry after a delay.
const AT_ONCE: i32 = -1;
/// A message sent to the retry topic with more redeliveries than are allowed is put into the dead-letter topic by the
/// broker, which creates that topic as needed; sending to it directly would not.
const TOO_MANY: i32 = 17;
/// See [`TOO_MANY`].
const ALLOWED: i32 = 1;
/// The topic that a message came from.
const ORIGIN_TOPIC: &[u8] = b"RETRY_TOPIC";
/// The broker's id of the message that a dead letter was made of.
const ORIGIN_ID: &[u8] = b"ORIGIN_MESSAGE_ID";
/// Why it could not be decoded.
const UNDECODABLE: &[u8] = b"LOCKSTEP_UNDECODABLE";
/// Brokers store properties with a 16-bit length.
const PROPERTIES_MAX: usize = 32_767;

impl RocketSettler {
    pub(super) async fn dead_letter(&self, settle: &Settle) -> Result<(), BrokerError> {
        let shared = &self.shared;
        let delivery = &settle.delivery;
        let now = shared.now();
        in_time(DEAD_LETTER, settle.not_after, now)?;
        let queue = shared
            .leases
            .may_write(delivery.queue, settle.epoch, now)
            .map_err(|refused| not_owned(DEAD_LETTER, refused))?;
        let not_after = earlier(settle.not_after, shared.leases.deadline(delivery.queue, settle.epoch));
        if let Identity::Position { log_offset, .. } = delivery.identity {
            match self.send_back(&queue, delivery, log_offset, not_after).await {
                Err(AskError::Call(error)) if error.refusal() == Some(ResponseCode::SystemError) => {
                    tracing::warn!(queue = %queue, position = %delivery.position, error = %error,
                        "the broker can't copy the message, publishing it instead");
                }
                Ok(()) => return Ok(()),
                Err(error) => return Err(shared.failed(DEAD_LETTER, &queue, error)),
            }
            // The first question took its time.
            shared
                .leases
                .may_write(delivery.queue, settle.epoch, shared.now())
                .map_err(|refused| not_owned(DEAD_LETTER, refused))?;
        }
        let publish = self.publish(&queue, settle, not_after).await;
        publish.map_err(|error| shared.failed(DEAD_LETTER, &queue, error))
    }

    async fn send_back(
        &self,
        queue: &MessageQueue,
        delivery: &Delivery,
        log_offset: i64,
        not_after: Option<Moment>,
    ) -> Result<(), AskError> {
        let request = SendBack {
            group: Arc::clone(&self.shared.group),
            topic: Arc::clone(&queue.topic),
            log_offset,
            message_id: delivery.message.id.as_str().to_owned(),
            delay_level: AT_ONCE,
            max_reconsume_times: None,
        };
        self.shared.ask(queue, &request, TIMEOUT, not_after).await
    }

    async fn publish(
        &self,
        queue: &MessageQueue,
        settle: &Settle,
        not_after: Option<Moment>,
    ) -> Result<(), AskError> {
        let delivery = &settle.delivery;
        let request = SendMessage {
            group: Arc::clone(&self.shared.group),
            topic: Arc::from(self.shared.config.retry_topic()),
            queue_id: 0,
            sys_flag: 0,
            flag: 0,
            born_ms: delivery.message.born_ms.unwrap_or_else(unix_ms),
            properties: properties(queue, delivery),
            reconsume_times: TOO_MANY,
            body: delivery
                .undecodable
                .as_ref()
                .map_or_else(|| delivery.message.body.clone(), |u| u.raw.clone()),
        };
        self.shared.ask(queue, &ToDeadLetters(request), TIMEOUT, not_after).await.map(drop)
    }
}

/// A message sent to the retry topic with its redeliveries used up.
struct ToDeadLetters(SendMessage);

impl Request for ToDeadLetters {
    type Reply = SendReply;

    const NAME: &'static str = "publish the dead letter";

    fn command(&self) -> Command {
        self.0.command().field("l", ALLOWED)
    }

    fn reply(&self, reply: Command) -> Result<SendReply, ReplyError> {
        self.0.reply(reply)
    }
}

/// The message's own properties as far as they are text and fit, and where it came from.
fn properties(queue: &MessageQueue, delivery: &Delivery) -> String {
    let id = delivery.message.id.as_bytes();
    let ours = [(ORIGIN_TOPIC, queue.topic.as_bytes()), (ORIGIN_ID, id)];
    let reason =
        delivery.undecodable.as_ref().map(|undecodable| (UNDECODABLE, undecodable.reason.as_bytes()));
    let own = delivery.message.properties.iter().filter(|(name, value)| {
        let new = *name != ORIGIN_TOPIC && *name != ORIGIN_ID;
        new && std::str::from_utf8(name).is_ok() && std::str::from_utf8(value).is_ok()
    });
    let mut room = PROPERTIES_MAX;
    let fitting = ours.into_iter().chain(reason).chain(own).filter(|(name, value)| {
        let size = name.len() + value.len() + 2;
        let fits = size <= room;
        if fits {
            room -= size;
        }
        fits
    });
    let written: Bytes = write_properties(fitting);
    String::from_utf8_lossy(&written).into_owned()
}
