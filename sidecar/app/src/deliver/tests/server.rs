//! A TCP server that does exactly what a test says.

use std::{io::ErrorKind, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(super) struct Server {
    listener: TcpListener,
}

pub(super) struct Peer {
    pub(super) stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) line: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Server {
    pub(super) async fn bind(address: &str) -> Self {
        Self { listener: TcpListener::bind(address).await.expect("a loopback address must be free") }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub(super) async fn accept(&self) -> Peer {
        let (stream, _) = self.listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        Peer { stream, buffer: Vec::new() }
    }
}

impl Peer {
    /// Reads one request; `None` when the other side closed instead.
    pub(super) async fn request(&mut self) -> Option<Received> {
        let head = self.head().await?;
        let text = String::from_utf8(head).expect("a request head must be text");
        let mut lines = text.trim_end().split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let headers: Vec<_> = lines
            .map(|line| {
                line.split_once(": ").map(|(n, v)| (n.to_owned(), v.to_owned())).expect("a header line")
            })
            .collect();
        let length =
            headers.iter().find(|(name, _)| name == "content-length").map_or("0", |(_, value)| value);
        let length: usize = length.parse().unwrap();
        while self.buffer.len() < length {
            if self.fill().await == 0 {
                return None;
            }
        }
        let rest = self.buffer.split_off(length);
        Some(Received { line, headers, body: std::mem::replace(&mut self.buffer, rest) })
    }

    /// Reads a request's head only.
    pub(super) async fn head(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let rest = self.buffer.split_off(end + 4);
                return Some(std::mem::replace(&mut self.buffer, rest));
            }
            if self.fill().await == 0 {
                return None;
            }
        }
    }

    async fn fill(&mut self) -> usize {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("failed to read: {error}"),
        }
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Answers with a status, extra header lines and a body.
    pub(super) async fn answer(&mut self, status: u16, headers: &str, body: &str) {
        let head = format!("HTTP/1.1 {status} Text\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        self.send(head).await;
    }

    /// Waits until the other side closes.
    pub(super) async fn closed(&mut self) {
        while self.fill().await != 0 {}
    }

    /// Bytes received behind what was asked for.
    pub(super) fn read_ahead(&self) -> usize {
        self.buffer.len()
    }

    /// Closes with a reset.
    pub(super) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

impl Received {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(other, _)| other == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert_eq!(values.next(), None, "{name} must be there once");
        value
    }
}
