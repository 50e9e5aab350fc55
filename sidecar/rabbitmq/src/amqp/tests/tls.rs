use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::server::Server;
use crate::amqp::{AmqpError, Connection, Endpoint, OpenConfig, TlsFiles};

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn leaf(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

/// A broker behind TLS that agrees with everybody; with `clients` only with those that have a certificate of theirs.
async fn serve(authority: &Authority, name: &str, clients: Option<&Authority>) -> SocketAddr {
    let (certificate, key) = authority.leaf(name, ExtendedKeyUsagePurpose::ServerAuth);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(clients.certificate.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A refused handshake is what some tests want.
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let mut server = Server::new(stream);
            server.agree().await;
            // A client that leaves at once opens no channel.
            if let Some((_, 1, _)) = server.next().await {
                server.method(1, "0014 000b 00000000").await;
                server.next().await;
            }
        }
    });
    address
}

fn file(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path
}

async fn open(address: SocketAddr, host: &str, tls: TlsFiles) -> Result<Connection, AmqpError> {
    let endpoint = Endpoint { host: host.to_owned(), port: address.port() };
    // Real sockets need real time; a busy machine may take long.
    let connect_timeout = Duration::from_secs(60);
    Connection::open(&endpoint, &OpenConfig { tls: Some(tls), connect_timeout, ..OpenConfig::default() })
        .await
}

#[tokio::test]
async fn a_known_authority_and_the_right_name_are_enough() {
    let authority = Authority::new();
    let address = serve(&authority, "localhost", None).await;
    let folder = TempDir::new().unwrap();
    let ca = Some(file(&folder, "ca.crt", &authority.certificate.pem()));
    let connection = open(address, "localhost", TlsFiles { ca: ca.clone(), identity: None }).await.unwrap();
    connection.open_channel().await.unwrap();
    // The certificate is not for the address.
    let error = open(address, "127.0.0.1", TlsFiles { ca, identity: None }).await.unwrap_err();
    assert!(matches!(error, AmqpError::Tls { .. }), "{error}");
}

#[tokio::test]
async fn another_authority_is_not_trusted() {
    let address = serve(&Authority::new(), "localhost", None).await;
    let folder = TempDir::new().unwrap();
    let ca = Some(file(&folder, "ca.crt", &Authority::new().certificate.pem()));
    let error = open(address, "localhost", TlsFiles { ca, identity: None }).await.unwrap_err();
    assert!(matches!(error, AmqpError::Tls { .. }), "{error}");
}

#[tokio::test]
async fn a_broker_that_asks_for_a_certificate_gets_ours() {
    let authority = Authority::new();
    let address = serve(&authority, "localhost", Some(&authority)).await;
    let folder = TempDir::new().unwrap();
    let ca = Some(file(&folder, "ca.crt", &authority.certificate.pem()));
    let (certificate, key) = authority.leaf("client", ExtendedKeyUsagePurpose::ClientAuth);
    let chain = file(&folder, "client.crt", &certificate.pem());
    let key = file(&folder, "client.key", &key.serialize_pem());
    open(address, "localhost", TlsFiles { ca: ca.clone(), identity: Some((chain, key)) }).await.unwrap();
    let error = open(address, "localhost", TlsFiles { ca, identity: None }).await.unwrap_err();
    // With TLS 1.3 the refusal comes after the handshake, and a reset can overtake it.
    assert!(matches!(error, AmqpError::Tls { .. } | AmqpError::Io(_) | AmqpError::ClosedByPeer), "{error}");
}

#[tokio::test]
async fn files_that_can_not_be_used_are_named() {
    let address = serve(&Authority::new(), "localhost", None).await;
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("missing.crt");
    for ca in [missing, file(&folder, "empty.crt", "")] {
        let files = TlsFiles { ca: Some(ca.clone()), identity: None };
        let error = open(address, "localhost", files).await.unwrap_err();
        assert!(matches!(&error, AmqpError::TlsFile { path, .. } if *path == ca), "{error}");
    }
}
