use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    AmqpError, Close, Credentials, Fields, Malformed, OpenConfig, ServerInfo,
    codec::{
        ConnectionCall, ConnectionMethod, FRAME_LEAST, Frame, FrameReader, Kind, Method, PROTOCOL_HEADER,
        text_of,
    },
    dial::Stream,
};

/// The largest frame that we agree to, the default of RabbitMQ: a body up to this size needs no copy.
const FRAME: u32 = 128 * 1024;

/// The most channels that we agree to, the default of RabbitMQ. One queue takes one.
const CHANNELS: u16 = 2047;

/// Reply codes of AMQP 0-9-1.
const ACCESS_REFUSED: u16 = 403;
const NOT_ALLOWED: u16 = 530;

/// What both sides agreed on.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) server: ServerInfo,
    pub(super) heartbeat: Duration,
    pub(super) channels: u16,
    pub(super) frame: u32,
    /// What was read behind the last answer.
    pub(super) input: BytesMut,
}

/// Agrees with a broker up to `connection.open-ok`.
pub(super) async fn handshake(
    stream: &mut Box<dyn Stream>,
    config: &OpenConfig,
) -> Result<Agreed, AmqpError> {
    let mut talk = Talk { stream, reader: FrameReader::new(FRAME), input: BytesMut::new() };
    talk.send(PROTOCOL_HEADER).await?;
    let ConnectionMethod::Start { properties, mechanisms } = talk.next().await? else {
        return Err(out_of_order());
    };
    let server = ServerInfo::from_properties(&properties);
    let (mechanism, response) = credentials(&config.credentials, &mechanisms)?;
    let about = client_properties(&config.name);
    let properties = about.raw().ok_or(AmqpError::TooLong { what: "the connection's name" })?;
    talk.call(ConnectionCall::StartOk { properties, mechanism, response: &response }).await?;
    let (channels, frame, heartbeat) = match talk.next().await {
        Ok(ConnectionMethod::Tune { channels, frame, heartbeat }) => (channels, frame, heartbeat),
        Err(AmqpError::ClosedByServer(Close { code: ACCESS_REFUSED, text, .. })) => {
            return Err(AmqpError::AuthRefused { text });
        }
        // What brokers do that can't say why.
        Err(AmqpError::ClosedByPeer) => {
            return Err(AmqpError::AuthRefused { text: "it hung up after they were sent".to_owned() });
        }
        Ok(_) => return Err(out_of_order()),
        Err(error) => return Err(error),
    };
    // 0 stands for no bound.
    let channels = if channels == 0 { CHANNELS } else { channels.min(CHANNELS) };
    let frame = if frame == 0 { FRAME } else { frame.clamp(FRAME_LEAST, FRAME) };
    let wanted = u16::try_from(config.heartbeat.as_secs()).unwrap_or(u16::MAX).max(1);
    let heartbeat = if heartbeat == 0 { wanted } else { heartbeat.min(wanted) };
    talk.call(ConnectionCall::TuneOk { channels, frame, heartbeat }).await?;
    talk.call(ConnectionCall::Open { vhost: &config.vhost }).await?;
    match talk.next().await {
        Ok(ConnectionMethod::OpenOk) => {}
        Err(AmqpError::ClosedByServer(Close { code: ACCESS_REFUSED | NOT_ALLOWED, text, .. })) => {
            return Err(AmqpError::VhostRefused { vhost: config.vhost.as_str().into(), text });
        }
        Ok(_) => return Err(out_of_order()),
        Err(error) => return Err(error),
    }
    let heartbeat = Duration::from_secs(heartbeat.into());
    Ok(Agreed { server, heartbeat, channels, frame, input: talk.input })
}

fn out_of_order() -> AmqpError {
    Malformed::Order("method of the handshake").into()
}

fn credentials(credentials: &Credentials, offered: &[u8]) -> Result<(&'static str, Vec<u8>), AmqpError> {
    let (wanted, response) = match credentials {
        // RFC 4616: nobody to act for, the user, the password.
        Credentials::Plain { username, password } => {
            ("PLAIN", format!("\0{username}\0{password}").into_bytes())
        }
        Credentials::External => ("EXTERNAL", Vec::new()),
    };
    if offered.split(|byte| *byte == b' ').any(|mechanism| mechanism == wanted.as_bytes()) {
        Ok((wanted, response))
    } else {
        Err(AmqpError::Mechanism { wanted, offered: text_of(offered) })
    }
}

/// Who we say we are, and what we understand beside the standard: without these a broker neither tells of ended
/// consumers and alarms nor why it refuses credentials.
fn client_properties(name: &str) -> Fields {
    let capabilities =
        ["authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify"]
            .into_iter()
            .chain(["publisher_confirms"])
            .fold(Fields::new(), |fields, capability| fields.flag(capability, true));
    Fields::new()
        .text("product", "Lockstep")
        .text("version", env!("CARGO_PKG_VERSION"))
        .text("connection_name", name)
        .table("capabilities", &capabilities)
}

struct Talk<'a> {
    stream: &'a mut Box<dyn Stream>,
    reader: FrameReader,
    input: BytesMut,
}

impl Talk<'_> {
    async fn send(&mut self, bytes: &[u8]) -> Result<(), AmqpError> {
        self.stream.write_all(bytes).await.map_err(io)?;
        self.stream.flush().await.map_err(io)
    }

    async fn call(&mut self, call: ConnectionCall<'_>) -> Result<(), AmqpError> {
        let mut out = BytesMut::new();
        call.write(&mut out).ok_or(AmqpError::TooLong { what: "user, password or virtual host" })?;
        self.send(&out).await
    }

    /// The next method on channel 0; that the broker closes is an error.
    async fn next(&mut self) -> Result<ConnectionMethod, AmqpError> {
        loop {
            match self.reader.next(&mut self.input)? {
                Some(Frame::Whole { kind: Kind::Method, channel: 0, payload }) => {
                    let Method::Connection(method) = Method::parse(payload)? else {
                        return Err(out_of_order());
                    };
                    let ConnectionMethod::Close(closed) = method else { return Ok(method) };
                    // The broker has said all; whether it hears the answer changes nothing.
                    drop(self.call(ConnectionCall::CloseOk).await);
                    return Err(AmqpError::ClosedByServer(Close::new(&closed)));
                }
                Some(Frame::Whole { kind: Kind::Heartbeat, channel: 0, .. }) => {}
                Some(Frame::Whole { .. } | Frame::LongHeader { .. }) => return Err(out_of_order()),
                None => {
                    if self.stream.read_buf(&mut self.input).await.map_err(io)? == 0 {
                        return Err(AmqpError::ClosedByPeer);
                    }
                }
            }
        }
    }
}

fn io(error: std::io::Error) -> AmqpError {
    AmqpError::Io(Arc::new(error))
}
