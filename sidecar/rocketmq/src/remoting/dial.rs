use std::sync::Arc;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};

use super::{ConnectError, RemotingConfig};
use crate::codec::Credentials;

/// A byte stream to a peer, plain or encrypted.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An open connection.
pub(super) struct Dialed {
    pub(super) stream: Box<dyn Stream>,
    pub(super) credentials: Option<Credentials>,
}

/// Opens a connection to an address, or to the one that is to be used instead.
pub(super) async fn dial(config: &RemotingConfig, address: &str) -> Result<Dialed, ConnectError> {
    let target = config.overrides.get(address).map_or(address, String::as_str);
    let limit = config.connect_timeout;
    timeout(limit, open(config, target)).await.unwrap_or(Err(ConnectError::Timeout(limit)))
}

async fn open(config: &RemotingConfig, target: &str) -> Result<Dialed, ConnectError> {
    let (host, port) = host_and_port(target).ok_or(ConnectError::Address)?;
    let credentials = config.credentials.read().await?;
    let failed = |error| ConnectError::Io(Arc::new(error));
    let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let stream: Box<dyn Stream> = match &config.tls {
        None => Box::new(stream),
        Some(files) => Box::new(lockstep_tls::handshake(files, host, stream).await?),
    };
    Ok(Dialed { stream, credentials })
}

/// Parts `host:port` and `[v6]:port`.
fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.strip_suffix(']')?,
        None => host,
    };
    (!host.is_empty()).then_some((host, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::host_and_port;

    #[test]
    fn addresses_are_a_host_and_a_port() {
        assert_eq!(host_and_port("broker.mq:10911"), Some(("broker.mq", 10911)));
        assert_eq!(host_and_port("[fd00::7]:9876"), Some(("fd00::7", 9876)));
        for wrong in ["broker", "broker:", ":1", "b:70000", "[fd00::7:9876", ""] {
            assert_eq!(host_and_port(wrong), None, "{wrong}");
        }
    }
}
