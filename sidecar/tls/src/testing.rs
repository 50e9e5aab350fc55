//! An authority of a test's own, its files, and a server behind TLS.

#![allow(clippy::unwrap_used, reason = "for tests: what can't be made fails the test")]

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Signs certificates. Dropped, it takes its files with it.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
    folder: TempDir,
}

impl Authority {
    /// One that nobody trusts yet.
    #[allow(clippy::new_without_default, reason = "no two are alike: making one is a decision")]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), certificate, folder: TempDir::new().unwrap() }
    }

    /// The folder of its files, for more of them.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file with its certificate.
    pub fn ca(&self) -> PathBuf {
        self.file("ca.crt", &self.certificate.pem())
    }

    /// Files with a client's certificate and its key.
    pub fn identity(&self) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.leaf("client", ExtendedKeyUsagePurpose::ClientAuth);
        (self.file("tls.crt", &certificate.pem()), self.file("tls.key", &key.serialize_pem()))
    }

    /// Starts a server on this host, with a certificate for `name`, that talks with everybody; with `clients` only with
    /// those that have a certificate of theirs.
    pub async fn serve<F>(
        &self,
        name: &str,
        clients: Option<&Self>,
        talk: impl Fn(TlsStream<TcpStream>) -> F + Send + 'static,
    ) -> SocketAddr
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let acceptor = self.acceptor(name, clients);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A refused handshake is what some tests want.
                if let Ok(stream) = acceptor.accept(stream).await {
                    tokio::spawn(talk(stream));
                }
            }
        });
        address
    }

    fn acceptor(&self, name: &str, clients: Option<&Self>) -> TlsAcceptor {
        let (certificate, key) = self.leaf(name, ExtendedKeyUsagePurpose::ServerAuth);
        let provider = Arc::new(ring::default_provider());
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
        TlsAcceptor::from(Arc::new(config))
    }

    fn leaf(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder().join(name);
        fs::write(&path, content).unwrap();
        path
    }
}
