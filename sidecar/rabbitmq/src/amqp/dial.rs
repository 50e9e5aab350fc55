use std::{io, sync::Arc};

use lockstep_tls::handshake;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::timeout,
};

use super::{AmqpError, Endpoint, OpenConfig};

/// A byte stream to a peer, plain or encrypted.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Reaches a peer: looks up its name, tries its addresses one after the other, and speaks TLS if asked to.
pub(crate) async fn dial(endpoint: &Endpoint, config: &OpenConfig) -> Result<Box<dyn Stream>, AmqpError> {
    let after = config.connect_timeout;
    timeout(after, open(endpoint, config)).await.unwrap_or_else(|_| {
        Err(AmqpError::ConnectTimeout { address: endpoint.to_string().into(), what: "connecting", after })
    })
}

async fn open(endpoint: &Endpoint, config: &OpenConfig) -> Result<Box<dyn Stream>, AmqpError> {
    let host = endpoint.host.as_str();
    let unknown = |error| AmqpError::Dns { host: host.into(), cause: Arc::new(error) };
    let failed = |error| AmqpError::Connect { address: endpoint.to_string().into(), cause: Arc::new(error) };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut connected = None;
    let mut found = false;
    for address in lookup_host((host, endpoint.port)).await.map_err(unknown)? {
        found = true;
        match TcpStream::connect(address).await {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(error) => last = error,
        }
    }
    let Some(stream) = connected else {
        return Err(if found { failed(last) } else { unknown(last) });
    };
    stream.set_nodelay(true).map_err(failed)?;
    match &config.tls {
        None => Ok(Box::new(stream)),
        Some(files) => match handshake(files, host, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(AmqpError::of_tls(host, error)),
        },
    }
}
