//! A listener that bounds what strangers on the pod network can cost: a number of connections, and a time in which each
//! must have asked for something.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep},
};

/// Connections open at once: probes, some scrapes and some people.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// A connection must get an answer at least so often. Longer than usual intervals of scrapes.
const IDLE_MAX: Duration = Duration::from_secs(75);
/// After a failed accept (no file descriptor is free) the next is tried so much later.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

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
    /// Ends the connection.
    timer: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl Bounded {
    pub(super) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener, free: Arc::new(Semaphore::new(CONNECTIONS_MAX)) })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
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
                    let timer = Box::pin(sleep(IDLE_MAX));
                    return (Connection { stream, timer, _permit: permit }, address);
                }
                Err(error) => {
                    tracing::debug!(%error, "failed to accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.address()
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
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.timer.as_mut().reset(Instant::now() + IDLE_MAX);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
