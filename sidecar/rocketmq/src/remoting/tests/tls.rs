use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{LONG, peer::Conversation, question};
use crate::remoting::{CallError, ConnectError, Remoting, RemotingConfig, TlsFiles};

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

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        roots
    }
}

/// A peer behind TLS that answers offset questions on each connection.
async fn serve(authority: &Authority, name: &str, clients: Option<&Authority>) -> SocketAddr {
    let (certificate, key) = authority.leaf(name, ExtendedKeyUsagePurpose::ServerAuth);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let roots = Arc::new(clients.roots());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
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
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(Conversation::new(stream).echo());
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

async fn call(address: SocketAddr, tls: TlsFiles) -> Result<i64, CallError> {
    let (remoting, _events) = Remoting::new(RemotingConfig { tls: Some(tls), ..RemotingConfig::default() });
    remoting.call(&address.to_string(), &question(6), LONG).await
}

#[tokio::test]
async fn a_certificate_of_the_right_authority_is_taken() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new();
    let address = serve(&authority, "127.0.0.1", None).await;
    let ca = Some(file(&folder, "ca.crt", &authority.certificate.pem()));
    assert_eq!(call(address, TlsFiles { ca, identity: None }).await.unwrap(), 6);
}

#[tokio::test]
async fn a_certificate_of_another_authority_or_name_is_refused() {
    let folder = TempDir::new().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    let address = serve(&authority, "127.0.0.1", None).await;
    let ca = Some(file(&folder, "other.crt", &other.certificate.pem()));
    let error = call(address, TlsFiles { ca, identity: None }).await.unwrap_err();
    assert!(matches!(&error, CallError::Connect { cause: ConnectError::Tls(_), .. }), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");

    let address = serve(&authority, "broker.example", None).await;
    let ca = Some(file(&folder, "ca.crt", &authority.certificate.pem()));
    let error = call(address, TlsFiles { ca, identity: None }).await.unwrap_err();
    assert!(matches!(&error, CallError::Connect { cause: ConnectError::Tls(_), .. }), "{error}");
}

#[tokio::test]
async fn a_client_certificate_is_shown_when_asked_for() {
    let folder = TempDir::new().unwrap();
    let (authority, clients) = (Authority::new(), Authority::new());
    let address = serve(&authority, "127.0.0.1", Some(&clients)).await;
    let ca = Some(file(&folder, "ca.crt", &authority.certificate.pem()));
    let error = call(address, TlsFiles { ca: ca.clone(), identity: None }).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");

    let (certificate, key) = clients.leaf("lockstep", ExtendedKeyUsagePurpose::ClientAuth);
    let chain = file(&folder, "tls.crt", &certificate.pem());
    let key = file(&folder, "tls.key", &key.serialize_pem());
    assert_eq!(call(address, TlsFiles { ca, identity: Some((chain, key)) }).await.unwrap(), 6);
}

#[tokio::test]
async fn files_that_can_t_be_used_are_named() {
    let folder = TempDir::new().unwrap();
    let address = serve(&Authority::new(), "127.0.0.1", None).await;
    let missing = folder.path().join("none.crt");
    let error = call(address, TlsFiles { ca: Some(missing), identity: None }).await.unwrap_err();
    assert!(error.to_string().contains("none.crt"), "{error}");
    let empty = file(&folder, "empty.crt", "");
    let error = call(address, TlsFiles { ca: Some(empty), identity: None }).await.unwrap_err();
    assert!(error.to_string().contains("no certificate in PEM form"), "{error}");
}
