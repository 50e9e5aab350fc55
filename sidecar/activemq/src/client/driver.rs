use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWrite},
    time::{Instant, Sleep, sleep_until},
};
use tracing::debug;

use super::{ClientError, dial::Stream, shared::Shared};

/// With more than this unwritten, nothing is read: a peer that asks and never listens would fill the memory.
const WRITE_BACKLOG: usize = 4 * 1024 * 1024;

/// Room for reading at least: what the smallest kept message may hold of the buffer.
const READ_LEAST: usize = 32 * 1024;

/// Room for reading at most, also for a frame that is said to be larger: memory follows what has really come.
const READ_MOST: usize = 256 * 1024;

/// The task of one connection: reads, writes, and watches for silence.
pub(super) struct Driver {
    shared: Arc<Shared>,
    stream: Box<dyn Stream>,
    input: BytesMut,
    /// The longest time without a sign of life, as agreed.
    inactivity: Duration,
    /// When anything was last written.
    sent: Instant,
    /// When the peer last took something, or there was nothing to take.
    progress: Instant,
    /// What was last read when a sign of life was asked for.
    probed: Option<Instant>,
    unflushed: bool,
    alarm: Pin<Box<Sleep>>,
}

impl Driver {
    /// Takes over a stream on which both sides have agreed; `input` is what was read beyond that.
    pub(super) fn new(
        shared: Arc<Shared>,
        stream: Box<dyn Stream>,
        input: BytesMut,
        inactivity: Duration,
    ) -> Self {
        let now = Instant::now();
        let alarm = Box::pin(sleep_until(now + inactivity / 3));
        Self {
            shared,
            stream,
            input,
            inactivity,
            sent: now,
            progress: now,
            probed: None,
            unflushed: false,
            alarm,
        }
    }

    /// Runs until the connection ends, and tells all that wait on it.
    pub(super) async fn run(mut self) {
        let reason = match self.take_frames() {
            Ok(()) => poll_fn(|context| self.poll(context)).await,
            Err(reason) => reason,
        };
        // Whether the peer hangs up after our farewell or resets is the same to us.
        let reason = self.shared.core().farewell().unwrap_or(reason);
        debug!(%reason, "connection ended");
        self.shared.core().finish(&reason);
        self.shared.ended.send_replace(Some(reason));
    }

    /// Goes on as far as it can; ready when the connection has ended.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<ClientError> {
        self.shared.core().watch(context.waker());
        loop {
            // Reading comes before the deadlines: after a freeze, what lies in the socket counts first.
            let read = self.read(context);
            match read.and_then(|read| Ok(self.write(context)? || read)) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(reason) => return Poll::Ready(reason),
            }
            match self.expire(Instant::now()) {
                Ok(Some(deadline)) if deadline < self.alarm.deadline() || self.alarm.is_elapsed() => {
                    self.alarm.as_mut().reset(deadline);
                }
                Ok(Some(_)) => {}
                Ok(None) => continue,
                Err(reason) => return Poll::Ready(reason),
            }
            ready!(self.alarm.as_mut().poll(context));
        }
    }

    /// Whether anything was read.
    fn read(&mut self, context: &mut Context<'_>) -> Result<bool, ClientError> {
        let (backlog, missing) = {
            let core = self.shared.core();
            (core.out().len(), core.missing(&self.input))
        };
        if backlog >= WRITE_BACKLOG {
            return Ok(false);
        }
        self.input.reserve(missing.clamp(READ_LEAST, READ_MOST));
        match pin!(self.stream.read_buf(&mut self.input)).poll(context) {
            Poll::Ready(Ok(0)) => Err(ClientError::ClosedByPeer),
            Poll::Ready(Ok(_)) => self.take_frames().map(|()| true),
            Poll::Ready(Err(error)) => Err(failed(error)),
            Poll::Pending => Ok(false),
        }
    }

    fn take_frames(&mut self) -> Result<(), ClientError> {
        self.shared.core().take_frames(&mut self.input, Instant::now())
    }

    /// Whether anything was written.
    fn write(&mut self, context: &mut Context<'_>) -> Result<bool, ClientError> {
        let mut core = self.shared.core();
        if core.out().is_empty() {
            self.progress = Instant::now();
            if self.unflushed {
                match Pin::new(&mut self.stream).poll_flush(context) {
                    Poll::Ready(Ok(())) => self.unflushed = false,
                    Poll::Ready(Err(error)) => return Err(failed(error)),
                    Poll::Pending => return Ok(false),
                }
            }
            return core.reason_to_end().map_or(Ok(false), Err);
        }
        match Pin::new(&mut self.stream).poll_write(context, core.out()) {
            Poll::Ready(Ok(0)) => Err(ClientError::ClosedByPeer),
            Poll::Ready(Ok(count)) => {
                core.written(count);
                self.unflushed = true;
                self.sent = Instant::now();
                self.progress = self.sent;
                Ok(true)
            }
            Poll::Ready(Err(error)) => Err(failed(error)),
            Poll::Pending => Ok(false),
        }
    }

    /// Does what is due, and says when something is next; `None` when there is something to write now.
    fn expire(&mut self, now: Instant) -> Result<Option<Instant>, ClientError> {
        let after = 2 * self.inactivity;
        let mut core = self.shared.core();
        if core.gives_up_at().is_some_and(|at| now >= at) {
            return Err(core.reason_to_end().unwrap_or(ClientError::ClosedByUs));
        }
        let read = core.last_read();
        let silent_at = read + after;
        if now >= silent_at {
            return Err(ClientError::SilentBroker { after });
        }
        let waits = !core.out().is_empty();
        let stalled_at = waits.then_some(self.progress + after);
        if stalled_at.is_some_and(|at| now >= at) {
            return Err(ClientError::WriteStalled { after });
        }
        // A broker whose monitor is off gives no sign of life by itself.
        let probe_at = (self.probed != Some(read)).then_some(read + self.inactivity);
        if probe_at.is_some_and(|at| now >= at) {
            self.probed = Some(read);
            core.probe();
            return Ok(None);
        }
        if now >= self.sent + self.inactivity / 3 {
            self.sent = now;
            // What waits to be written is a sign of life when it goes out.
            if !waits {
                core.keep_alive();
                return Ok(None);
            }
        }
        let beat_at = self.sent + self.inactivity / 3;
        let others = [stalled_at, probe_at, core.gives_up_at()].into_iter().flatten();
        Ok(Some(others.fold(beat_at.min(silent_at), Instant::min)))
    }
}

fn failed(error: io::Error) -> ClientError {
    ClientError::Io(Arc::new(error))
}
