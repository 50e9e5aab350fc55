//! The broker's end of a connection, which says what its script tells it. It has a codec of its own, written down from the
//! protocol, so that a mistake in ours shows.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Numbers of commands.
pub(super) const BROKER_INFO: u8 = 2;
pub(super) const CONNECTION_INFO: u8 = 3;
pub(super) const SESSION_INFO: u8 = 4;
pub(super) const CONSUMER_INFO: u8 = 5;
pub(super) const PRODUCER_INFO: u8 = 6;
pub(super) const DESTINATION_INFO: u8 = 8;
pub(super) const KEEP_ALIVE: u8 = 10;
pub(super) const SHUTDOWN: u8 = 11;
pub(super) const REMOVE: u8 = 12;
pub(super) const CONNECTION_ERROR: u8 = 16;
pub(super) const CONSUMER_CONTROL: u8 = 17;
pub(super) const CONNECTION_CONTROL: u8 = 18;
pub(super) const PULL: u8 = 20;
pub(super) const DISPATCH: u8 = 21;
pub(super) const ACK: u8 = 22;
pub(super) const TEXT_MESSAGE: u8 = 28;

/// Artemis's id has this form.
pub(super) const ARTEMIS_ID: &str = "03aa826b-ed87-11f1-b53c-02fc00000001";
pub(super) const CLASSIC_ID: &str = "ID:vm-40697-1796129940373-0:1";

pub(super) type AnyStream = Box<dyn super::super::dial::Stream>;

/// A command of the client's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) kind: u8,
    pub(super) id: i32,
    pub(super) answered: bool,
    pub(super) body: Bytes,
}

pub(super) struct Server {
    pub(super) stream: AnyStream,
    input: BytesMut,
    /// The client's.
    pub(super) connection: String,
}

impl Server {
    pub(super) fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { stream: Box::new(stream), input: BytesMut::new(), connection: String::new() }
    }

    pub(super) async fn accept(listener: &TcpListener) -> Self {
        let (stream, _): (TcpStream, _) = listener.accept().await.unwrap();
        Self::new(stream)
    }

    /// The next frame without its size; `None` at the end.
    pub(super) async fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(size) = self.input.first_chunk().copied().map(u32::from_be_bytes) {
                let size = size as usize;
                if self.input.len() >= 4 + size {
                    self.input.advance(4);
                    return Some(self.input.split_to(size).freeze());
                }
            }
            if self.stream.read_buf(&mut self.input).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The next command, signs of life included.
    pub(super) async fn any(&mut self) -> Option<Command> {
        let mut frame = self.frame().await?;
        let (kind, id, answered) = (frame.get_u8(), frame.get_i32(), frame.get_u8() == 1);
        Some(Command { kind, id, answered, body: frame })
    }

    /// The next command that is more than a sign of life.
    pub(super) async fn next(&mut self) -> Option<Command> {
        loop {
            match self.any().await {
                Some(Command { kind: KEEP_ALIVE, .. }) => {}
                command => return command,
            }
        }
    }

    /// The next command, which must be of that kind.
    pub(super) async fn expect(&mut self, kind: u8) -> Command {
        let command = self.next().await.expect("the client hung up");
        assert_eq!(command.kind, kind, "{command:?}");
        command
    }

    /// Sends bytes as they are.
    pub(super) async fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends one frame.
    pub(super) async fn send(&mut self, frame: impl AsRef<[u8]>) {
        self.raw(&sized(frame.as_ref())).await;
    }

    pub(super) async fn response(&mut self, to: i32) {
        self.send(command(30, |out| out.put_i32(to))).await;
    }

    pub(super) async fn exception(&mut self, to: i32, class: &str, message: &str) {
        self.send(exception(to, class, message)).await;
    }

    /// Answers the next command, which must be of that kind.
    pub(super) async fn answer(&mut self, kind: u8) -> Command {
        let command = self.expect(kind).await;
        assert!(command.answered, "{command:?}");
        self.response(command.id).await;
        command
    }

    /// Reads the client's wire format, and tells ours.
    pub(super) async fn formats(&mut self, version: i32, inactivity: Option<i64>) -> Bytes {
        let theirs = self.frame().await.expect("the client hung up");
        assert_eq!(theirs[..9], *b"\x01ActiveMQ");
        self.send(wire_format(version, inactivity)).await;
        theirs
    }

    /// Agrees on OpenWire 12 as Classic does, with a time without a sign of life in ms.
    pub(super) async fn agree(&mut self, inactivity: i64) {
        self.formats(12, Some(inactivity)).await;
        self.send(broker_info(CLASSIC_ID, "t")).await;
        let info = self.answer(CONNECTION_INFO).await;
        let mut body = info.body;
        // An object of the kind of connection ids.
        assert_eq!((body.get_u8(), body.get_u8(), body.get_u8()), (1, 120, 1));
        let length = body.get_u16() as usize;
        self.connection = String::from_utf8(body.split_to(length).to_vec()).unwrap();
        // Manageable so that the broker tells of its cluster, and the client's own rather than a bridge.
        self.answer(SESSION_INFO).await;
    }

    /// A consumer's id, as an object.
    pub(super) fn consumer_id(&self, number: i64) -> Bytes {
        object(122, |out| {
            string(out, &self.connection);
            out.put_i64(1);
            out.put_i64(number);
        })
    }

    /// Takes a consumer on.
    pub(super) async fn consumer(&mut self, number: i64) -> Command {
        let info = self.answer(CONSUMER_INFO).await;
        assert!(info.body.starts_with(&self.consumer_id(number)), "{info:?}");
        info
    }

    /// Hands out a message of queue `q` with that sequence number and text.
    pub(super) async fn deliver(&mut self, consumer: i64, sequence: i64, text: &str) {
        let message = message(sequence, text);
        self.send(self.dispatch(consumer, Some(&message), 0)).await;
    }

    /// A dispatch of queue `q`; without a message it says that there is none.
    pub(super) fn dispatch(&self, consumer: i64, message: Option<&[u8]>, redeliveries: i32) -> Bytes {
        command(DISPATCH, |out| {
            out.put_slice(&self.consumer_id(consumer));
            match message {
                Some(message) => {
                    out.put_slice(&queue("q"));
                    out.put_slice(message);
                }
                None => out.put_slice(&[0, 0]),
            }
            out.put_i32(redeliveries);
        })
    }

    pub(super) fn control(&self, consumer: i64, close: bool) -> Bytes {
        command(CONSUMER_CONTROL, |out| {
            out.put_u8(0);
            out.put_u8(close.into());
            out.put_slice(&self.consumer_id(consumer));
            out.put_i32(0);
            out.put_slice(&[0, 0, 0]);
        })
    }
}

