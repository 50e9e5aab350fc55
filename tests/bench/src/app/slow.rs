//! The application with a delay: a thread for each connection.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{Seen, answer_with, whole};
use crate::Result;

/// Serves until killed, each answer after the delay.
pub(super) fn serve(listener: TcpListener, delay: Duration) -> Result<()> {
    listener.set_nonblocking(false)?;
    let count = Arc::new(AtomicU64::new(0));
    for stream in listener.incoming() {
        let (stream, count) = (stream?, Arc::clone(&count));
        std::thread::spawn(move || {
            // A connection that breaks is the peer's end of it.
            drop(connection(stream, &count, delay));
        });
    }
    Ok(())
}

fn connection(mut stream: TcpStream, count: &AtomicU64, delay: Duration) -> Result<()> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut part) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let Some((head, body)) = whole(&buffer) else {
            match stream.read(&mut part)? {
                0 => return Ok(()),
                read => buffer.extend_from_slice(part.get(..read).unwrap_or_default()),
            }
            continue;
        };
        if buffer.starts_with(b"GET") {
            let seen = Seen { count: count.load(Relaxed), ..Seen::default() };
            stream.write_all(&answer_with(&serde_json::to_vec(&seen)?))?;
        } else {
            std::thread::sleep(delay);
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
            count.fetch_add(1, Relaxed);
        }
        buffer.drain(..head + body);
    }
}
