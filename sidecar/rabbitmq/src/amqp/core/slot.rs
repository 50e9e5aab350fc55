use std::{collections::VecDeque, num::NonZeroU64, sync::Arc, task::Waker};

use bytes::Bytes;

use super::{
    Asker,
    content::{Content, Incoming},
};
use crate::amqp::{
    AmqpError, Budget, Close, Confirmation, DeliveryEvent, Malformed, RawDelivery, Reservation,
    budget::Place,
    channel::End,
    codec::{Answer, ChannelMethod, ContentMethod, Method, Reply, text_of},
};

/// Questions on one channel that wait for their answers.
const QUESTIONS: usize = 64;

/// Publishes on one channel that wait for their confirms.
const UNCONFIRMED: usize = 4096;

/// What a channel's connection has to do after a method.
pub(super) enum Taken {
    Done,
    Flow {
        active: bool,
    },
    /// A consumer was ended, and the broker wants to know that we know.
    Cancelled {
        tag: Bytes,
    },
    /// The broker closed the channel, while we did or not.
    Closed {
        ours: bool,
    },
    CloseOk,
}

/// Whether one more may be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Some,
    None,
}

/// One channel of a connection.
#[derive(Debug)]
pub(super) struct Slot {
    end: Arc<End>,
    /// We said that we close it.
    closing: bool,
    close_answers: Vec<Asker<()>>,
    questions: VecDeque<(Reply, Asker<Answer>)>,
    pub(super) prefetch: u16,
    inbox: VecDeque<DeliveryEvent>,
    waker: Option<Waker>,
    /// The method that content belongs to, and what has come of it.
    content: Option<(ContentMethod, Option<Incoming>)>,
    /// For the first delivery that finds no other room.
    pub(super) reserved: Option<Reservation>,
    /// Tags, rising, with what each gives back to the budget.
    unsettled: VecDeque<(u64, usize)>,
    last_tag: u64,
    /// The prefetch of all consumers together.
    allowed: usize,
    /// Consumers that were asked for and that the broker has not ended.
    consumers: usize,
    /// The number of the next publish, in confirm mode.
    next_publish: Option<u64>,
    unconfirmed: VecDeque<Unconfirmed>,
}

#[derive(Debug)]
struct Unconfirmed {
    number: u64,
    /// Exchange and routing key of a mandatory one.
    route: Option<(Box<str>, Box<str>)>,
    returned: Option<(u16, String)>,
    answer: Asker<Confirmation>,
}

impl Slot {
    pub(super) fn new(end: Arc<End>) -> Self {
        Self {
            end,
            closing: false,
            close_answers: Vec::new(),
            questions: VecDeque::new(),
            prefetch: 0,
            inbox: VecDeque::new(),
            waker: None,
            content: None,
            reserved: None,
            unsettled: VecDeque::new(),
            last_tag: 0,
            allowed: 0,
            consumers: 0,
            next_publish: None,
            unconfirmed: VecDeque::new(),
        }
    }

    pub(super) fn is_of(&self, end: &Arc<End>) -> bool {
        Arc::ptr_eq(&self.end, end)
    }

    pub(super) const fn is_closing(&self) -> bool {
        self.closing
    }

    /// Ends it for all that use it.
    pub(super) fn end(&mut self, reason: &AmqpError, budget: &Budget) {
        let reason = self.end.get_or_init(|| reason.clone());
        for (_, answer) in self.questions.drain(..) {
            drop(answer.send(Err(reason.clone())));
        }
        for unconfirmed in self.unconfirmed.drain(..) {
            drop(unconfirmed.answer.send(Err(reason.clone())));
        }
        if let Some((_, Some(incoming))) = self.content.take() {
            incoming.abandon(budget);
        }
        self.inbox.clear();
        self.reserved = None;
        budget.give(self.unsettled.drain(..).map(|(_, counted)| counted).sum(), Place::Within);
        self.wake();
    }

    /// Tells those that closed it.
    pub(super) fn closed(&mut self, result: &Result<(), AmqpError>) {
        for answer in self.close_answers.drain(..) {
            drop(answer.send(result.clone()));
        }
    }

