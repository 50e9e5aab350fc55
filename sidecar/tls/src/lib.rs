//! TLS to a broker: the files that say whom to trust and who we are, and a handshake that verifies the peer.

mod error;
#[cfg(feature = "testing")]
pub mod testing;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use error::TlsError;
pub use tokio_rustls::client::TlsStream;

/// Names the system's bundle, as OpenSSL has it.
const BUNDLE_VARIABLE: &str = "SSL_CERT_FILE";

/// Where distributions keep the bundle of authorities.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// Files for TLS, read again at each connect so that rotated ones are used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities to trust; absent = the system's.
    pub ca: Option<PathBuf>,
    /// Our own certificate chain and its key, for brokers that ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Speaks TLS with a peer whose certificate must be for `host`. Has no bound in time of its own.
///
/// # Errors
/// A file can't be used, or there is no peer at the other end that the files make trustworthy.
pub async fn handshake(
    files: &TlsFiles,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, TlsError> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| TlsError::Name {
        host: host.to_owned(),
        cause: Arc::new(io::Error::new(io::ErrorKind::InvalidInput, error)),
    })?;
    let connector = TlsConnector::from(Arc::new(config(files).await?));
    connector.connect(name, stream).await.map_err(|error| TlsError::Handshake(Arc::new(error)))
}

/// Whether a stream failed because the peer refused us with an alert of TLS. With TLS 1.3 a server says only after the
/// handshake that it does not take our certificate, so that the alert is met by whoever reads first.
pub fn is_alert(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::AlertReceived(_)))
}

async fn config(files: &TlsFiles) -> Result<ClientConfig, TlsError> {
    let roots = roots(files.ca.as_deref()).await?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider must know the default versions")
        .with_root_certificates(roots);
    let Some((chain, key)) = &files.identity else { return Ok(builder.with_no_client_auth()) };
    let certificates = certificates(chain).await?;
    let secret = PrivateKeyDer::from_pem_slice(&read(key).await?).map_err(|error| unusable(key, &error))?;
    builder.with_client_auth_cert(certificates, secret).map_err(|error| unusable(key, &error))
}

async fn roots(ca: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let system = || std::env::var_os(BUNDLE_VARIABLE).map(PathBuf::from).or_else(bundle);
    let path = ca.map(Path::to_owned).or_else(system).ok_or_else(|| TlsError::File {
        path: PathBuf::from(BUNDLES[0]),
        reason: "there is no bundle of authorities on this system; name the authority's certificate in \
                 tls.caSecretRef"
            .to_owned(),
    })?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(&path).await?);
    if added == 0 {
        return Err(unusable(&path, &"no certificate in it can be used as an authority"));
    }
    Ok(roots)
}

fn bundle() -> Option<PathBuf> {
    BUNDLES.iter().map(PathBuf::from).find(|path| path.exists())
}

/// All certificates in a PEM file.
async fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(path).await?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|error| unusable(path, &error))?;
    if certificates.is_empty() {
        return Err(unusable(path, &"it holds no certificate in PEM form"));
    }
    Ok(certificates)
}

async fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    tokio::fs::read(path).await.map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { path: path.to_owned(), reason: reason.to_string() }
}
