use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::amqp::codec::{Frame, FrameReader, Kind, frame, tests::hex};

/// What it announces of itself, and that it takes PLAIN.
const START: &str = "000a 000a 00 09 00000027 \
                     07 70726f64756374 53 00000008 5261626269744d51 \
                     07 76657273696f6e 53 00000005 332e392e39 \
                     0000000e 414d51504c41494e20504c41494e 00000005 656e5f5553";

/// The broker's end of a connection, which says what its script tells it.
pub(super) struct Server<S = DuplexStream> {
    pub(super) stream: S,
    reader: FrameReader,
    input: BytesMut,
}

impl<S: AsyncReadExt + AsyncWriteExt + Unpin> Server<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, reader: FrameReader::new(131_072), input: BytesMut::new() }
    }

    /// Reads the protocol header.
    pub(super) async fn header(&mut self) {
        let mut header = [0; 8];
        self.stream.read_exact(&mut header).await.unwrap();
        assert_eq!(&header, b"AMQP\0\0\x09\x01");
    }

    pub(super) async fn start(&mut self) {
        self.header().await;
        self.method(0, START).await;
    }

    /// Agrees on frames of 4096 bytes, 7 channels and what heartbeat the client wants.
    pub(super) async fn agree(&mut self) {
        self.start().await;
        let (_, _, start_ok) = self.next().await.unwrap();
        assert_eq!(start_ok[..4], hex("000a 000b"));
        self.method(0, "000a 001e 0007 00001000 003c").await;
        self.expect(0, "000a 001f 0007 00001000 000a").await;
        self.expect(0, "000a 0028 01 2f 00 00").await;
        self.method(0, "000a 0029 00").await;
    }

    /// The next frame, signs of life included; `None` at the end.
    pub(super) async fn any(&mut self) -> Option<(Kind, u16, Bytes)> {
        loop {
            match self.reader.next(&mut self.input).unwrap() {
                Some(Frame::Whole { kind, channel, payload }) => return Some((kind, channel, payload)),
                Some(Frame::LongHeader { .. }) => panic!("a header that is too long"),
                None => {
                    if self.stream.read_buf(&mut self.input).await.unwrap_or(0) == 0 {
                        return None;
                    }
                }
            }
        }
    }

    /// The next frame that is more than a sign of life.
    pub(super) async fn next(&mut self) -> Option<(Kind, u16, Bytes)> {
        loop {
            match self.any().await {
                Some((Kind::Heartbeat, ..)) => {}
                frame => return frame,
            }
        }
    }

    pub(super) async fn expect(&mut self, channel: u16, method: &str) {
        let (kind, number, payload) = self.next().await.expect("the client hung up");
        assert_eq!((kind, number, payload), (Kind::Method, channel, hex(method)), "expected {method}");
    }

    pub(super) async fn send(&mut self, kind: Kind, channel: u16, payload: &[u8]) {
        let mut out = BytesMut::new();
        frame(&mut out, kind, channel, |out| out.extend_from_slice(payload));
        self.stream.write_all(&out).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    pub(super) async fn method(&mut self, channel: u16, method: &str) {
        self.send(Kind::Method, channel, &hex(method)).await;
    }

    pub(super) async fn answer(&mut self, channel: u16, question: &str, answer: &str) {
        self.expect(channel, question).await;
        self.method(channel, answer).await;
    }

    /// The method and the header of a message without properties.
    pub(super) async fn head(&mut self, tag: u64, size: u64, properties: &[u8]) {
        let mut method = BytesMut::from(&hex("003c 003c 01 74")[..]);
        method.put_u64(tag);
        method.extend_from_slice(&hex("00 02 6578 01 6b"));
        self.send(Kind::Method, 1, &method).await;
        let mut header = BytesMut::from(&hex("003c 0000")[..]);
        header.put_u64(size);
        header.extend_from_slice(properties);
        self.send(Kind::Header, 1, &header).await;
    }

    /// A message without properties, its body in frames of at most 4088 bytes.
    pub(super) async fn deliver(&mut self, tag: u64, body: &[u8]) {
        self.head(tag, body.len() as u64, &[0, 0]).await;
        for piece in body.chunks(4088) {
            self.send(Kind::Body, 1, piece).await;
        }
    }
}
