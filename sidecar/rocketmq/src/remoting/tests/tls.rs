use std::{io, net::SocketAddr, sync::Arc};

use lockstep_tls::{TlsError, testing::Authority};

use super::{LONG, peer::Conversation, question};
use crate::remoting::{CallError, ConnectError, Remoting, RemotingConfig, TlsFiles};

/// A peer behind TLS that answers offset questions on each connection.
async fn serve(authority: &Authority, clients: Option<&Authority>) -> SocketAddr {
    authority.serve("127.0.0.1", clients, |stream| Conversation::new(stream).echo()).await
}

async fn call(address: SocketAddr, tls: TlsFiles) -> Result<i64, CallError> {
    let (remoting, _events) = Remoting::new(RemotingConfig { tls: Some(tls), ..RemotingConfig::default() });
    remoting.call(&address.to_string(), &question(6), LONG).await
}

#[tokio::test]
async fn a_peer_behind_tls_is_asked_and_gets_our_certificate() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let ca = Some(authority.ca());
    let address = serve(&authority, None).await;
    assert_eq!(call(address, TlsFiles { ca: ca.clone(), identity: None }).await.unwrap(), 6);
    let address = serve(&authority, Some(&clients)).await;
    let error = call(address, TlsFiles { ca: ca.clone(), identity: None }).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
    assert_eq!(call(address, TlsFiles { ca, identity: Some(clients.identity()) }).await.unwrap(), 6);
}

#[tokio::test]
async fn what_keeps_from_tls_is_told() {
    let authority = Authority::new();
    let address = serve(&authority, None).await;
    let with = async |ca| {
        let error = call(address, TlsFiles { ca: Some(ca), identity: None }).await.unwrap_err();
        let CallError::Connect { cause, .. } = error else { panic!("{error}") };
        cause
    };
    let refused = with(Authority::new().ca()).await;
    assert!(matches!(&refused, ConnectError::Tls(_)), "{refused}");
    assert!(refused.to_string().starts_with("TLS handshake failed: invalid peer certificate"), "{refused}");
    let missing = authority.folder().join("none.crt");
    let unusable = with(missing.clone()).await;
    assert!(matches!(&unusable, ConnectError::File { path, .. } if *path == missing), "{unusable}");
    assert!(
        unusable.to_string().starts_with(&format!("failed to use {}: ", missing.display())),
        "{unusable}"
    );
    let cause = Arc::new(io::Error::other("invalid dns name"));
    let name = ConnectError::from(TlsError::Name { host: "no name".to_owned(), cause });
    assert!(matches!(name, ConnectError::Address), "{name}");
}
