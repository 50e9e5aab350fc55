use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::join_all;
use lockstep_broker::Certainty;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex},
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{LONG, peer::Conversation, question};
use crate::{
    codec::{Command, HeaderEncoding},
    protocol::Request,
    remoting::{
        CallError, Event, Lost,
        call::{Claim, Outgoing, Submission},
        connection::Connection,
    },
};

/// Counts the writes that reach it.
struct Counting {
    inner: DuplexStream,
    writes: Arc<AtomicUsize>,
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// One connection without a network, on whose clock nothing depends.
struct Line {
    connection: Connection,
    sender: mpsc::Sender<Submission>,
    submissions: mpsc::Receiver<Submission>,
    events: (mpsc::Sender<Event>, mpsc::Receiver<Event>),
}

impl Line {
    fn new() -> Self {
        let (sender, submissions) = mpsc::channel(100);
        let connection = Connection::new("peer:1".into(), 1, HeaderEncoding::Json, None, sender.downgrade());
        Self { connection, sender, submissions, events: mpsc::channel(10) }
    }

    fn submit(&self, queue: i32, timeout: Duration) -> oneshot::Receiver<Result<Option<Command>, CallError>> {
        let (reply, answer) = oneshot::channel();
        let command = question(queue).command();
        let deadline = Instant::now() + timeout;
        let outgoing = Outgoing { command, deadline, not_after: None, claim: Claim::default(), reply };
        self.sender.try_send(Submission::Call(outgoing)).unwrap();
        answer
    }

    async fn serve(&mut self, stream: impl AsyncRead + AsyncWrite + Unpin) -> Lost {
        self.connection.serve(stream, &mut self.submissions, &self.events.0).await
    }
}

#[tokio::test]
async fn requests_that_wait_together_are_written_together() {
    let (near, far) = duplex(1 << 20);
    let writes = Arc::new(AtomicUsize::new(0));
    let stream = Counting { inner: near, writes: Arc::clone(&writes) };
    let mut line = Line::new();
    let replies: Vec<_> = (0..100).map(|queue| line.submit(queue, LONG)).collect();
    tokio::spawn(Conversation::new(far).echo());
    tokio::select! {
        lost = line.serve(stream) => panic!("{lost}"),
        replies = join_all(replies) => assert!(replies.iter().all(|reply| matches!(reply, Ok(Ok(Some(_)))))),
    }
    let writes = writes.load(Ordering::Relaxed);
    assert!(writes <= 3, "100 requests of about 200 bytes took {writes} writes");
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_is_dropped_and_the_connection_stays() {
    let (near, far) = duplex(1 << 20);
    let mut line = Line::new();
    let slow = line.submit(1, Duration::from_millis(50));
    let fast = line.submit(2, LONG);
    let third = async {
        let mut conversation = Conversation::new(far);
        let late = conversation.read().await;
        let request = conversation.read().await;
        conversation.answer(&request, 2).await;
        assert!(fast.await.is_ok());
        // The connection forgets the request when it is overdue; its caller has its own clock.
        assert!(slow.await.is_err());
        conversation.answer(&late, 1).await;
        conversation
    };
    let sender = line.sender.clone();
    let next = async {
        let conversation = third.await;
        tokio::spawn(conversation.echo());
        let (reply, answer) = oneshot::channel();
        let command = question(3).command();
        let deadline = Instant::now() + LONG;
        let outgoing = Outgoing { command, deadline, not_after: None, claim: Claim::default(), reply };
        sender.try_send(Submission::Call(outgoing)).unwrap();
        answer.await
    };
    tokio::select! {
        lost = line.serve(near) => panic!("{lost}"),
        reply = next => {
            let reply = reply.unwrap().unwrap().unwrap();
            assert_eq!(reply.fields.get("offset"), Some("3"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_is_silent_only_if_nothing_came_since_the_overdue_request() {
    let (near, far) = duplex(1 << 20);
    let mut line = Line::new();
    let started = Instant::now();
    drop(line.submit(1, Duration::from_secs(3)));
    drop(line.submit(2, Duration::from_secs(5)));
    let peer = async {
        let mut conversation = Conversation::new(far);
        conversation.read().await;
        conversation.read().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        conversation.write(&Command::request(40).field("consumerGroup", "g").oneway()).await;
        std::future::pending::<()>().await;
    };
    let sender = line.sender.clone();
    let later = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (reply, answer) = oneshot::channel();
        let command = question(3).command();
        let deadline = Instant::now() + Duration::from_secs(7);
        let outgoing = Outgoing { command, deadline, not_after: None, claim: Claim::default(), reply };
        sender.try_send(Submission::Call(outgoing)).unwrap();
        answer.await
    };
    tokio::select! {
        lost = line.serve(near) => {
            assert!(matches!(lost, Lost::Silent(after) if after == Duration::from_secs(7)), "{lost}");
        }
        () = peer => unreachable!("the peer stays"),
        reply = later => panic!("{reply:?}"),
    }
    assert_eq!(started.elapsed().as_secs(), 9);
}

#[tokio::test(start_paused = true)]
async fn what_was_written_in_part_is_uncertain_and_what_was_not_is_surely_not_done() {
    // Room for the first request and a part of the second.
    let frame = super::peer::frame(&question(0).command()).len();
    let (near, far) = duplex(frame + frame / 2);
    let mut line = Line::new();
    let answers: Vec<_> = (0..4).map(|queue| line.submit(queue, LONG)).collect();
    let peer = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(far);
        std::future::pending::<()>().await;
    };
    let lost = tokio::select! {
        lost = line.serve(near) => lost,
        () = peer => unreachable!("it stays"),
    };
    line.connection.end(&lost);
    let mut certainties = Vec::new();
    for answer in answers {
        certainties.push(answer.await.unwrap().unwrap_err().certainty());
    }
    let (unknown, not_done) = (Certainty::Unknown, Certainty::NotDone);
    assert_eq!(certainties, [unknown, unknown, not_done, not_done]);
}

#[tokio::test]
async fn a_peer_that_asks_and_never_reads_is_not_read_without_end() {
    let (near, far) = duplex(1 << 16);
    let mut line = Line::new();
    let peer = async {
        let mut conversation = Conversation::new(far);
        let frame = super::peer::frame(&Command::request(4711)).repeat(100);
        let mut sent = 0_usize;
        loop {
            // Blocks for good once the connection reads no more.
            let write = conversation.stream.write_all(&frame);
            match tokio::time::timeout(Duration::from_millis(300), write).await {
                Ok(result) => result.unwrap(),
                Err(_) => break sent,
            }
            sent += frame.len();
        }
    };
    tokio::select! {
        lost = line.serve(near) => panic!("{lost}"),
        sent = peer => assert!(sent < 4 << 20, "{sent} bytes of questions were read"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_asks_and_never_reads_is_given_up() {
    let (near, mut far) = duplex(1 << 16);
    let mut line = Line::new();
    let peer = async {
        let frame = super::peer::frame(&Command::request(4711)).repeat(100);
        while far.write_all(&frame).await.is_ok() {}
    };
    let started = Instant::now();
    let lost = tokio::select! {
        lost = line.serve(near) => lost,
        () = peer => unreachable!("it writes until the connection ends"),
    };
    assert!(matches!(lost, Lost::Silent(_)), "{lost}");
    assert_eq!(started.elapsed().as_secs(), 4);
}
