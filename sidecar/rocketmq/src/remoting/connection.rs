use std::{collections::VecDeque, future::pending, io, sync::Arc, time::Duration};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};

use super::{
    CallError, Event, Lost, Responder,
    call::{Outgoing, Submission},
    certainty,
    pending::{Pending, Waiting},
};
use crate::{
    codec::{self, Command, Credentials, HeaderEncoding},
    protocol::{BrokerRequest, ResponseCode},
};

/// Requests are gathered into one write up to this size; then the network has to take some first.
const WRITE_GATHER: usize = 64 * 1024;

/// With more than this unwritten, nothing is read: a peer that asks and never listens would fill the memory.
const WRITE_BACKLOG: usize = 1024 * 1024;

/// A peer that takes nothing for so long while something is to be written is not there any more; without this, one
/// that asks and never listens would keep its connection, and all that is to be sent on it, for ever.
const WRITE_STALL: Duration = Duration::from_secs(4);

/// Room for reading at least.
const READ_LEAST: usize = 16 * 1024;

/// Room for reading at most, also for a frame that is said to be larger: memory follows what has really come.
const READ_MOST: usize = 512 * 1024;

/// Brokers' requests that wait for the event channel.
const MAX_ASKED: usize = 64;

/// Codes that brokers send to producers only: a transaction's state, and a reply to a request.
const CHECK_TRANSACTION_STATE: i32 = 39;
const PUSH_REPLY_MESSAGE: i32 = 326;

/// What became of a connection, as a step of serving it sees it.
type Step = Result<(), Lost>;

/// One open connection: gathers requests into writes, gives replies to their callers, and watches for silence.
pub(super) struct Connection {
    address: Arc<str>,
    id: u64,
    encoding: HeaderEncoding,
    credentials: Option<Credentials>,
    own: mpsc::WeakSender<Submission>,
    pending: Pending,
    /// Encoded and not yet written.
    out: BytesMut,
    /// All bytes written so far.
    written: u64,
    /// When the peer last took something, or there was nothing to take.
    progress: Instant,
    /// Requests without reply, with the end of their frame in all that goes out.
    oneways: VecDeque<(u64, Done)>,
    /// When anything was last received.
    received: Instant,
    useful: bool,
    /// Events that wait for room in their channel.
    events: VecDeque<Event>,
}

type Done = oneshot::Sender<Result<Option<Command>, CallError>>;

impl Connection {
    pub(super) fn new(
        address: Arc<str>,
        id: u64,
        encoding: HeaderEncoding,
        credentials: Option<Credentials>,
        own: mpsc::WeakSender<Submission>,
    ) -> Self {
        let events = VecDeque::from([Event::Up { address: Arc::clone(&address), connection: id }]);
        Self {
            address,
            id,
            encoding,
            credentials,
            own,
            pending: Pending::default(),
            out: BytesMut::new(),
            written: 0,
            progress: Instant::now(),
            oneways: VecDeque::new(),
            received: Instant::now(),
            useful: false,
            events,
        }
    }

    /// Whether the peer ever sent a whole frame.
    pub(super) fn was_useful(&self) -> bool {
        self.useful
    }

    /// Serves until the connection ends, and says why.
    pub(super) async fn serve(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        submissions: &mut mpsc::Receiver<Submission>,
        events: &mpsc::Sender<Event>,
    ) -> Lost {
        let (mut reader, mut writer) = split(stream);
        let mut input = BytesMut::new();
        let mut unflushed = false;
        loop {
            input.reserve(codec::missing(&input).clamp(READ_LEAST, READ_MOST));
            let may_take = self.out.len() < WRITE_GATHER && !self.pending.is_full();
            let deadline = [self.pending.next_deadline(), self.stalled_at()].into_iter().flatten().min();
            // Reading comes first: after a freeze, replies that lie in the socket count before deadlines do.
            let step = tokio::select! {
                biased;
                count = reader.read_buf(&mut input), if self.out.len() < WRITE_BACKLOG => {
                    self.read(count, &mut input)
                }
                room = events.reserve(), if !self.events.is_empty() => {
                    self.tell(room.ok());
                    Ok(())
                }
                count = write(&mut writer, &mut self.out), if unflushed || self.out.has_remaining() => {
                    unflushed = matches!(count, Ok(1..));
                    self.wrote(count)
                }
                submission = submissions.recv(), if may_take => {
                    self.take_all(submission, submissions)
                }
                () = until(deadline) => self.expire(Instant::now()),
            };
            if let Err(lost) = step {
                return lost;
            }
        }
    }

    /// When the peer counts as gone unless it takes something.
    fn stalled_at(&mut self) -> Option<Instant> {
        if self.out.is_empty() {
            self.progress = Instant::now();
            return None;
        }
        Some(self.progress + WRITE_STALL)
    }

    /// Fails what is open, and gives back the events that nobody was told yet.
    pub(super) fn end(&mut self, reason: &Lost) -> VecDeque<Event> {
        let lost = |certainty| CallError::Lost {
            address: Arc::clone(&self.address),
            cause: reason.clone(),
            certainty,
        };
        for waiting in self.pending.drain() {
            drop(waiting.reply.send(Err(lost(certainty(waiting.start < self.written)))));
        }
        for (_, done) in self.oneways.drain(..) {
            drop(done.send(Err(lost(certainty(true)))));
        }
        std::mem::take(&mut self.events)
    }

    fn read(&mut self, count: io::Result<usize>, input: &mut BytesMut) -> Step {
        match count {
            Ok(0) => return Err(Lost::Closed),
            Ok(_) => self.received = Instant::now(),
            Err(error) => return Err(Lost::Io(Arc::new(error))),
        }
        while let Some(command) = codec::decode(input)? {
            self.useful = true;
            if command.is_response() { self.replied(command)? } else { self.asked(&command) }
        }
        Ok(())
    }