/// With its size in front.
pub(super) fn sized(frame: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u32(u32::try_from(frame.len()).unwrap());
    out.put_slice(frame);
    out.freeze()
}

/// A command of the broker's: number 0, no answer wanted.
pub(super) fn command(kind: u8, body: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::from(&[kind, 0, 0, 0, 0, 0][..]);
    body(&mut out);
    out.freeze()
}

pub(super) fn object(kind: u8, body: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::from(&[1, kind][..]);
    body(&mut out);
    out.freeze()
}

pub(super) fn string(out: &mut BytesMut, text: &str) {
    out.put_u8(1);
    out.put_u16(text.len().try_into().unwrap());
    out.put_slice(text.as_bytes());
}

pub(super) fn queue(name: &str) -> Bytes {
    object(100, |out| string(out, name))
}

pub(super) fn exception(to: i32, class: &str, message: &str) -> Bytes {
    command(31, |out| {
        out.put_i32(to);
        throwable(out, class, message);
    })
}

pub(super) fn throwable(out: &mut BytesMut, class: &str, message: &str) {
    out.put_u8(1);
    string(out, class);
    string(out, message);
}

pub(super) fn keep_alive(answered: bool) -> Bytes {
    Bytes::copy_from_slice(&[KEEP_ALIVE, 0, 0, 0, 0, answered.into()])
}

pub(super) fn wire_format(version: i32, inactivity: Option<i64>) -> Bytes {
    let mut map = BytesMut::new();
    let entry = |map: &mut BytesMut, key: &str| {
        map.put_u16(key.len().try_into().unwrap());
        map.put_slice(key.as_bytes());
    };
    map.put_i32(if inactivity.is_some() { 5 } else { 4 });
    for key in ["CacheEnabled", "TightEncodingEnabled"] {
        entry(&mut map, key);
        map.put_slice(&[1, 1]);
    }
    entry(&mut map, "ProviderVersion");
    map.put_slice(b"\x09\0\x056.3.1");
    entry(&mut map, "MaxFrameSize");
    map.put_u8(6);
    map.put_i64(100_000_000);
    if let Some(inactivity) = inactivity {
        entry(&mut map, "MaxInactivityDuration");
        map.put_u8(6);
        map.put_i64(inactivity);
    }
    let mut out = BytesMut::from(&b"\x01ActiveMQ"[..]);
    out.put_i32(version);
    out.put_u8(1);
    out.put_u32(map.len().try_into().unwrap());
    out.put_slice(&map);
    out.freeze()
}

pub(super) fn broker_info(id: &str, name: &str) -> Bytes {
    command(BROKER_INFO, |out| {
        out.put_slice(&object(124, |out| string(out, id)));
        string(out, "tcp://localhost:61616");
        out.put_u8(0);
        string(out, name);
        out.put_slice(&[0, 0, 0, 0, 0]);
        out.put_i64(0);
        out.put_slice(&[0, 0]);
    })
}

/// The id of a message, as an object.
pub(super) fn message_id(sequence: i64) -> Bytes {
    object(110, |out| {
        out.put_u8(0);
        out.put_slice(&object(123, |out| {
            string(out, "ID:p:1");
            out.put_i64(1);
            out.put_i64(1);
        }));
        out.put_i64(7);
        out.put_i64(sequence);
    })
}

/// A text message of queue `q`, as an object.
pub(super) fn message(sequence: i64, text: &str) -> Bytes {
    object(TEXT_MESSAGE, |out| {
        out.put_slice(&[0, 0, 0, 4, 1]);
        out.put_slice(&object(123, |out| {
            string(out, "ID:p:1");
            out.put_i64(1);
            out.put_i64(1);
        }));
        out.put_slice(&queue("q"));
        // No transaction, no original destination.
        out.put_slice(&[0, 0]);
        out.put_slice(&message_id(sequence));
        // No original transaction, no group.
        out.put_slice(&[0, 0]);
        out.put_i32(0);
        out.put_u8(0);
        // Persistent, never expires, of usual priority.
        out.put_u8(1);
        out.put_i64(0);
        out.put_slice(&[4, 0]);
        out.put_i64(1_796_129_940_373);
        out.put_slice(&[0, 1]);
        out.put_u32(u32::try_from(text.len()).unwrap() + 4);
        out.put_u32(text.len().try_into().unwrap());
        out.put_slice(text.as_bytes());
        // No properties, no structure, no target, not compressed.
        out.put_slice(&[0, 0, 0, 0]);
        out.put_i32(0);
        out.put_u8(0);
        out.put_i64(0);
        out.put_slice(&[0, 0, 0, 0]);
        out.put_i64(0);
        out.put_i64(0);
        out.put_u8(0);
    })
}
