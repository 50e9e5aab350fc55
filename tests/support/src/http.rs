//! Just enough HTTP/1.1, both sides, with every byte in our hands.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

/// A request as it was received. Header names are in lower case.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The target, with its slash.
    pub path: String,
    /// The headers in their order; values as received.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of this name, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let value = self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value)?;
        std::str::from_utf8(value).ok()
    }

    /// A header that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.header(name)?.parse().ok()
    }

    fn length(&self) -> usize {
        self.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0)
    }
}

/// Reads a request's head; `None` when the peer closed before its first byte.
pub(crate) fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = Vec::new();
    if reader.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&line).into_owned();
    let mut words = text.split_whitespace().map(str::to_owned);
    let mut next = || words.next().unwrap_or_default();
    let mut request = Request { method: next(), path: next(), ..Request::default() };
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let header = line.trim_ascii();
        if header.is_empty() {
            return Ok(Some(request));
        }
        let colon = header.iter().position(|byte| *byte == b':').ok_or(io::ErrorKind::InvalidData)?;
        let name = String::from_utf8_lossy(&header[..colon]).to_ascii_lowercase();
        request.headers.push((name, header[colon + 1..].trim_ascii().to_vec()));
    }
}

/// Reads the body that the head announced.
pub(crate) fn read_body(reader: &mut impl BufRead, request: &mut Request) -> io::Result<()> {
    if request.header("transfer-encoding").is_none() {
        request.body.resize(request.length(), 0);
        return reader.read_exact(&mut request.body);
    }
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk)?;
        chunk.truncate(size);
        request.body.append(&mut chunk);
        if size == 0 {
            return Ok(());
        }
    }
}

/// Sends one request on a connection of its own and gives status and body.
///
/// # Errors
/// When there is no whole answer, or none within 10 s.
pub fn call(address: &str, method: &str, path: &str, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
    ask(address, method, path, &[], body)
}

/// The same with further headers.
///
/// # Errors
/// As [`call`].
pub fn ask(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<(u16, Vec<u8>)> {
    let to = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::InvalidInput)?;
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let length = body.len();
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{more}\r\n"
    )?;
    stream.write_all(body)?;
    let mut reader = BufReader::new(stream);
    let head = read_head(&mut reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    // In an answer the status stands where a request has its target.
    let status = head.path.parse().map_err(|_| io::ErrorKind::InvalidData)?;
    let mut answer = head.clone();
    if head.header("transfer-encoding").is_some() || head.header("content-length").is_some() {
        read_body(&mut reader, &mut answer)?;
    } else {
        reader.read_to_end(&mut answer.body)?;
    }
    Ok((status, answer.body))
}