    fn replied(&mut self, reply: Command) -> Step {
        let leaving = ResponseCode::from(reply.code) == ResponseCode::GoAway;
        match self.pending.remove(reply.opaque) {
            // A caller that gave up has no use for it.
            Some(waiting) => drop(waiting.reply.send(Ok(Some(reply)))),
            None => debug!(address = %self.address, opaque = reply.opaque, "late or unknown reply dropped"),
        }
        if leaving { Err(Lost::GoAway) } else { Ok(()) }
    }

    /// A request of the broker: what is understood goes to the listener, the rest is answered here.
    fn asked(&mut self, command: &Command) {
        let refusal = match command.code {
            CHECK_TRANSACTION_STATE | PUSH_REPLY_MESSAGE => {
                (ResponseCode::SystemError, "this client only consumes".to_owned())
            }
            _ => match BrokerRequest::parse(command) {
                Some(Ok(request)) if self.events.len() < MAX_ASKED => {
                    let responder = Responder::new(command, self.id, self.own.clone());
                    self.events.push_back(Event::Request {
                        address: Arc::clone(&self.address),
                        request,
                        responder,
                    });
                    return;
                }
                Some(Ok(_)) => (ResponseCode::SystemBusy, "too many requests at once".to_owned()),
                Some(Err(error)) => (ResponseCode::SystemError, error.to_string()),
                None => (ResponseCode::RequestCodeNotSupported, "not supported by this client".to_owned()),
            },
        };
        let (code, remark) = refusal;
        // Not louder: how many there are is up to the broker.
        debug!(address = %self.address, request = command.code, %code, remark, "broker's request refused");
        if !command.is_oneway() {
            self.put(&Command::response(code.number(), command.opaque).remark(remark));
        }
    }

    /// Hands over as many events as there is room for; without a listener all are dropped.
    fn tell(&mut self, room: Option<mpsc::Permit<'_, Event>>) {
        match (room, self.events.pop_front()) {
            (Some(room), Some(event)) => room.send(event),
            (_, _) => self.events.clear(),
        }
    }

    fn take_all(&mut self, first: Option<Submission>, more: &mut mpsc::Receiver<Submission>) -> Step {
        let mut next = first.ok_or(Lost::ByUs)?;
        loop {
            if matches!(next, Submission::Close) {
                return Err(Lost::ByUs);
            }
            self.submit(next);
            if self.out.len() >= WRITE_GATHER || self.pending.is_full() {
                return Ok(());
            }
            match more.try_recv() {
                Ok(submission) => next = submission,
                Err(_) => return Ok(()),
            }
        }
    }

    /// Encodes what is to be sent.
    pub(super) fn submit(&mut self, submission: Submission) {
        match submission {
            Submission::Call(outgoing) => self.send(outgoing),
            Submission::Answer { connection, command } if connection == self.id => self.put(&command),
            Submission::Answer { .. } | Submission::Close => {}
        }
    }

    fn send(&mut self, mut outgoing: Outgoing) {
        let now = Instant::now();
        let too_late = outgoing.not_after.is_some_and(|not_after| now > not_after) || now > outgoing.deadline;
        if too_late || !outgoing.claim.take() {
            let address = Arc::clone(&self.address);
            return outgoing.fail(CallError::TooLate { address });
        }
        outgoing.command.opaque = self.pending.next_opaque();
        if let Some(credentials) = &self.credentials {
            credentials.sign(&mut outgoing.command);
        }
        let start = self.written + self.out.len() as u64;
        if let Err(error) = codec::encode(&outgoing.command, self.encoding, &mut self.out) {
            return outgoing.fail(CallError::Encode(error));
        }
        if outgoing.command.is_oneway() {
            let end = self.written + self.out.len() as u64;
            self.oneways.push_back((end, outgoing.reply));
        } else {
            let waiting = Waiting { reply: outgoing.reply, deadline: outgoing.deadline, sent: now, start };
            self.pending.insert(outgoing.command.opaque, waiting);
        }
    }

    /// Encodes an answer.
    fn put(&mut self, answer: &Command) {
        if let Err(error) = codec::encode(answer, self.encoding, &mut self.out) {
            warn!(address = %self.address, %error, "answer to the broker can't be sent");
        }
    }

    fn wrote(&mut self, count: io::Result<usize>) -> Step {
        let count = count.map_err(|error| Lost::Io(Arc::new(error)))?;
        self.written += count as u64;
        self.progress = Instant::now();
        while self.oneways.front().is_some_and(|(end, _)| *end <= self.written) {
            if let Some((_, done)) = self.oneways.pop_front() {
                drop(done.send(Ok(None)));
            }
        }
        Ok(())
    }

    /// Overdue requests are forgotten; if nothing at all came since one was sent, the peer is not there any more.
    fn expire(&mut self, now: Instant) -> Step {
        if self.stalled_at().is_some_and(|at| at <= now) {
            return Err(Lost::Silent(WRITE_STALL));
        }
        while let Some(waiting) = self.pending.overdue(now) {
            if self.received < waiting.sent {
                return Err(Lost::Silent(now - waiting.sent));
            }
        }
        Ok(())
    }
}

/// Writes some, or flushes when nothing is left to write; 0 after a flush.
async fn write(writer: &mut (impl AsyncWrite + Unpin), out: &mut BytesMut) -> io::Result<usize> {
    if !out.has_remaining() {
        return writer.flush().await.map(|()| 0);
    }
    match writer.write_buf(out).await {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        other => other,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
