use std::{sync::Arc, time::Duration};

use tokio::{io::AsyncWriteExt, net::TcpListener};

use super::{
    config, open, piped,
    server::{
        ARTEMIS_ID, BROKER_INFO, CLASSIC_ID, CONNECTION_INFO, SESSION_INFO, Server, broker_info, command,
        keep_alive, object, sized, string, wire_format,
    },
};
use crate::client::{ClientError, Connection, Credentials, Endpoint, OpenConfig, Product};

#[tokio::test]
async fn we_speak_first_and_ask_for_what_we_can_read() {
    let (opened, _server) = open(config(), async |server| {
        // Nothing was sent to the client yet.
        let theirs = server.frame().await.unwrap();
        assert_eq!(theirs[..9], *b"\x01ActiveMQ");
        assert_eq!(theirs[9..13], [0, 0, 0, 12], "version 12 is offered");
        let text = String::from_utf8_lossy(&theirs).into_owned();
        for (key, value) in [
            ("TightEncodingEnabled", &[1, 0][..]),
            ("CacheEnabled", &[1, 0]),
            ("StackTraceEnabled", &[1, 0]),
            ("SizePrefixDisabled", &[1, 0]),
            ("MaxInactivityDuration", &[6, 0, 0, 0, 0, 0, 0, 0x75, 0x30]),
            // A broker that kept to ours would hang up instead of sending a longer message.
            ("MaxFrameSize", &[6, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ] {
            let key = [&u16::try_from(key.len()).unwrap().to_be_bytes()[..], key.as_bytes(), value].concat();
            assert!(theirs.windows(key.len()).any(|part| part == key), "{key:?} in {text}");
        }
        server.send(wire_format(12, Some(30_000))).await;
        server.send(broker_info(CLASSIC_ID, "t")).await;
        server.answer(CONNECTION_INFO).await;
        server.answer(SESSION_INFO).await;
    })
    .await;
    let connection = opened.unwrap();
    let facts = connection.broker();
    assert_eq!((facts.product, facts.wire_version), (Product::Classic, 12));
    assert_eq!((facts.version.as_str(), facts.name.as_str()), ("6.3.1", "t"));
    assert_eq!(connection.inactivity(), Duration::from_secs(30));
    assert!(connection.is_open());
}

#[tokio::test]
async fn the_connection_is_announced_with_who_we_are() {
    let credentials = Some(Credentials { username: "ann".to_owned(), password: "geheim".into() });
    let config = OpenConfig { credentials, client_id: "pod-1".to_owned(), ..config() };
    let (opened, _server) = open(config, async |server| {
        server.formats(12, Some(30_000)).await;
        server.send(broker_info(CLASSIC_ID, "t")).await;
        let info = server.answer(CONNECTION_INFO).await;
        assert_eq!((info.id, info.answered), (1, true));
        let mut wanted = bytes::BytesMut::new();
        for text in ["pod-1", "geheim", "ann"] {
            string(&mut wanted, text);
        }
        // No path; no master; manageable; the client's own; not reconnecting; no address.
        wanted.extend_from_slice(&[0, 0, 1, 1, 0, 0, 0]);
        assert!(info.body.starts_with(b"\x01\x78\x01\0\x2cID:"), "{info:?}");
        assert!(info.body.ends_with(&wanted), "{info:?}");
        let session = server.answer(SESSION_INFO).await;
        assert_eq!(session.id, 2);
        assert_eq!(session.body[..2], [1, 121]);
        // Of the same connection, number 1.
        assert_eq!(session.body[2..49], info.body[2..49]);
        assert_eq!(session.body[49..], [0, 0, 0, 0, 0, 0, 0, 1]);
    })
    .await;
    opened.unwrap();
}

#[tokio::test]
async fn without_credentials_none_are_sent_and_no_two_connections_have_an_id() {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (opened, server) = open(config(), async |server| server.agree(30_000).await).await;
        opened.unwrap();
        seen.push(server.connection);
    }
    assert_ne!(seen[0], seen[1]);
    let (opened, _server) = open(config(), async |server| {
        server.formats(12, Some(30_000)).await;
        server.send(broker_info(CLASSIC_ID, "t")).await;
        let info = server.answer(CONNECTION_INFO).await;
        assert!(info.body.ends_with(&[0, 0, 0, 0, 1, 1, 0, 0, 0]), "{info:?}");
        server.answer(SESSION_INFO).await;
    })
    .await;
    opened.unwrap();
}

#[tokio::test]
async fn artemis_is_told_by_the_form_of_its_id() {
    for (id, product) in [
        (ARTEMIS_ID, Product::Artemis),
        (CLASSIC_ID, Product::Classic),
        ("03aa826b-ed87-11f1-b53c-02fc00000001-1", Product::Classic),
        ("03aa826b-ed87-11f1-b53c-02fc0000000x", Product::Classic),
        ("broker-1", Product::Classic),
    ] {
        let (opened, _server) = open(config(), async |server| {
            server.formats(12, Some(30_000)).await;
            server.answer(CONNECTION_INFO).await;
            server.answer(SESSION_INFO).await;
            // Classic may tell it after the answers.
            server.send(broker_info(id, "t")).await;
        })
        .await;
        assert_eq!(opened.unwrap().broker().product, product, "{id}");
    }
}

#[tokio::test]
async fn a_broker_that_tells_of_its_peers_is_known_by_its_id() {
    let (opened, _server) = open(config(), async |server| {
        server.formats(12, Some(30_000)).await;
        // Peers are whole introductions, which nobody needs.
        server
            .send(command(BROKER_INFO, |out| {
                out.extend_from_slice(&object(124, |out| string(out, ARTEMIS_ID)));
                out.extend_from_slice(&[0, 1, 0, 1]);
                out.extend_from_slice(&[1]);
                out.extend_from_slice(&broker_info(CLASSIC_ID, "peer"));
                out.extend_from_slice(&[0; 17]);
            }))
            .await;
        server.answer(CONNECTION_INFO).await;
        server.answer(SESSION_INFO).await;
    })
    .await;
    assert_eq!(opened.unwrap().broker().product, Product::Artemis);
}

#[tokio::test]
async fn the_shorter_time_without_a_sign_of_life_wins_and_ours_where_the_broker_has_none() {
    for (theirs, agreed) in [(Some(1500), 1500), (Some(60_000), 20_000), (Some(0), 20_000), (None, 20_000)] {
        let config = OpenConfig { inactivity: Duration::from_secs(20), ..config() };
        let (opened, _server) = open(config, async |server| {
            server.formats(12, theirs).await;
            server.send(broker_info(CLASSIC_ID, "t")).await;
            server.answer(CONNECTION_INFO).await;
            server.answer(SESSION_INFO).await;
        })
        .await;
        assert_eq!(opened.unwrap().inactivity(), Duration::from_millis(agreed), "{theirs:?}");
    }
}

#[tokio::test]
async fn versions_from_10_to_12_are_agreed_on_and_older_ones_are_refused() {
    for (theirs, agreed) in [(10, 10), (11, 11), (12, 12), (13, 12)] {
        let (opened, _server) = open(config(), async |server| {
            server.formats(theirs, Some(30_000)).await;
            server.send(broker_info(CLASSIC_ID, "t")).await;
            server.answer(CONNECTION_INFO).await;
            server.answer(SESSION_INFO).await;
        })
        .await;
        assert_eq!(opened.unwrap().broker().wire_version, agreed);
    }
    for theirs in [9, 1, 0, -1] {
        let (opened, _server) = open(config(), async |server| {
            server.formats(theirs, Some(30_000)).await;
        })
        .await;
        let error = opened.unwrap_err();
        assert!(
            matches!(error, ClientError::RefusedVersion { offered, least: 10 } if offered == theirs),
            "{error}"
        );
    }
}

#[tokio::test]
async fn what_the_broker_refuses_is_told_with_its_words() {
    let refused = async |class: &str| {
        let (opened, _server) = open(config(), async |server| {
            server.formats(12, Some(30_000)).await;
            server.send(broker_info(CLASSIC_ID, "t")).await;
            server.expect(CONNECTION_INFO).await;
            server.exception(1, class, "no way").await;
        })
        .await;
        opened.unwrap_err()
    };
    for class in ["java.lang.SecurityException", "javax.jms.JMSSecurityException"] {
        let error = refused(class).await;
        assert!(
            matches!(&error, ClientError::Security(exception) if &*exception.message == "no way"),
            "{error}"
        );
    }
    for class in ["javax.jms.InvalidClientIDException", "jakarta.jms.InvalidClientIDException"] {
        let error = refused(class).await;
        assert!(matches!(&error, ClientError::InvalidClientId(_)), "{error}");
        assert_eq!(error.to_string(), "the broker refused the client id: InvalidClientIDException: no way");
    }
    let error = refused("java.io.IOException").await;
    assert!(
        matches!(&error, ClientError::Exception(exception) if exception.name() == "IOException"),
        "{error}"
    );
}

#[tokio::test]
async fn signs_of_life_and_notes_between_the_answers_are_no_answers() {
    let (opened, mut server) = open(config(), async |server| {
        server.send(keep_alive(false)).await;
        server.formats(12, Some(30_000)).await;
        server.send(broker_info(CLASSIC_ID, "t")).await;
        server.expect(CONNECTION_INFO).await;
        server.response(77).await;
        server.send([0]).await;
        server.send(command(99, |_| {})).await;
        server.response(1).await;
        server.answer(SESSION_INFO).await;
    })
    .await;
    let connection = opened.unwrap();
    let (alive, _) = tokio::join!(connection.alive(), server.answer(SESSION_INFO));
    alive.unwrap();
}

#[tokio::test]
async fn a_peer_that_hangs_up_before_the_end_is_told() {
    for steps in 0..3 {
        let (opened, _server) = open(config(), async |server| {
            server.frame().await.unwrap();
            if steps > 0 {
                server.send(wire_format(12, Some(30_000))).await;
                server.expect(CONNECTION_INFO).await;
            }
            if steps > 1 {
                server.response(1).await;
                server.expect(SESSION_INFO).await;
            }
            server.stream.shutdown().await.unwrap();
        })
        .await;
        let error = opened.unwrap_err();
        assert!(matches!(error, ClientError::ClosedByPeer), "{error}");
    }
}

#[tokio::test]
async fn something_else_than_openwire_is_told() {
    let magic = sized(b"\x01ActiveMX\0\0\0\x0c\0");
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"AMQP\0\x01\0\0",
        b"\x15\x03\x01\0\x02\x02\x0a",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        &magic,
        &sized(b"\x01ActiveMQ\0\0"),
    ] {
        let (opened, _server) = open(config(), async |server| {
            server.frame().await.unwrap();
            server.raw(answer).await;
        })
        .await;
        let error = opened.unwrap_err();
        assert!(matches!(error, ClientError::Protocol(_)), "{error} after {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_says_nothing_is_given_up_at_each_step() {
    let steps =
        ["agreeing on a wire format", "opening the connection", "opening a session", "telling what it is"];
    for (done, what) in steps.into_iter().enumerate() {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let mut server = Server::new(theirs);
        let script = async {
            server.frame().await.unwrap();
            if done > 0 {
                server.send(wire_format(12, None)).await;
                server.expect(CONNECTION_INFO).await;
            }
            if done > 1 {
                server.response(1).await;
                server.expect(SESSION_INFO).await;
            }
            if done > 2 {
                server.response(2).await;
            }
            assert_eq!(server.frame().await, None);
        };
        let config = OpenConfig { connect_timeout: Duration::from_secs(3), ..OpenConfig::default() };
        let open = async { Connection::over(Box::new(ours), &config).await.unwrap_err() };
        let (error, ()) = tokio::join!(open, script);
        assert!(
            matches!(error, ClientError::Timeout { what: told, after } if told == what && after.as_secs() == 3),
            "{error}"
        );
    }
    // The same when all is said.
    piped(OpenConfig::default(), 30_000).await;
}

#[tokio::test]
async fn nobody_there_and_unknown_names_are_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    // The second is no name: the resolver need not be asked.
    for host in ["127.0.0.1", "a name.invalid"] {
        let endpoint = Endpoint { host: host.to_owned(), port, tls: false };
        let error = Connection::open(&endpoint, &config()).await.unwrap_err();
        let told = format!("failed to connect to {host}:{port}: ");
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
        assert!(error.to_string().starts_with(&told), "{error}");
    }
}

#[test]
fn no_secret_is_shown() {
    let credentials = Some(Credentials { username: "ann".to_owned(), password: Arc::from("geheim") });
    let config = OpenConfig { credentials, ..OpenConfig::default() };
    let shown = format!("{config:?}");
    assert!(shown.contains("ann") && !shown.contains("geheim"), "{shown}");
}

#[test]
fn endpoints_are_shown_as_they_are_written() {
    let show = |host: &str| Endpoint { host: host.to_owned(), port: 61616, tls: false }.to_string();
    assert_eq!(show("active.mq"), "active.mq:61616");
    assert_eq!(show("fd00::7"), "[fd00::7]:61616");
}
