//! What the handles ask of a connection: channels, questions, settlements, publishes, and their ends.

use std::{sync::Arc, task::Waker};

use bytes::{Bytes, BytesMut};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Asker, Core, Due, Life, content,
    slot::{Room, Slot},
};
use crate::amqp::{
    AmqpError, Confirmation, DeliveryEvent, Properties, Reservation,
    budget::Place,
    channel::End,
    codec::{Answer, Call, ConnectionCall, Reply},
    connection::give_up_at,
};

/// With more than this unwritten, nothing more is published for the moment.
const PUBLISH_BACKLOG: usize = 1024 * 1024;

/// How a delivery is settled.
#[derive(Debug, Clone, Copy)]
pub(in crate::amqp) enum Settle {
    Ack { multiple: bool },
    Nack { requeue: bool },
    Reject { requeue: bool },
}

/// One message to publish.
#[derive(Debug, Clone, Copy)]
pub(in crate::amqp) struct Publish<'a> {
    pub(in crate::amqp) exchange: &'a str,
    pub(in crate::amqp) routing_key: &'a str,
    pub(in crate::amqp) mandatory: bool,
    pub(in crate::amqp) properties: &'a Properties,
    pub(in crate::amqp) body: &'a Bytes,
}

impl Core {
    /// Begins to close the connection.
    pub(in crate::amqp) fn close(&mut self, now: Instant) {
        if !self.is_open() {
            return;
        }
        self.life = Life::Closing(give_up_at(now));
        for slot in self.channels.values_mut() {
            slot.end(&AmqpError::ClosedByUs, &self.budget);
        }
        self.send_on_connection(ConnectionCall::Close);
    }

    pub(in crate::amqp) fn open_channel(&mut self) -> Result<(u16, Arc<End>, Due<Answer>), AmqpError> {
        if let Some(ended) = self.ended() {
            return Err(ended);
        }
        // The one that was closed last is taken last.
        let free = (self.last_channel + 1..=self.channels_most).chain(1..=self.last_channel);
        let Some(number) = free.into_iter().find(|number| !self.channels.contains_key(number)) else {
            return Err(AmqpError::Busy { what: "channels", most: self.channels_most.into() });
        };
        self.last_channel = number;
        let end = Arc::new(End::new());
        self.channels.insert(number, Slot::new(Arc::clone(&end)));
        let answer = self.ask(number, &end, Reply::ChannelOpen, Call::Open)?;
        Ok((number, end, answer))
    }

    /// The channel that a handle is for, if it is still that one.
    fn slot(&mut self, channel: u16, end: &Arc<End>) -> Result<&mut Slot, AmqpError> {
        if let Some(reason) = end.get() {
            return Err(reason.afterwards());
        }
        match self.channels.get_mut(&channel) {
            Some(slot) if slot.is_of(end) => Ok(slot),
            Some(_) | None => Err(AmqpError::ClosedByUs.afterwards()),
        }
    }

    /// Sends a question; its answer comes on the receiver.
    pub(in crate::amqp) fn ask(
        &mut self,
        channel: u16,
        end: &Arc<End>,
        reply: Reply,
        call: Call<'_>,
    ) -> Result<Due<Answer>, AmqpError> {
        self.slot(channel, end)?.may_ask()?;
        self.send(channel, call)?;
        let (sender, answer) = oneshot::channel();
        self.slot(channel, end)?.asked(reply, sender);
        Ok(answer)
    }

    pub(in crate::amqp) fn set_prefetch(
        &mut self,
        channel: u16,
        end: &Arc<End>,
        prefetch: u16,
    ) -> Result<(), AmqpError> {
        self.slot(channel, end)?.prefetch = prefetch;
        Ok(())
    }

    pub(in crate::amqp) fn prefetch(&mut self, channel: u16, end: &Arc<End>) -> Result<u16, AmqpError> {
        Ok(self.slot(channel, end)?.prefetch)
    }

