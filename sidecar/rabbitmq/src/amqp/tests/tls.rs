use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use lockstep_tls::{TlsError, testing::Authority};

use super::server::Server;
use crate::amqp::{AmqpError, Connection, Endpoint, OpenConfig, TlsFiles};

/// A broker behind TLS that agrees with everybody; with `clients` only with those that have a certificate of theirs.
async fn serve(authority: &Authority, clients: Option<&Authority>) -> SocketAddr {
    let talk = |stream| async move {
        let mut server = Server::new(stream);
        server.agree().await;
        // A client that leaves at once opens no channel.
        if let Some((_, 1, _)) = server.next().await {
            server.method(1, "0014 000b 00000000").await;
            server.next().await;
        }
    };
    authority.serve("localhost", clients, talk).await
}

async fn open(address: SocketAddr, host: &str, tls: TlsFiles) -> Result<Connection, AmqpError> {
    let endpoint = Endpoint { host: host.to_owned(), port: address.port() };
    // Real sockets need real time; a busy machine may take long.
    let connect_timeout = Duration::from_secs(60);
    Connection::open(&endpoint, &OpenConfig { tls: Some(tls), connect_timeout, ..OpenConfig::default() })
        .await
}

#[tokio::test]
async fn a_broker_behind_tls_is_agreed_with_and_gets_our_certificate() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let ca = Some(authority.ca());
    let address = serve(&authority, None).await;
    let connection = open(address, "localhost", TlsFiles { ca: ca.clone(), identity: None }).await.unwrap();
    connection.open_channel().await.unwrap();
    let address = serve(&authority, Some(&clients)).await;
    open(address, "localhost", TlsFiles { ca: ca.clone(), identity: Some(clients.identity()) })
        .await
        .unwrap();
    let error = open(address, "localhost", TlsFiles { ca, identity: None }).await.unwrap_err();
    // With TLS 1.3 the refusal comes after the handshake, and a reset can overtake it.
    assert!(matches!(error, AmqpError::Tls { .. } | AmqpError::Io(_) | AmqpError::ClosedByPeer), "{error}");
}

#[tokio::test]
async fn what_keeps_from_tls_is_told() {
    let authority = Authority::new();
    let address = serve(&authority, None).await;
    let with =
        async |host, ca| open(address, host, TlsFiles { ca: Some(ca), identity: None }).await.unwrap_err();
    // The certificate is not for the address.
    for (host, ca) in [("localhost", Authority::new().ca()), ("127.0.0.1", authority.ca())] {
        let refused = with(host, ca).await;
        assert!(matches!(&refused, AmqpError::Tls { .. }), "{refused}");
        let told = format!("TLS handshake with {host} failed: ");
        assert!(refused.to_string().starts_with(&told), "{refused}");
    }
    let missing = authority.folder().join("missing.crt");
    let unusable = with("localhost", missing.clone()).await;
    assert!(matches!(&unusable, AmqpError::TlsFile { path, .. } if *path == missing), "{unusable}");
    assert!(
        unusable.to_string().starts_with(&format!("failed to use {}: ", missing.display())),
        "{unusable}"
    );
    let cause = Arc::new(io::Error::other("invalid dns name"));
    let name = TlsError::Name { host: "no name".to_owned(), cause };
    let told = AmqpError::of_tls("no name", name).to_string();
    assert_eq!(told, "TLS handshake with no name failed: invalid dns name");
}
