use std::{
    io,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::BytesMut;
use lockstep_openwire::{VERSION_LEAST, VERSION_MOST};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{
    BrokerFacts, Budget, ClientError, OpenConfig, Product,
    dial::Stream,
    frames::{Frame, FrameReader},
    incoming::{self, Incoming, Introduction, PeerFormat},
    wire::{Wire, broken},
};

/// The longest frame of a handshake, far more than any takes; what else listens there shows itself by a larger one.
const FRAME_MOST: u32 = 1024 * 1024;

/// Numbers of the first two commands.
const CONNECTION: i32 = 1;
const SESSION: i32 = 2;

/// What both sides agreed on.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) broker: BrokerFacts,
    pub(super) inactivity: Duration,
    pub(super) wire: Wire,
    /// Of the commands so far.
    pub(super) last_command: i32,
    /// What was read behind the last answer.
    pub(super) input: BytesMut,
}

/// Agrees with a broker up to an open session. We speak first: Artemis and Classic's `auto` connectors wait for it.
pub(super) async fn handshake(
    stream: &mut Box<dyn Stream>,
    config: &OpenConfig,
) -> Result<Agreed, ClientError> {
    let after = config.connect_timeout;
    let wire = Wire::new(connection_id());
    let mut talk =
        Talk { stream, wire, frames: FrameReader::strict(FRAME_MOST), input: BytesMut::new(), broker: None };
    let peer = within(after, "agreeing on a wire format", talk.agree(config)).await?;
    within(after, "opening the connection", talk.connect(config)).await?;
    within(after, "opening a session", talk.open_session()).await?;
    let info = within(after, "telling what it is", talk.broker()).await?;
    let Talk { wire, input, .. } = talk;
    let broker = BrokerFacts {
        product: product(&info.id),
        version: peer.provider_version,
        name: info.name,
        wire_version: peer.version.min(VERSION_MOST),
    };
    // None = the broker watches for no signs of life, and we do nevertheless.
    let inactivity = peer.inactivity.map_or(config.inactivity, |theirs| theirs.min(config.inactivity));
    Ok(Agreed { broker, inactivity, wire, last_command: SESSION, input })
}

async fn within<T>(
    after: Duration,
    what: &'static str,
    step: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    timeout(after, step).await.unwrap_or(Err(ClientError::Timeout { what, after }))
}

/// A connection's id, as unlikely to be another's as can be. A broker ends a connection when one with its id comes.
fn connection_id() -> String {
    let mut bytes = [0; 16];
    // Without randomness the time tells connections apart.
    if getrandom::fill(&mut bytes).is_err() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        bytes = now.as_nanos().to_be_bytes();
    }
    format!("ID:lockstep-{:032x}", u128::from_be_bytes(bytes))
}

/// Artemis's brokers have a UUID, Classic's an id that begins with `ID:` unless their administrator gave them one.
fn product(id: &str) -> Product {
    let mut parts = id.split('-');
    let uuid = [8, 4, 4, 4, 12].into_iter().all(|length| {
        parts
            .next()
            .is_some_and(|part| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    });
    if uuid && parts.next().is_none() { Product::Artemis } else { Product::Classic }
}

struct Talk<'a> {
    stream: &'a mut Box<dyn Stream>,
    wire: Wire,
    frames: FrameReader,
    input: BytesMut,
    broker: Option<Introduction>,
}

impl Talk<'_> {
    async fn agree(&mut self, config: &OpenConfig) -> Result<PeerFormat, ClientError> {
        let mut out = BytesMut::new();
        self.wire.wire_format(&mut out, config.inactivity)?;
        self.send(&out).await?;
        loop {
            if let Incoming::WireFormat(peer) = self.next().await? {
                if peer.version < VERSION_LEAST {
                    return Err(ClientError::RefusedVersion { offered: peer.version, least: VERSION_LEAST });
                }
                return Ok(peer);
            }
        }
    }

    async fn connect(&mut self, config: &OpenConfig) -> Result<(), ClientError> {
        let mut out = BytesMut::new();
        self.wire.connection(&mut out, CONNECTION, &config.client_id, config.credentials.as_ref())?;
        self.send(&out).await?;
        self.answer(CONNECTION).await
    }

    async fn open_session(&mut self) -> Result<(), ClientError> {
        let mut out = BytesMut::new();
        self.wire.session(&mut out, SESSION);
        self.send(&out).await?;
        self.answer(SESSION).await
    }

    /// Classic tells it in a thread of its own, so that it may come after answers.
    async fn broker(&mut self) -> Result<Introduction, ClientError> {
        loop {
            if let Some(info) = self.broker.take() {
                return Ok(info);
            }
            self.next().await?;
        }
    }

    async fn answer(&mut self, asked: i32) -> Result<(), ClientError> {
        loop {
            match self.next().await? {
                Incoming::Answer { command, result } if command == asked => return result,
                Incoming::Failed { exception, .. } => return Err(ClientError::of_exception(exception)),
                Incoming::Answer { .. }
                | Incoming::Delivery { .. }
                | Incoming::KeepAlive { .. }
                | Incoming::Broker(_)
                | Incoming::WireFormat(_)
                | Incoming::Note(_) => {}
            }
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.stream.write_all(bytes).await.map_err(io)?;
        self.stream.flush().await.map_err(io)
    }

    /// The next command. What says who the broker is, is kept.
    async fn next(&mut self) -> Result<Incoming, ClientError> {
        loop {
            match self.frames.next(&mut self.input)? {
                Some(Frame::Whole(bytes)) => {
                    let incoming = incoming::read(bytes, &Budget::default())?;
                    let Incoming::Broker(info) = incoming else { return Ok(incoming) };
                    self.broker = Some(info);
                    return Ok(Incoming::Note("what the broker is"));
                }
                Some(Frame::Long(_)) => return Err(broken("a frame that is too long for a handshake")),
                None => {
                    if self.stream.read_buf(&mut self.input).await.map_err(io)? == 0 {
                        return Err(ClientError::ClosedByPeer);
                    }
                }
            }
        }
    }
}

fn io(error: io::Error) -> ClientError {
    ClientError::Io(Arc::new(error))
}
