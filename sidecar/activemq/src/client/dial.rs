use std::{io, sync::Arc};

use lockstep_tls::handshake;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::timeout,
};

use super::{ClientError, Endpoint, OpenConfig};

/// A byte stream to a peer, plain or encrypted.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Reaches a peer: looks up its name, tries its addresses one after the other, and speaks TLS if asked to.
///
/// Cancel safe: nothing is left behind.
pub(super) async fn dial(endpoint: &Endpoint, config: &OpenConfig) -> Result<Box<dyn Stream>, ClientError> {
    let after = config.connect_timeout;
    timeout(after, open(endpoint, config))
        .await
        .unwrap_or(Err(ClientError::Timeout { what: "connecting", after }))
}

async fn open(endpoint: &Endpoint, config: &OpenConfig) -> Result<Box<dyn Stream>, ClientError> {
    let host = endpoint.host.as_str();
    let failed =
        |error| ClientError::Unreachable { address: endpoint.to_string().into(), cause: Arc::new(error) };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut connected = None;
    for address in lookup_host((host, endpoint.port)).await.map_err(failed)? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(error) => last = error,
        }
    }
    let stream = connected.ok_or_else(|| failed(last))?;
    stream.set_nodelay(true).map_err(failed)?;
    if !endpoint.tls {
        return Ok(Box::new(stream));
    }
    let files = config.tls.clone().unwrap_or_default();
    match handshake(&files, host, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(ClientError::of_tls(host, error)),
    }
}
