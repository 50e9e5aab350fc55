use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use lockstep_tls::{TlsError, TlsFiles, testing::Authority};
use tokio::net::TcpListener;

use super::{PATIENCE, server::Server};
use crate::client::{ClientError, Connection, Endpoint, OpenConfig};

/// A broker behind TLS that agrees with everybody; with `clients` only with those that have a certificate of theirs.
async fn serve(authority: &Authority, clients: Option<&Authority>) -> SocketAddr {
    let talk = |stream| async move {
        let mut server = Server::new(stream);
        // A client that is refused, or that leaves at once, says nothing.
        if server.frame().await.is_some() {
            server.send(super::server::wire_format(12, None)).await;
            server.send(super::server::broker_info(super::server::CLASSIC_ID, "t")).await;
            while let Some(command) = server.next().await {
                server.response(command.id).await;
            }
        }
    };
    authority.serve("localhost", clients, talk).await
}

async fn open(
    address: SocketAddr,
    host: &str,
    tls: TlsFiles,
    connect_timeout: Duration,
) -> Result<Connection, ClientError> {
    let endpoint = Endpoint { host: host.to_owned(), port: address.port(), tls: true };
    let config = OpenConfig { tls: Some(tls), connect_timeout, ..OpenConfig::default() };
    Connection::open(&endpoint, &config).await
}

#[tokio::test]
async fn a_broker_behind_tls_is_agreed_with_and_gets_our_certificate() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let ca = Some(authority.ca());
    let address = serve(&authority, None).await;
    let anonymous = TlsFiles { ca: ca.clone(), identity: None };
    let connection = open(address, "localhost", anonymous.clone(), PATIENCE).await.unwrap();
    connection.alive().await.unwrap();
    connection.close().await;
    let address = serve(&authority, Some(&clients)).await;
    let known = TlsFiles { ca, identity: Some(clients.identity()) };
    open(address, "localhost", known, PATIENCE).await.unwrap();
    let error = open(address, "localhost", anonymous, PATIENCE).await.unwrap_err();
    // With TLS 1.3 the refusal comes after the handshake, and a reset can overtake it.
    let reset = matches!(&error, ClientError::Io(cause) if cause.kind() == io::ErrorKind::ConnectionReset);
    assert!(reset || matches!(error, ClientError::TlsFailed { .. }), "{error:?}");
}

#[tokio::test]
async fn what_keeps_from_tls_is_told() {
    let authority = Authority::new();
    let address = serve(&authority, None).await;
    let with = async |host, ca| {
        open(address, host, TlsFiles { ca: Some(ca), identity: None }, PATIENCE).await.unwrap_err()
    };
    // The certificate is not for the address.
    for (host, ca) in [("localhost", Authority::new().ca()), ("127.0.0.1", authority.ca())] {
        let refused = with(host, ca).await;
        assert!(matches!(&refused, ClientError::TlsFailed { .. }), "{refused}");
        let told = format!("TLS handshake with {host} failed: ");
        assert!(refused.to_string().starts_with(&told), "{refused}");
    }
    let missing = authority.folder().join("missing.crt");
    let unusable = with("localhost", missing.clone()).await;
    assert!(matches!(&unusable, ClientError::TlsFile { path, .. } if *path == missing), "{unusable}");
    let cause = Arc::new(io::Error::other("invalid dns name"));
    let name = TlsError::Name { host: "no name".to_owned(), cause };
    let told = ClientError::of_tls("no name", name).to_string();
    assert_eq!(told, "TLS handshake with no name failed: invalid dns name");
}

#[tokio::test]
async fn an_address_that_says_nothing_is_given_up() {
    let authority = Authority::new();
    // Nobody takes the connection, so that nobody answers the handshake.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let files = TlsFiles { ca: Some(authority.ca()), identity: None };
    let after = Duration::from_millis(50);
    let error = open(listener.local_addr().unwrap(), "localhost", files, after).await.unwrap_err();
    assert!(
        matches!(error, ClientError::Timeout { what: "connecting", after: told } if told == after),
        "{error}"
    );
}