    /// Begins to close it; whether it had not begun before.
    pub(super) fn close(&mut self, answer: Option<Asker<()>>, budget: &Budget) -> bool {
        self.close_answers.extend(answer);
        self.end(&AmqpError::ClosedByUs, budget);
        !std::mem::replace(&mut self.closing, true)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn next(&mut self, waker: Option<&Waker>) -> Option<DeliveryEvent> {
        let event = self.inbox.pop_front();
        if event.is_none() {
            self.waker = waker.cloned();
        }
        event
    }

    // Questions.

    pub(super) fn may_ask(&self) -> Result<(), AmqpError> {
        if self.questions.len() < QUESTIONS {
            Ok(())
        } else {
            Err(AmqpError::Busy { what: "questions", most: QUESTIONS })
        }
    }

    pub(super) fn asked(&mut self, reply: Reply, answer: Asker<Answer>) {
        self.questions.push_back((reply, answer));
    }

    pub(super) fn expect_consumer(&mut self) -> Result<(), AmqpError> {
        if self.prefetch == 0 {
            return Err(AmqpError::Busy { what: "consumers without a prefetch", most: 0 });
        }
        self.allowed += usize::from(self.prefetch);
        self.consumers += 1;
        Ok(())
    }

    // Settlement.

    /// Takes a delivery off the unsettled ones, with `multiple` those before it too; what that gives back.
    pub(super) fn settled(&mut self, tag: u64, multiple: bool) -> Result<usize, AmqpError> {
        let at = self.unsettled.binary_search_by_key(&tag, |(tag, _)| *tag);
        let at = at.map_err(|_| AmqpError::UnknownTag { tag })?;
        if multiple {
            Ok(self.unsettled.drain(..=at).map(|(_, counted)| counted).sum())
        } else {
            Ok(self.unsettled.remove(at).map_or(0, |(_, counted)| counted))
        }
    }

    // Publishing.

    pub(super) fn confirms(&mut self) {
        self.next_publish.get_or_insert(1);
    }

    pub(super) fn may_publish(&self) -> Result<Room, AmqpError> {
        if self.next_publish.is_none() {
            return Err(AmqpError::Busy { what: "publishes without confirm mode", most: 0 });
        }
        Ok(if self.unconfirmed.len() < UNCONFIRMED { Room::Some } else { Room::None })
    }

    pub(super) fn published(&mut self, route: Option<(&str, &str)>, answer: Asker<Confirmation>) {
        let number = self.next_publish.unwrap_or(1);
        self.next_publish = Some(number + 1);
        let route = route.map(|(exchange, routing_key)| (exchange.into(), routing_key.into()));
        self.unconfirmed.push_back(Unconfirmed { number, route, returned: None, answer });
    }

    fn confirmed(&mut self, number: u64, multiple: bool, taken: bool) {
        let end = self.unconfirmed.partition_point(|unconfirmed| unconfirmed.number <= number);
        let range = if multiple && number == 0 {
            0..self.unconfirmed.len()
        } else if multiple {
            0..end
        } else {
            let last = end.checked_sub(1);
            let known =
                last.and_then(|at| self.unconfirmed.get(at)).is_some_and(|open| open.number == number);
            if known { end - 1..end } else { 0..0 }
        };
        for unconfirmed in self.unconfirmed.drain(range) {
            let confirmation = match unconfirmed.returned {
                _ if !taken => Confirmation::Nacked,
                Some((code, text)) => Confirmation::Returned { code, text },
                None => Confirmation::Acked,
            };
            drop(unconfirmed.answer.send(Ok(confirmation)));
        }
    }

    /// The broker does not say which publish it returns, only where that was for. All that are open and for there count
    /// as returned: that may repeat one, but loses none.
    fn returned(&mut self, code: u16, text: &[u8], exchange: &[u8], routing_key: &[u8]) {
        for unconfirmed in &mut self.unconfirmed {
            let same = unconfirmed
                .route
                .as_ref()
                .is_some_and(|(to, by)| to.as_bytes() == exchange && by.as_bytes() == routing_key);
            if same {
                unconfirmed.returned = Some((code, text_of(text)));
            }
        }
    }

    // What comes in.

    pub(super) fn method(&mut self, method: Method, budget: &Budget) -> Result<Taken, Malformed> {
        match method {
            Method::Channel(ChannelMethod::Close(closed)) => {
                self.end(&AmqpError::ChannelClosed(Close::new(&closed)), budget);
                Ok(Taken::Closed { ours: self.closing })
            }
            Method::Channel(ChannelMethod::CloseOk) if self.closing => Ok(Taken::CloseOk),
            // What was on its way when we closed is of no use.
            _ if self.closing => Ok(Taken::Done),
            _ if self.content.is_some() => Err(Malformed::Order("method within content")),
            Method::Answer(answer) => self.answered(answer),
            Method::Content(method) => {
                self.content = Some((method, None));
                Ok(Taken::Done)
            }
            Method::Channel(method) => self.told(method),
            Method::Connection(_) => Err(Malformed::Order("method of the connection")),
        }
    }

    fn answered(&mut self, answer: Answer) -> Result<Taken, Malformed> {
        match self.questions.pop_front() {
            Some((due, asker)) if due == answer.reply() => {
                // The asker may have given up.
                drop(asker.send(Ok(answer)));
                Ok(Taken::Done)
            }
            Some(_) | None => Err(Malformed::Order("answer")),
        }
    }

    fn told(&mut self, method: ChannelMethod) -> Result<Taken, Malformed> {
        match method {
            ChannelMethod::Ack { tag, multiple } => self.confirmed(tag, multiple, true),
            ChannelMethod::Nack { tag, multiple } => self.confirmed(tag, multiple, false),
            ChannelMethod::Cancel { tag, no_wait } => {
                self.consumers = self.consumers.checked_sub(1).ok_or(Malformed::Order("cancellation"))?;
                self.inbox.push_back(DeliveryEvent::Cancelled);
                self.wake();
                if !no_wait {
                    return Ok(Taken::Cancelled { tag });
                }
            }
            ChannelMethod::Flow { active } => return Ok(Taken::Flow { active }),
            ChannelMethod::Close(_) | ChannelMethod::CloseOk => return Err(Malformed::Order("close-ok")),
        }
        Ok(Taken::Done)
    }

    /// A header frame, or the start of one of `long` bytes.
    pub(super) fn header(
        &mut self,
        payload: Bytes,
        long: Option<u32>,
        budget: &Budget,
    ) -> Result<(), Malformed> {
        let Some((method, incoming @ None)) = &mut self.content else {
            return Err(Malformed::Order("content header"));
        };
        let wanted = matches!(method, ContentMethod::Deliver { .. });
        *incoming = Some(Incoming::new(payload, long, wanted, &mut self.reserved, budget)?);
        self.finish_content(budget)
    }

    pub(super) fn body(&mut self, payload: Bytes, budget: &Budget) -> Result<(), Malformed> {
        let Some((_, Some(incoming))) = &mut self.content else {
            return Err(Malformed::Order("body frame"));
        };
        incoming.add(payload)?;
        self.finish_content(budget)
    }

    fn finish_content(&mut self, budget: &Budget) -> Result<(), Malformed> {
        if !matches!(&self.content, Some((_, Some(incoming))) if incoming.is_complete()) {
            return Ok(());
        }
        let Some((method, Some(incoming))) = self.content.take() else { return Ok(()) };
        match method {
            ContentMethod::Deliver { tag, redelivered, exchange, routing_key } => {
                let Content { properties, body, counted } = incoming.complete(budget);
                let due = NonZeroU64::new(tag).filter(|tag| tag.get() > self.last_tag);
                let full = self.unsettled.len() >= self.allowed;
                // Kept also of one that ends the connection: with that all is given back.
                self.unsettled.push_back((tag, counted));
                let tag = due.ok_or(Malformed::Tag { tag, last: self.last_tag })?;
                if full {
                    return Err(Malformed::Prefetch { most: self.allowed });
                }
                self.last_tag = tag.get();
                let message = RawDelivery { tag, redelivered, exchange, routing_key, properties, body };
                self.inbox.push_back(DeliveryEvent::Message(message));
                self.wake();
            }
            ContentMethod::Return { code, text, exchange, routing_key } => {
                self.returned(code, &text, &exchange, &routing_key);
                incoming.abandon(budget);
            }
        }
        Ok(())
    }
}
