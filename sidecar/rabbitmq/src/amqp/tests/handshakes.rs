use std::{sync::Arc, time::Duration};

use super::server::Server;
use crate::amqp::{AmqpError, Connection, Credentials, Endpoint, OpenConfig};

/// What becomes of opening a connection to a broker that does what is said.
async fn open(config: OpenConfig, broker: impl AsyncFnOnce(&mut Server)) -> Result<Connection, AmqpError> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut server = Server::new(theirs);
    let script = async {
        broker(&mut server).await;
        server
    };
    tokio::join!(Connection::over(Box::new(ours), "broker:5672", &config), script).0
}

#[tokio::test(start_paused = true)]
async fn what_both_want_is_agreed_on() {
    let (connection, _server) = super::connected(&OpenConfig::default()).await;
    assert_eq!(connection.server().product, "RabbitMQ");
    assert_eq!(connection.server().version, "3.9.9");
    assert_eq!(connection.heartbeat(), Duration::from_secs(10));
    assert!(connection.is_open() && !connection.is_blocked());
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_says_who_we_are() {
    let config = OpenConfig { name: "pod-1".to_owned(), ..OpenConfig::default() };
    drop(
        open(config, async |server| {
            server.start().await;
            let start_ok = server.next().await.unwrap().2;
            let text = String::from_utf8_lossy(&start_ok).into_owned();
            for part in ["pod-1", "consumer_cancel_notify", "authentication_failure_close", "\u{5}PLAIN"] {
                assert!(text.contains(part), "{part} in {text:?}");
            }
            assert!(text.ends_with("\0\0\0\u{c}\0guest\0guest\u{5}en_US"), "{text:?}");
        })
        .await,
    );
}

#[tokio::test(start_paused = true)]
async fn a_shorter_heartbeat_of_the_broker_wins_and_no_bounds_are_ours() {
    let opened = open(OpenConfig::default(), async |server| {
        server.start().await;
        server.next().await.unwrap();
        server.method(0, "000a 001e 0000 00000000 0005").await;
        server.expect(0, "000a 001f 07ff 00020000 0005").await;
        server.next().await.unwrap();
        server.method(0, "000a 0029 00").await;
    });
    assert_eq!(opened.await.unwrap().heartbeat(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_told_with_the_brokers_words() {
    let refused = open(OpenConfig::default(), async |server| {
        server.start().await;
        server.next().await.unwrap();
        server.method(0, "000a 0032 0193 06 6e6f20776179 0000 0000").await;
        server.expect(0, "000a 0033").await;
    });
    let error = refused.await.unwrap_err();
    assert!(matches!(&error, AmqpError::AuthRefused { text } if text == "no way"), "{error}");
    assert!(!format!("{error:?}").contains("guest"));
    // An older broker, or one that can't say why, hangs up.
    let hung_up = open(OpenConfig::default(), async |server| {
        server.start().await;
        server.next().await.unwrap();
        tokio::io::AsyncWriteExt::shutdown(&mut server.stream).await.unwrap();
    });
    assert!(matches!(hung_up.await.unwrap_err(), AmqpError::AuthRefused { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_mechanism_that_is_not_offered_is_told() {
    let config = OpenConfig { credentials: Credentials::External, ..OpenConfig::default() };
    let error = open(config, async |server| server.start().await).await.unwrap_err();
    assert!(
        matches!(&error, AmqpError::Mechanism { wanted: "EXTERNAL", offered } if offered == "AMQPLAIN PLAIN"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_virtual_host_is_told() {
    let error = open(OpenConfig::default(), async |server| {
        server.start().await;
        server.next().await.unwrap();
        server.method(0, "000a 001e 0007 00001000 003c").await;
        server.next().await.unwrap();
        server.next().await.unwrap();
        server.method(0, "000a 0032 0212 02 6e6f 000a 0028").await;
        server.expect(0, "000a 0033").await;
    });
    let error = error.await.unwrap_err();
    assert!(
        matches!(&error, AmqpError::VhostRefused { vhost, text } if &**vhost == "/" && text == "no"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn something_else_than_amqp_is_told() {
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"AMQP\0\x01\0\0", b"\x15\x03\x01\0\x02\x02\x0a"]
    {
        let error = open(OpenConfig::default(), async |server| {
            server.header().await;
            tokio::io::AsyncWriteExt::write_all(&mut server.stream, answer).await.unwrap();
        });
        let error = error.await.unwrap_err();
        assert!(matches!(error, AmqpError::Protocol(_)), "{error}");
    }
    let out_of_order = open(OpenConfig::default(), async |server| {
        server.header().await;
        server.method(0, "000a 0029 00").await;
    });
    assert!(matches!(out_of_order.await.unwrap_err(), AmqpError::Protocol(_)));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_says_nothing_is_given_up() {
    let silent = open(OpenConfig::default(), async |server| {
        server.start().await;
        server.next().await.unwrap();
        assert_eq!(server.next().await, None);
    });
    let error = silent.await.unwrap_err();
    assert!(matches!(error, AmqpError::ConnectTimeout { what: "the handshake", .. }), "{error}");
}

#[tokio::test]
async fn nobody_there_and_unknown_names_are_told() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let open = async |host: &str| {
        let endpoint = Endpoint { host: host.to_owned(), port };
        Connection::open(&endpoint, &OpenConfig::default()).await.unwrap_err()
    };
    assert!(matches!(open("127.0.0.1").await, AmqpError::Connect { .. }));
    // No name: the resolver need not be asked.
    assert!(matches!(open("a name.invalid").await, AmqpError::Dns { .. }));
}

#[test]
fn no_secret_is_shown() {
    let credentials = Credentials::Plain { username: "ann".to_owned(), password: Arc::from("geheim") };
    let config = OpenConfig { credentials, ..OpenConfig::default() };
    assert!(!format!("{config:?}").contains("geheim"));
    assert!(format!("{config:?}").contains("ann"));
}

#[test]
fn endpoints_are_shown_as_they_are_written() {
    let show = |host: &str| Endpoint { host: host.to_owned(), port: 5672 }.to_string();
    assert_eq!(show("rabbit.mq"), "rabbit.mq:5672");
    assert_eq!(show("fd00::7"), "[fd00::7]:5672");
}
