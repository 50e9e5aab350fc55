//! What is known of one connection: its consumers, what goes out, and what waits. No I/O: frames in, frames out.

mod slot;

use std::{
    collections::BTreeMap,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use lockstep_openwire::Destination;
use tokio::{sync::oneshot, time::Instant};
use tracing::{debug, warn};

use self::slot::Slot;
use super::{
    Ack, Budget, ClientError, DeliveryEvent, Outgoing, Subscription,
    answer::{Asker, Due},
    connection::give_up_at,
    frames::{Frame, FrameReader},
    incoming::{self, Incoming},
    wire::{DELIVERED_UNKNOWN, Wire},
};

/// Whom an answer is for.
#[derive(Debug)]
enum Waiting {
    /// Whoever asked.
    Asker(Asker),
    /// A consumer, which ends when the answer is an exception.
    Consumer(i64),
    /// The end of the connection.
    Close,
}

/// Where a connection is in its life.
#[derive(Debug)]
enum Life {
    Open,
    /// We said that we close it; given up at the moment.
    Closing(Instant),
    /// The broker has said that it is closed, and our farewell is being written; given up at the moment.
    Leaving(Instant),
    Ended(ClientError),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Core {
    wire: Wire,
    out: BytesMut,
    frames: FrameReader,
    budget: Budget,
    last_command: i32,
    last_consumer: i64,
    last_temp: u32,
    has_producer: bool,
    last_message: i64,
    waiting: BTreeMap<i32, Waiting>,
    consumers: BTreeMap<i64, Slot>,
    life: Life,
    read_at: Instant,
    /// Of the task that writes.
    waker: Option<Waker>,
}

impl Core {
    pub(super) fn new(wire: Wire, last_command: i32, frames: FrameReader, budget: Budget) -> Self {
        Self {
            wire,
            out: BytesMut::new(),
            frames,
            budget,
            last_command,
            last_consumer: 0,
            last_temp: 0,
            has_producer: false,
            last_message: 0,
            waiting: BTreeMap::new(),
            consumers: BTreeMap::new(),
            life: Life::Open,
            read_at: Instant::now(),
            waker: None,
        }
    }

    // What the task of the connection asks.

    /// Whom to wake when there is something to write.
    pub(super) fn watch(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    /// What is to be written.
    pub(super) fn out(&self) -> &[u8] {
        &self.out
    }

    /// Drops what was written of [`Core::out`].
    pub(super) fn written(&mut self, count: usize) {
        self.out.advance(count.min(self.out.len()));
    }

    /// How many more bytes complete the frame that has begun.
    pub(super) fn missing(&self, input: &[u8]) -> usize {
        self.frames.missing(input)
    }

    pub(super) fn last_read(&self) -> Instant {
        self.read_at
    }

    /// Why the connection has ended for those that use it.
    pub(super) fn ended(&self) -> Option<ClientError> {
        match &self.life {
            Life::Open => None,
            Life::Closing(_) | Life::Leaving(_) => Some(ClientError::ClosedByUs.afterwards()),
            Life::Ended(reason) => Some(reason.afterwards()),
        }
    }

    /// When a connection that is being closed is given up.
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        match &self.life {
            Life::Closing(at) | Life::Leaving(at) => Some(*at),
            Life::Open | Life::Ended(_) => None,
        }
    }

    /// Why the connection ends now that all is written, or that it is given up.
    pub(super) fn reason_to_end(&self) -> Option<ClientError> {
        match &self.life {
            Life::Leaving(_) => Some(ClientError::ClosedByUs),
            Life::Open | Life::Closing(_) | Life::Ended(_) => None,
        }
    }

    /// Why a connection that we close ends, however it ends.
    pub(super) fn farewell(&self) -> Option<ClientError> {
        match &self.life {
            Life::Closing(_) | Life::Leaving(_) => Some(ClientError::ClosedByUs),
            Life::Open | Life::Ended(_) => None,
        }
    }

    /// Appends a sign of life.
    pub(super) fn keep_alive(&mut self) {
        self.wire.keep_alive(&mut self.out);
    }

    /// Appends what the broker answers.
    pub(super) fn probe(&mut self) {
        let command = self.next_command();
        self.wire.session(&mut self.out, command);
    }

    /// The connection is gone: tells all that wait.
    pub(super) fn finish(&mut self, reason: &ClientError) {
        self.out.clear();
        self.life = Life::Ended(reason.clone());
        self.waker = None;
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            if let Waiting::Asker(asker) = waiting {
                // Nobody waits any more.
                let _: Result<(), _> = asker.send(Err(reason.clone()));
            }
        }
        for slot in self.consumers.values_mut() {
            slot.end(reason);
        }
    }

    /// Takes all frames that are whole.
    ///
    /// # Errors
    /// The connection has ended, or can't be used any more.
    pub(super) fn take_frames(&mut self, input: &mut BytesMut, now: Instant) -> Result<(), ClientError> {
        self.read_at = now;
        while let Some(frame) = self.frames.next(input)? {
            let incoming = match frame {
                Frame::Whole(bytes) => incoming::read(bytes, &self.budget)?,
                Frame::Long(long) => incoming::read_long(long, &self.budget)?,
            };
            self.take(incoming, now)?;
        }
        Ok(())
    }

    fn take(&mut self, incoming: Incoming, now: Instant) -> Result<(), ClientError> {
        match incoming {
            Incoming::Answer { command, result } => self.answered(command, result, now),
            Incoming::Delivery { consumer, event } => self.deliver(consumer, event)?,
            Incoming::KeepAlive { answer: true } => self.keep_alive(),
            Incoming::Failed { exception, whole: true } => return Err(ClientError::of_exception(exception)),
            Incoming::Failed { exception, whole: false } => {
                warn!(%exception, "the broker reports a failure without saying of what: all consumers end");
                let reason = ClientError::of_exception(exception);
                for slot in self.consumers.values_mut() {
                    slot.end(&reason);
                }
            }
            Incoming::Note(what) => debug!("the broker sends {what}"),
            Incoming::KeepAlive { answer: false } | Incoming::Broker(_) | Incoming::WireFormat(_) => {}
        }
        Ok(())
    }

    fn answered(&mut self, command: i32, result: Result<(), ClientError>, now: Instant) {
        match self.waiting.remove(&command) {
            Some(Waiting::Asker(asker)) => {
                // Nobody waits any more.
                let _: Result<(), _> = asker.send(result);
            }
            Some(Waiting::Consumer(number)) => {
                if let (Some(slot), Err(reason)) = (self.consumers.get_mut(&number), result) {
                    slot.end(&reason);
                }
            }
            Some(Waiting::Close) => {
                let command = self.next_command();
                self.wire.shutdown(&mut self.out, command);
                self.life = Life::Leaving(give_up_at(now));
            }
            None => {}
        }
    }

    fn deliver(&mut self, consumer: i64, event: DeliveryEvent) -> Result<(), ClientError> {
        // What was on its way when we closed a consumer goes back to the queue by itself.
        let Some(slot) = self.consumers.get_mut(&consumer).filter(|slot| slot.ended().is_none()) else {
            return Ok(());
        };
        slot.arrived(event)
    }

    // What the handles ask.

    fn next_command(&mut self) -> i32 {
        // 0 stands for no command.
        self.last_command = self.last_command.checked_add(1).unwrap_or(1);
        self.last_command
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn check_open(&self) -> Result<(), ClientError> {
        self.ended().map_or(Ok(()), Err)
    }

    /// The consumer that a handle is for, while it can be used.
    fn slot(&mut self, number: i64) -> Result<&mut Slot, ClientError> {
        self.check_open()?;
        let slot = self.consumers.get_mut(&number).ok_or_else(|| ClientError::ClosedByUs.afterwards())?;
        if let Some(end) = slot.ended() { Err(end.afterwards()) } else { Ok(slot) }
    }

    /// Sends a command; its answer comes on the receiver.
    fn ask(
        &mut self,
        write: impl FnOnce(&Wire, &mut BytesMut, i32) -> Result<(), ClientError>,
    ) -> Result<Due, ClientError> {
        self.check_open()?;
        let command = self.next_command();
        write(&self.wire, &mut self.out, command)?;
        let (asker, due) = oneshot::channel();
        self.waiting.insert(command, Waiting::Asker(asker));
        self.wake();
        Ok(due)
    }

    /// Sends a command whose refusal ends a consumer.
    fn tell(
        &mut self,
        number: i64,
        write: impl FnOnce(&Wire, &mut BytesMut, i32, &Destination) -> Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        let destination = self.slot(number)?.destination().clone();
        let command = self.next_command();
        write(&self.wire, &mut self.out, command, &destination)?;
        self.waiting.insert(command, Waiting::Consumer(number));
        self.wake();
        Ok(())
    }

    /// Begins to close the connection.
    pub(super) fn close(&mut self, now: Instant) {
        if self.ended().is_some() {
            return;
        }
        for slot in self.consumers.values_mut() {
            slot.end(&ClientError::ClosedByUs);
        }
        let command = self.next_command();
        self.wire.remove_connection(&mut self.out, command);
        self.waiting.insert(command, Waiting::Close);
        self.life = Life::Closing(give_up_at(now));
        self.wake();
    }

    pub(super) fn alive(&mut self) -> Result<Due, ClientError> {
        self.ask(|wire, out, command| {
            wire.session(out, command);
            Ok(())
        })
    }

    pub(super) fn consume(&mut self, subscription: Subscription) -> Result<(i64, Due), ClientError> {
        let number = self.last_consumer + 1;
        let due = self.ask(|wire, out, command| wire.consumer(out, command, number, &subscription))?;
        self.last_consumer = number;
        self.consumers.insert(number, Slot::new(subscription.destination));
        Ok((number, due))
    }

    pub(super) fn pull(&mut self, number: i64, timeout: Duration) -> Result<(), ClientError> {
        self.tell(number, |wire, out, command, from| wire.pull(out, command, number, from, timeout))
    }

    pub(super) fn set_prefetch(&mut self, number: i64, count: u32) -> Result<(), ClientError> {
        self.tell(number, |wire, out, command, from| wire.prefetch(out, command, number, from, count))
    }

    pub(super) fn ack(&mut self, number: i64, ack: Ack) -> Result<Due, ClientError> {
        self.slot(number)?;
        self.ask(|wire, out, command| wire.ack(out, command, number, ack))
    }

    /// A consumer that never was.
    pub(super) fn forget(&mut self, number: i64) {
        self.consumers.remove(&number);
    }

    /// Closes a consumer; the answer says when the broker has.
    pub(super) fn close_consumer(&mut self, number: i64, last: i64) -> Result<Due, ClientError> {
        self.check_open()?;
        if self.consumers.remove(&number).is_none() {
            return Err(ClientError::ClosedByUs.afterwards());
        }
        self.ask(|wire, out, command| {
            wire.remove_consumer(out, command, number, last);
            Ok(())
        })
    }

    /// Closes a consumer whose handles are gone.
    pub(super) fn leave(&mut self, number: i64) {
        if self.consumers.contains_key(&number) {
            // Nobody waits for the answer, and without one the broker's objection would end all consumers.
            let _: Result<Due, ClientError> = self.close_consumer(number, DELIVERED_UNKNOWN);
        }
    }

    pub(super) fn temp_queue(&mut self) -> Result<(Destination, Due), ClientError> {
        self.last_temp += 1;
        let queue = self.wire.temp_queue(self.last_temp);
        let due = self.ask(|wire, out, command| wire.create(out, command, &queue))?;
        Ok((queue, due))
    }

    pub(super) fn publish(&mut self, message: Outgoing) -> Result<Due, ClientError> {
        self.check_open()?;
        if !self.has_producer {
            let command = self.next_command();
            self.wire.producer(&mut self.out, command);
            self.has_producer = true;
        }
        self.last_message += 1;
        let sequence = self.last_message;
        self.ask(|wire, out, command| wire.message(out, command, sequence, message))
    }

    /// The next that came to a consumer.
    pub(super) fn poll_delivery(&mut self, number: i64, context: &mut Context<'_>) -> Poll<DeliveryEvent> {
        if let Some(event) = self.next_delivery(number) {
            return Poll::Ready(event);
        }
        if let Some(slot) = self.consumers.get_mut(&number) {
            slot.watch(context.waker());
        }
        Poll::Pending
    }

    pub(super) fn next_delivery(&mut self, number: i64) -> Option<DeliveryEvent> {
        let Some(slot) = self.consumers.get_mut(&number) else {
            let reason = match &self.life {
                Life::Ended(reason) => reason.clone(),
                Life::Open | Life::Closing(_) | Life::Leaving(_) => ClientError::ClosedByUs,
            };
            return Some(DeliveryEvent::Closed(reason));
        };
        slot.next()
    }
}