    /// Replaces what is reserved on a channel.
    pub(in crate::amqp) fn reserve(
        &mut self,
        channel: u16,
        end: &Arc<End>,
        room: Option<Reservation>,
    ) -> Result<(), AmqpError> {
        self.slot(channel, end)?.reserved = room;
        Ok(())
    }

    pub(in crate::amqp) fn expect_consumer(&mut self, channel: u16, end: &Arc<End>) -> Result<(), AmqpError> {
        self.slot(channel, end)?.expect_consumer()
    }

    pub(in crate::amqp) fn settle(
        &mut self,
        channel: u16,
        end: &Arc<End>,
        tag: u64,
        settle: Settle,
    ) -> Result<(), AmqpError> {
        let multiple = matches!(settle, Settle::Ack { multiple: true });
        let freed = self.slot(channel, end)?.settled(tag, multiple)?;
        self.budget.give(freed, Place::Within);
        let call = match settle {
            Settle::Ack { multiple } => Call::Ack { tag, multiple },
            Settle::Nack { requeue } => Call::Nack { tag, requeue },
            Settle::Reject { requeue } => Call::Reject { tag, requeue },
        };
        self.send(channel, call)
    }

    pub(in crate::amqp) fn confirms(&mut self, channel: u16, end: &Arc<End>) -> Result<(), AmqpError> {
        self.slot(channel, end)?.confirms();
        Ok(())
    }

    /// Publishes; `None` when there is no room for it now.
    pub(in crate::amqp) fn publish(
        &mut self,
        channel: u16,
        end: &Arc<End>,
        publish: Publish<'_>,
    ) -> Result<Option<Due<Confirmation>>, AmqpError> {
        let room = self.slot(channel, end)?.may_publish()?;
        if room == Room::None || self.blocked.is_some() || self.out.len() > PUBLISH_BACKLOG {
            return Ok(None);
        }
        let Publish { exchange, routing_key, mandatory, properties, body } = publish;
        let mut frames = BytesMut::new();
        let head = Call::Publish { exchange, routing_key, mandatory };
        head.write(channel, &mut frames).ok_or(AmqpError::TooLong { what: "exchange or routing key" })?;
        content::write_header(channel, properties, body.len() as u64, self.payload_most, &mut frames)?;
        self.out.tail().extend_from_slice(&frames);
        self.out.body(channel, body, self.payload_most);
        let (sender, answer) = oneshot::channel();
        let route = mandatory.then_some((exchange, routing_key));
        self.slot(channel, end)?.published(route, sender);
        self.wake();
        Ok(Some(answer))
    }

    /// Begins to close a channel; the answer says when the broker has.
    pub(in crate::amqp) fn leave_channel(&mut self, channel: u16, end: &Arc<End>, answer: Option<Asker<()>>) {
        let reason = end.get_or_init(|| AmqpError::ClosedByUs).clone();
        let slot = self.channels.get_mut(&channel).filter(|slot| slot.is_of(end));
        let Some(slot) = slot else {
            // All is given back already, unless the connection was lost.
            let closed = matches!(reason, AmqpError::ChannelClosed(_) | AmqpError::ClosedByUs);
            let result = if closed { Ok(()) } else { Err(reason.afterwards()) };
            if let Some(answer) = answer {
                drop(answer.send(result));
            }
            return;
        };
        let first = slot.close(answer, &self.budget);
        if first && self.is_open() {
            // It has no text that could be too long.
            drop(self.send(channel, Call::Close));
        }
    }

    /// The next of a channel's deliveries, else remembers whom to wake.
    pub(in crate::amqp) fn next_delivery(
        &mut self,
        channel: u16,
        end: &Arc<End>,
        waker: Option<&Waker>,
    ) -> Option<DeliveryEvent> {
        if let Some(reason) = end.get() {
            return Some(DeliveryEvent::Closed(reason.clone()));
        }
        let slot = self.channels.get_mut(&channel).filter(|slot| slot.is_of(end));
        match slot {
            Some(slot) => slot.next(waker),
            None => Some(DeliveryEvent::Closed(AmqpError::ClosedByUs)),
        }
    }
}
