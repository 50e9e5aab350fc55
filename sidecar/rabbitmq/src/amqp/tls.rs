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
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{AmqpError, TlsFiles};

/// Names the system's bundle, as OpenSSL has it.
const BUNDLE_VARIABLE: &str = "SSL_CERT_FILE";

/// Where distributions keep the bundle of authorities.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// Speaks TLS with a peer whose certificate must be for `host`.
pub(super) async fn handshake(
    files: &TlsFiles,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, AmqpError> {
    let failed = |error| AmqpError::Tls { host: host.into(), cause: Arc::new(error) };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let connector = TlsConnector::from(Arc::new(config(files).await?));
    connector.connect(name, stream).await.map_err(failed)
}

async fn config(files: &TlsFiles) -> Result<ClientConfig, AmqpError> {
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

async fn roots(ca: Option<&Path>) -> Result<RootCertStore, AmqpError> {
    let system = || std::env::var_os(BUNDLE_VARIABLE).map(PathBuf::from).or_else(bundle);
    let path = ca.map(Path::to_owned).or_else(system).ok_or_else(|| AmqpError::TlsFile {
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
async fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, AmqpError> {
    let pem = read(path).await?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|error| unusable(path, &error))?;
    if certificates.is_empty() {
        return Err(unusable(path, &"it holds no certificate in PEM form"));
    }
    Ok(certificates)
}

async fn read(path: &Path) -> Result<Vec<u8>, AmqpError> {
    tokio::fs::read(path).await.map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> AmqpError {
    AmqpError::TlsFile { path: path.to_owned(), reason: reason.to_string() }
}
