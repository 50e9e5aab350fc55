//! OpenWire by hand, loose encoding without a cache: frames, the handshake, and the few commands that tests need.

use std::{
    collections::VecDeque,
    io::{self, BufReader, Read, Write},
    net::TcpStream,
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use crate::time::now_micros;

/// How long any answer may take: a broker that is short of memory answers no publisher at all.
const PATIENCE: Duration = Duration::from_secs(60);
/// WireFormatInfo of version 12: neither tight encoding nor a cache, and no signs of life.
const HELLO: &[u8] = b"\0\0\0\x3e\x01ActiveMQ\0\0\0\x0c\x01\0\0\0\x2c\0\0\0\x02\
    \0\x14TightEncodingEnabled\x01\0\0\x0cCacheEnabled\x01\0";

const CONNECTION_INFO: u8 = 3;
const SESSION_INFO: u8 = 4;
const CONNECTION_ERROR: u8 = 16;
const DISPATCH: u8 = 21;
const RESPONSE: u8 = 30;
const EXCEPTION: u8 = 31;

static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

/// The fields of a command to be written.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(pub(super) Vec<u8>);

impl Fields {
    pub(super) fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(super) fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    pub(super) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// A string that is there, of bytes that are modified UTF-8.
    pub(super) fn raw_text(self, value: &[u8]) -> Self {
        let mut more = self.byte(1);
        more.0.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        more.0.extend(value);
        more
    }

    pub(super) fn text(self, value: &str) -> Self {
        self.raw_text(&modified(value))
    }

    /// A string that may be absent.
    pub(super) fn maybe_text(self, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(value),
            None => self.byte(0),
        }
    }

    /// A sequence of bytes that may be absent.
    pub(super) fn maybe_bytes(self, value: Option<&[u8]>) -> Self {
        let Some(value) = value else { return self.byte(0) };
        let mut more = self.byte(1).int(i32::try_from(value.len()).unwrap());
        more.0.extend(value);
        more
    }

    /// A nested object that is there, of this type.
    pub(super) fn object(self, kind: u8) -> Self {
        self.byte(1).byte(kind)
    }

    pub(super) fn queue(self, name: &str) -> Self {
        self.object(100).text(name)
    }

    fn framed(self, kind: u8, id: i32, answered: bool) -> Vec<u8> {
        let head = Self::default().byte(kind).int(id).byte(u8::from(answered)).0;
        let size = i32::try_from(head.len() + self.0.len()).unwrap();
        [&size.to_be_bytes()[..], &head, &self.0].concat()
    }
}

/// Text as Java writes it: NUL in two bytes, and what is beyond 16 bits as two surrogates of three bytes each.
pub(super) fn modified(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for unit in text.encode_utf16() {
        let low = |shift: u16| 0x80 | u8::try_from((unit >> shift) & 0x3f).unwrap();
        match unit {
            1..=0x7f => bytes.push(u8::try_from(unit).unwrap()),
            0..=0x7ff => bytes.extend([0xc0 | u8::try_from(unit >> 6).unwrap(), low(0)]),
            _ => bytes.extend([0xe0 | u8::try_from(unit >> 12).unwrap(), low(6), low(0)]),
        }
    }
    bytes
}

/// One connection with its one session, number 1.
#[derive(Debug)]
pub(super) struct Wire {
    stream: BufReader<TcpStream>,
    /// The connection's id, which begins those of all that it has.
    pub(super) id: String,
    commands: i32,
    dispatches: VecDeque<Vec<u8>>,
}

impl Wire {
    /// Connects, and opens the session.
    pub(super) fn open(address: &str, credentials: Option<(&str, &str)>) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let id = format!("ID:test-{}-{}-{number}:1", process::id(), now_micros());
        let stream = BufReader::with_capacity(64 * 1024, stream);
        let mut wire = Self { stream, id, commands: 0, dispatches: VecDeque::new() };
        wire.stream.get_mut().write_all(HELLO)?;
        let id = wire.id.clone();
        let (user, password) = credentials.unzip();
        let info = Fields::default().object(120).text(&id).text(&id);
        // Neither path nor bridge; manageable, and a client that answers for its connection.
        let info = info.maybe_text(password).maybe_text(user).byte(0).byte(0).byte(1).byte(1).zeros(3);
        wire.call(CONNECTION_INFO, info)?;
        wire.call(SESSION_INFO, Fields::default().object(121).text(&id).long(1))?;
        Ok(wire)
    }

    /// Sends a command and waits until it is answered.
    pub(super) fn call(&mut self, kind: u8, fields: Fields) -> io::Result<()> {
        let id = self.send(kind, fields, true)?;
        loop {
            let frame = self.frame()?;
            let mut reader = Reader::after_head(&frame);
            match frame[0] {
                RESPONSE if reader.int() == id => return Ok(()),
                EXCEPTION if reader.int() == id => return Err(reader.refusal()),
                CONNECTION_ERROR => return Err(reader.refusal()),
                DISPATCH => self.dispatches.push_back(frame),
                _ => {}
            }
        }
    }

    /// Sends a command; its number.
    pub(super) fn send(&mut self, kind: u8, fields: Fields, answered: bool) -> io::Result<i32> {
        self.commands += 1;
        self.stream.get_mut().write_all(&fields.framed(kind, self.commands, answered))?;
        Ok(self.commands)
    }

    /// The next dispatch; its fields after the head.
    pub(super) fn dispatch(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(frame) = self.dispatches.pop_front() {
                return Ok(frame[6..].to_vec());
            }
            let frame = self.frame()?;
            match frame[0] {
                DISPATCH => self.dispatches.push_back(frame),
                CONNECTION_ERROR => return Err(Reader::after_head(&frame).refusal()),
                _ => {}
            }
        }
    }

    fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(size)).unwrap()];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }
}

/// Reads fields.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn after_head(frame: &'a [u8]) -> Self {
        // Only commands have a head, and only they are read.
        Self(frame.get(6..).unwrap_or_default())
    }

    pub(super) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() == 1
    }

    pub(super) fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    pub(super) fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().unwrap())
    }

    /// A string's bytes after its length of two bytes.
    pub(super) fn short_text(&mut self) -> &'a [u8] {
        let length = u16::from_be_bytes(self.take(2).try_into().unwrap());
        self.take(length.into())
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        self.flag().then(|| self.short_text())
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        self.flag().then(|| {
            let length = usize::try_from(self.int()).unwrap();
            self.take(length)
        })
    }

    /// Passes over a nested object, if it is there.
    pub(super) fn object(&mut self) {
        if !self.flag() {
            return;
        }
        match self.byte() {
            100..=103 | 120 | 124 => drop(self.text()),
            122 | 123 => {
                self.text();
                self.take(16);
            }
            110 => {
                self.text();
                self.object();
                self.take(16);
            }
            111 => {
                self.take(8);
                self.object();
            }
            kind => panic!("an object of type {kind} is nothing that a test reads"),
        }
    }

    /// What an exception says.
    fn refusal(&mut self) -> io::Error {
        let text =
            |reader: &mut Self| String::from_utf8_lossy(reader.text().unwrap_or_default()).into_owned();
        if !self.flag() {
            return io::Error::other("the broker refused and gave no reason");
        }
        let (class, message) = (text(self), text(self));
        io::Error::other(format!("the broker answered {class}: {message}"))
    }
}
