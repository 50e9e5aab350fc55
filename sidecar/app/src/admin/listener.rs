//! A listener that bounds what strangers on the pod network can cost: a number of connections, and a time for each.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{extract::connect_info::Connected, serve::IncomingStream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep},
};

/// Connections open at once: some probes, some scrapes and some people; each costs about 16 KiB.
const CONNECTIONS_MAX: usize = 128;
/// A connection must send something at least so often, unless an answer is being waited for. Nobody has a reason to
/// be slower: requests fit into one packet.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The shutdown hook may wait for as long as a drain can last, which the contract bounds by 7,200 s.
const LIFE_MAX: Duration = Duration::from_secs(7_500);
/// After a failed accept (no file descriptor is free) the next is tried so much later.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(SocketAddr);

/// The listener.
#[derive(Debug)]
pub(super) struct Bounded {
    listener: TcpListener,
    free: Arc<Semaphore>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// Ends the connection: soon while a request is awaited, late once it was read.
    timer: Pin<Box<Sleep>>,
    opened: Instant,
    _permit: OwnedSemaphorePermit,
}

/// Listens on every address of both families, or of the one that the system has.
pub(super) async fn bind(port: u16) -> io::Result<Bounded> {
    let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?
        }
        bound => bound?,
    };
    Ok(Bounded { listener, free: Arc::new(Semaphore::new(CONNECTIONS_MAX)) })
}

impl Bounded {
    pub(super) fn port(&self) -> Option<u16> {
        self.listener.local_addr().ok().map(|address| address.port())
    }
}

impl Peer {
    #[cfg(test)]
    pub(super) fn new(address: SocketAddr) -> Self {
        Self(address)
    }

    /// Also true for an IPv4 loopback address seen through an IPv6 socket.
    pub(super) fn is_loopback(self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let permit = loop {
            // The semaphore is never closed.
            if let Ok(permit) = Arc::clone(&self.free).acquire_owned().await {
                break permit;
            }
        };
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let connection = Connection {
                        stream,
                        timer: Box::pin(sleep(SILENCE_MAX)),
                        opened: Instant::now(),
                        _permit: permit,
                    };
                    return (connection, address);
                }
                Err(error) => {
                    tracing::debug!(%error, "failed to accept a connection on the admin port");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, Bounded>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().ends_with(b"\r\n\r\n") {
            // A request is whole, so what follows is the wait for its answer.
            let until = self.opened + LIFE_MAX;
            self.timer.as_mut().reset(until);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        // An answer was begun: the next request is due soon.
        let until = (Instant::now() + SILENCE_MAX).min(self.opened + LIFE_MAX);
        self.timer.as_mut().reset(until);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
