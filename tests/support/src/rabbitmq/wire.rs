//! AMQP 0-9-1 by hand: frames, the handshake, and the few methods that tests call.

use std::{
    io::{self, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const END: u8 = 0xce;
/// How long any answer may take: a broker that is short of memory answers no publisher at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// A frame that came, of any channel.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) payload: Vec<u8>,
}

/// A method that came: class, number and arguments.
#[derive(Debug)]
pub(super) struct Method {
    pub(super) id: (u16, u16),
    pub(super) arguments: Vec<u8>,
}

/// Arguments to be written.
#[derive(Debug, Clone, Default)]
pub(super) struct Arguments(Vec<u8>);

impl Arguments {
    pub(super) fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(super) fn short(mut self, value: u16) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn text(mut self, value: &str) -> Self {
        self.0.push(u8::try_from(value.len()).unwrap());
        self.0.extend(value.as_bytes());
        self
    }

    /// A long string, or the entries of a table.
    pub(super) fn bytes(mut self, value: &[u8]) -> Self {
        self.0.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        self.0.extend(value);
        self
    }
}

/// One connection with its one channel, number 1.
#[derive(Debug)]
pub(super) struct Wire {
    stream: BufReader<TcpStream>,
    frame_max: usize,
}

impl Wire {
    /// Connects, agrees on no heartbeat, and opens the channel.
    pub(super) fn open(address: &str, vhost: &str, user: &str, password: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut wire = Self { stream: BufReader::with_capacity(64 * 1024, stream), frame_max: 4_096 };
        wire.stream.get_mut().write_all(b"AMQP\0\0\x09\x01")?;
        wire.expect((10, 10))?;
        let response = format!("\0{user}\0{password}");
        // Without this capability the broker says nothing when it refuses a login.
        let capabilities = b"\x1cauthentication_failure_closet\x01";
        let properties = [&b"\x0ccapabilitiesF"[..], &[0, 0, 0, 31], capabilities].concat();
        let start =
            Arguments::default().bytes(&properties).text("PLAIN").bytes(response.as_bytes()).text("en_US");
        wire.send(0, (10, 11), start)?;
        let tune = wire.expect((10, 30))?.arguments;
        wire.frame_max = u32::from_be_bytes(tune[2..6].try_into().unwrap()) as usize;
        let channels = u16::from_be_bytes(tune[..2].try_into().unwrap());
        let agreed =
            Arguments::default().short(channels).long(u32::try_from(wire.frame_max).unwrap()).short(0);
        wire.send(0, (10, 31), agreed)?;
        wire.send(0, (10, 40), Arguments::default().text(vhost).text("").byte(0))?;
        wire.expect((10, 41))?;
        wire.call((20, 10), Arguments::default().text(""), (20, 11))?;
        Ok(wire)
    }

    /// Sends a method on the channel and waits for its answer.
    pub(super) fn call(
        &mut self,
        id: (u16, u16),
        arguments: Arguments,
        answer: (u16, u16),
    ) -> io::Result<Method> {
        self.send(1, id, arguments)?;
        self.expect(answer)
    }

    pub(super) fn send(&mut self, channel: u16, id: (u16, u16), arguments: Arguments) -> io::Result<()> {
        let payload = [&id.0.to_be_bytes()[..], &id.1.to_be_bytes(), &arguments.0].concat();
        let mut out = Vec::new();
        push_frame(&mut out, METHOD, channel, &payload);
        self.stream.get_mut().write_all(&out)
    }

    /// Sends a message to an exchange with a routing key: `properties` are its flags and what follows them.
    pub(super) fn publish(
        &mut self,
        (exchange, route): (&str, &str),
        properties: &[u8],
        body: &[u8],
    ) -> io::Result<()> {
        let arguments = Arguments::default().short(0).text(exchange).text(route).byte(1);
        let method = [&[0, 60, 0, 40][..], &arguments.0].concat();
        let size = u64::try_from(body.len()).unwrap();
        let header = [&[0, 60, 0, 0][..], &size.to_be_bytes(), properties].concat();
        let mut out = Vec::with_capacity(body.len() + 1_024);
        push_frame(&mut out, METHOD, 1, &method);
        push_frame(&mut out, HEADER, 1, &header);
        for part in body.chunks(self.frame_max - 8) {
            push_frame(&mut out, BODY, 1, part);
        }
        self.stream.get_mut().write_all(&out)
    }

    /// The next method of this name; heartbeats and what is told of blocking are passed over.
    pub(super) fn expect(&mut self, id: (u16, u16)) -> io::Result<Method> {
        let method = self.method()?;
        if method.id == id { Ok(method) } else { Err(refusal(&method)) }
    }

    pub(super) fn method(&mut self) -> io::Result<Method> {
        loop {
            let Frame { kind, payload } = self.frame()?;
            if kind != METHOD {
                continue;
            }
            let word = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
            let id = (word(0), word(2));
            // connection.blocked and connection.unblocked.
            if id != (10, 60) && id != (10, 61) {
                return Ok(Method { id, arguments: payload[4..].to_vec() });
            }
        }
    }

    pub(super) fn frame(&mut self) -> io::Result<Frame> {
        let mut head = [0; 7];
        self.stream.read_exact(&mut head)?;
        let size = u32::from_be_bytes(head[3..].try_into().unwrap()) as usize;
        let mut payload = vec![0; size + 1];
        self.stream.read_exact(&mut payload)?;
        if payload.pop() != Some(END) {
            return Err(io::Error::other("a frame has no end"));
        }
        Ok(Frame { kind: head[0], payload })
    }

    /// The properties and the body that follow a method.
    pub(super) fn content(&mut self) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let header = self.frame()?.payload;
        let size = u64::from_be_bytes(header[4..12].try_into().unwrap());
        let mut body = Vec::new();
        while u64::try_from(body.len()).unwrap() < size {
            let Frame { kind, payload } = self.frame()?;
            if kind == BODY {
                body.extend(payload);
            }
        }
        Ok((header[12..].to_vec(), body))
    }
}

/// What the broker said instead of what was expected.
pub(super) fn refusal(method: &Method) -> io::Error {
    let text = String::from_utf8_lossy(&method.arguments).into_owned();
    io::Error::other(format!("the broker answered {:?}: {text}", method.id))
}

fn push_frame(out: &mut Vec<u8>, kind: u8, channel: u16, payload: &[u8]) {
    out.push(kind);
    out.extend(channel.to_be_bytes());
    out.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    out.extend(payload);
    out.push(END);
}
