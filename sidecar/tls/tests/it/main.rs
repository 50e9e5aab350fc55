//! Real handshakes on this host.

#![allow(clippy::unwrap_used, reason = "a test that can't go on must say so and fail")]

use std::{error::Error, fs, io, net::SocketAddr};

use lockstep_tls::{TlsError, TlsFiles, handshake, is_alert, testing::Authority};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A server that greets.
async fn serve(authority: &Authority, name: &str, clients: Option<&Authority>) -> SocketAddr {
    let greet = |mut stream: tokio_rustls::server::TlsStream<TcpStream>| async move {
        stream.write_all(b"hello").await.unwrap();
        stream.shutdown().await.unwrap();
    };
    authority.serve(name, clients, greet).await
}

/// What the server says to one who trusts that authority.
async fn hear(address: SocketAddr, host: &str, files: &TlsFiles) -> Result<String, Box<dyn Error>> {
    let stream = TcpStream::connect(address).await?;
    let mut heard = String::new();
    handshake(files, host, stream).await?.read_to_string(&mut heard).await?;
    Ok(heard)
}

async fn refused(address: SocketAddr, host: &str, files: &TlsFiles) -> TlsError {
    *hear(address, host, files).await.unwrap_err().downcast().unwrap()
}

fn trusting(authority: &Authority) -> TlsFiles {
    TlsFiles { ca: Some(authority.ca()), identity: None }
}

#[tokio::test]
async fn a_certificate_of_the_right_authority_and_for_the_right_name_is_taken() {
    let authority = Authority::new();
    for name in ["localhost", "127.0.0.1"] {
        let address = serve(&authority, name, None).await;
        assert_eq!(hear(address, name, &trusting(&authority)).await.unwrap(), "hello");
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_or_for_another_name_is_refused() {
    let authority = Authority::new();
    let address = serve(&authority, "localhost", None).await;
    let others = refused(address, "localhost", &trusting(&Authority::new())).await;
    let name = refused(address, "127.0.0.1", &trusting(&authority)).await;
    for error in [others, name] {
        assert!(matches!(error, TlsError::Handshake(_)), "{error:?}");
        assert!(error.to_string().starts_with("TLS handshake failed: invalid peer certificate"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_ours() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let address = serve(&authority, "localhost", Some(&clients)).await;
    let with = |identity| TlsFiles { identity, ..trusting(&authority) };
    assert_eq!(hear(address, "localhost", &with(Some(clients.identity()))).await.unwrap(), "hello");
    // With TLS 1.3 the refusal comes after the handshake.
    for identity in [None, Some(authority.identity())] {
        let error = hear(address, "localhost", &with(identity)).await.unwrap_err();
        assert!(error.to_string().contains("received fatal alert"), "{error}");
        assert!(is_alert(error.downcast_ref().unwrap()));
    }
    let other = TlsFiles { ca: Some(clients.ca()), identity: None };
    let TlsError::Handshake(other) = refused(address, "localhost", &other).await else { panic!() };
    assert!(!is_alert(&other) && !is_alert(&io::ErrorKind::InvalidData.into()));
}

#[tokio::test]
async fn files_that_can_not_be_used_are_named_with_what_is_wrong() {
    let authority = Authority::new();
    let address = serve(&authority, "localhost", None).await;
    let missing = authority.folder().join("missing");
    let empty = authority.folder().join("empty");
    fs::write(&empty, "").unwrap();
    let (chain, key) = authority.identity();
    let (_, other_key) = Authority::new().identity();
    let ca = |ca| TlsFiles { ca: Some(ca), identity: None };
    let identity = |chain, key| TlsFiles { identity: Some((chain, key)), ..trusting(&authority) };
    for (files, named, why) in [
        (ca(missing.clone()), &missing, "No such file"),
        (ca(empty.clone()), &empty, "it holds no certificate in PEM form"),
        (identity(missing.clone(), key.clone()), &missing, "No such file"),
        (identity(chain.clone(), missing.clone()), &missing, "No such file"),
        (identity(chain.clone(), chain.clone()), &chain, "no items found"),
        (identity(chain.clone(), other_key.clone()), &other_key, ""),
    ] {
        let error = refused(address, "localhost", &files).await;
        assert!(error.to_string().starts_with(&format!("failed to use {}: ", named.display())), "{error}");
        assert!(
            matches!(&error, TlsError::File { path, reason } if path == named && reason.contains(why)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_host_that_no_certificate_can_be_for_is_refused() {
    let authority = Authority::new();
    let address = serve(&authority, "localhost", None).await;
    let error = refused(address, "no name", &trusting(&authority)).await;
    assert!(matches!(&error, TlsError::Name { host, .. } if host == "no name"), "{error:?}");
    assert_eq!(error.to_string(), "no name is neither a name nor an address: invalid dns name");
}
