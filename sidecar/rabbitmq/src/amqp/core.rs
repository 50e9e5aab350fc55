//! What is known of one connection: its channels, what goes out, and what waits. No I/O: frames in, frames out.

mod content;
mod handles;
mod slot;

use std::{collections::BTreeMap, sync::Arc, task::Waker};

use bytes::BytesMut;
use tokio::{sync::oneshot, time::Instant};

pub(super) use self::handles::{Publish, Settle};
use self::slot::{Slot, Taken};
use super::{
    AmqpError, Budget, Close, Malformed,
    codec::{Call, ConnectionCall, ConnectionMethod, Frame, FrameReader, Kind, Method, OVERHEAD, text_of},
    connection::give_up_at,
    outbox::Outbox,
};

/// Where an answer goes.
pub(super) type Asker<T> = oneshot::Sender<Result<T, AmqpError>>;

/// Where an answer comes.
pub(super) type Due<T> = oneshot::Receiver<Result<T, AmqpError>>;

/// Where a connection is in its life.
#[derive(Debug)]
enum Life {
    Open,
    /// We said that we close it; given up at the moment.
    Closing(Instant),
    /// The broker closed it, and our answer is being written; given up at the moment.
    Ending(AmqpError, Instant),
    Ended(AmqpError),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Core {
    out: Outbox,
    reader: FrameReader,
    /// The longest payload of a frame that we may send.
    payload_most: usize,
    channels_most: u16,
    last_channel: u16,
    channels: BTreeMap<u16, Slot>,
    life: Life,
    blocked: Option<Arc<str>>,
    budget: Budget,
    read_at: Instant,
    /// Of the task that writes.
    waker: Option<Waker>,
}

impl Core {
    pub(super) fn new(channels: u16, frame: u32, budget: Budget) -> Self {
        Self {
            out: Outbox::default(),
            reader: FrameReader::new(frame),
            payload_most: frame.saturating_sub(OVERHEAD) as usize,
            channels_most: channels,
            last_channel: 0,
            channels: BTreeMap::new(),
            life: Life::Open,
            blocked: None,
            budget,
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

    pub(super) fn out(&mut self) -> &mut Outbox {
        &mut self.out
    }

    /// How many more bytes complete the frame that has begun.
    pub(super) fn missing(&self, input: &[u8]) -> usize {
        self.reader.missing(input)
    }

    pub(super) fn last_read(&self) -> Instant {
        self.read_at
    }

    /// Why the connection has ended for those that use it.
    pub(super) fn ended(&self) -> Option<AmqpError> {
        match &self.life {
            Life::Open => None,
            Life::Closing(_) => Some(AmqpError::ClosedByUs.afterwards()),
            Life::Ending(reason, _) | Life::Ended(reason) => Some(reason.afterwards()),
        }
    }

    /// The broker's reason while it takes no messages.
    pub(super) fn blocked(&self) -> Option<&Arc<str>> {
        self.blocked.as_ref()
    }

    /// When a connection that is being closed is given up.
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        match &self.life {
            Life::Closing(at) | Life::Ending(_, at) => Some(*at),
            Life::Open | Life::Ended(_) => None,
        }
    }

    /// Why the connection ends now that all is written, or that it is given up.
    pub(super) fn reason_to_end(&self) -> Option<AmqpError> {
        match &self.life {
            Life::Ending(reason, _) => Some(reason.clone()),
            Life::Open | Life::Closing(_) | Life::Ended(_) => None,
        }
    }

    /// Appends a sign of life.
    pub(super) fn heartbeat(&mut self) {
        super::codec::frame(self.out.tail(), Kind::Heartbeat, 0, |_| {});
    }

    /// The connection is gone: tells all that wait.
    pub(super) fn finish(&mut self, reason: &AmqpError) {
        self.out.clear();
        self.life = Life::Ended(reason.clone());
        self.waker = None;
        for (_, mut slot) in std::mem::take(&mut self.channels) {
            slot.end(reason, &self.budget);
            slot.closed(&Err(reason.clone()));
        }
    }

    /// Takes all frames that are whole.
    ///
    /// # Errors
    /// The connection has ended, or can't be used any more.
    pub(super) fn take_frames(&mut self, input: &mut BytesMut, now: Instant) -> Result<(), AmqpError> {
        self.read_at = now;
        while let Some(frame) = self.reader.next(input)? {
            match frame {
                Frame::Whole { kind: Kind::Heartbeat, .. } => {}
                Frame::Whole { kind: Kind::Method, channel, payload } => {
                    match (channel, Method::parse(payload)?) {
                        (0, Method::Connection(method)) => self.connection_method(&method, now)?,
                        (1.., method) => self.method(channel, method)?,
                        (0, _) => return Err(Malformed::Order("method on channel 0").into()),
                    }
                }
                Frame::Whole { kind: Kind::Header, channel, payload } => {
                    let budget = self.budget.clone();
                    self.content(channel, |slot| slot.header(payload, None, &budget))?;
                }
                Frame::LongHeader { channel, start, size } => {
                    let budget = self.budget.clone();
                    self.content(channel, |slot| slot.header(start, Some(size), &budget))?;
                }
                Frame::Whole { kind: Kind::Body, channel, payload } => {
                    let budget = self.budget.clone();
                    self.content(channel, |slot| slot.body(payload, &budget))?;
                }
            }
        }
        Ok(())
    }

    fn connection_method(&mut self, method: &ConnectionMethod, now: Instant) -> Result<(), AmqpError> {
        match method {
            ConnectionMethod::Close(closed) => {
                let reason = AmqpError::ClosedByServer(Close::new(closed));
                self.send_on_connection(ConnectionCall::CloseOk);
                for slot in self.channels.values_mut() {
                    slot.end(&reason, &self.budget);
                }
                self.life = Life::Ending(reason, give_up_at(now));
            }
            ConnectionMethod::CloseOk if matches!(self.life, Life::Closing(_)) => {
                return Err(AmqpError::ClosedByUs);
            }
            ConnectionMethod::Blocked { reason } => self.blocked = Some(text_of(reason).into()),
            ConnectionMethod::Unblocked => self.blocked = None,
            ConnectionMethod::Start { .. }
            | ConnectionMethod::Tune { .. }
            | ConnectionMethod::OpenOk
            | ConnectionMethod::CloseOk => {
                return Err(Malformed::Order("method on channel 0").into());
            }
        }
        Ok(())
    }

    fn content(
        &mut self,
        channel: u16,
        take: impl FnOnce(&mut Slot) -> Result<(), Malformed>,
    ) -> Result<(), AmqpError> {
        match self.channels.get_mut(&channel) {
            // What was on its way when we closed is of no use.
            Some(slot) if slot.is_closing() => Ok(()),
            Some(slot) if matches!(self.life, Life::Open) => Ok(take(slot)?),
            None if matches!(self.life, Life::Open) => Err(Malformed::Channel(channel).into()),
            Some(_) | None => Ok(()),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.life, Life::Open)
    }

    fn method(&mut self, channel: u16, method: Method) -> Result<(), AmqpError> {
        // What was on its way when the connection was closed is of no use.
        let slot = self.channels.get_mut(&channel).filter(|_| matches!(self.life, Life::Open));
        let Some(slot) = slot else {
            return if self.is_open() { Err(Malformed::Channel(channel).into()) } else { Ok(()) };
        };
        match slot.method(method, &self.budget)? {
            Taken::Done => {}
            Taken::Flow { active } => self.send(channel, Call::FlowOk { active })?,
            Taken::Cancelled { tag } => self.send(channel, Call::CancelOk { tag: &tag })?,
            // Both sides close at once: the broker answers ours too.
            Taken::Closed { ours: true } => self.send(channel, Call::CloseOk)?,
            Taken::Closed { ours: false } => {
                self.channels.remove(&channel);
                self.send(channel, Call::CloseOk)?;
            }
            Taken::CloseOk => {
                if let Some(mut slot) = self.channels.remove(&channel) {
                    slot.closed(&Ok(()));
                }
            }
        }
        Ok(())
    }

    // What both ask.

    fn send(&mut self, channel: u16, call: Call<'_>) -> Result<(), AmqpError> {
        call.write(channel, self.out.tail()).ok_or(AmqpError::TooLong { what: "a name or argument" })?;
        self.wake();
        Ok(())
    }

    /// Only for methods without a text that could be too long.
    fn send_on_connection(&mut self, call: ConnectionCall<'_>) {
        call.write(self.out.tail()).expect("a close must fit into a frame");
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
