//! A peer that does what a test tells it.

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::codec::{self, Command, HeaderEncoding};

pub(super) struct FakePeer {
    listener: TcpListener,
    pub(super) address: String,
}

impl FakePeer {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        Self { listener, address }
    }

    pub(super) async fn accept(&self) -> Conversation<TcpStream> {
        Conversation::new(self.listener.accept().await.unwrap().0)
    }
}

pub(super) struct Conversation<S> {
    pub(super) stream: S,
    input: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, input: BytesMut::new() }
    }

    /// The next command, or `None` when the client closed.
    pub(super) async fn next(&mut self) -> Option<Command> {
        loop {
            if let Some(command) = codec::decode(&mut self.input).unwrap() {
                return Some(command);
            }
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub(super) async fn read(&mut self) -> Command {
        self.next().await.expect("the client must send a command")
    }

    pub(super) async fn write(&mut self, command: &Command) {
        self.write_raw(&frame(command)).await;
    }

    pub(super) async fn write_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Answers an offset question with this offset.
    pub(super) async fn answer(&mut self, request: &Command, offset: i64) {
        self.write(&Command::response(0, request.opaque).field("offset", offset)).await;
    }

    /// Answers offset questions with the number of the queue they ask for, until the client closes.
    pub(super) async fn echo(mut self) {
        while let Some(request) = self.next().await {
            let queue: i64 = request.fields.get("queueId").unwrap().parse().unwrap();
            self.answer(&request, queue).await;
        }
    }
}

pub(super) fn frame(command: &Command) -> Vec<u8> {
    let mut out = BytesMut::new();
    codec::encode(command, HeaderEncoding::Json, &mut out).unwrap();
    out.to_vec()
}
