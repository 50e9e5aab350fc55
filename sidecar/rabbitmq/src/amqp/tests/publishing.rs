use std::time::Duration;

use bytes::Bytes;
use lockstep_broker::Certainty;
use tokio::time::timeout;

use super::{server::Server, with_channel};
use crate::amqp::{
    AmqpError, Channel, Confirmation, Connection, OpenConfig, Properties,
    codec::{Kind, tests::hex},
};

async fn publishing() -> (Connection, Server, Channel) {
    let (connection, mut server, channel, _deliveries) = with_channel(&OpenConfig::default()).await;
    let (selected, ()) =
        tokio::join!(channel.confirm_select(), server.answer(1, "0055 000a 00", "0055 000b"));
    selected.unwrap();
    (connection, server, channel)
}

async fn publish(channel: &Channel, key: &str, body: impl Into<Bytes>) -> Result<Confirmation, AmqpError> {
    channel.send("", key, true, &Properties::persistent(), body.into()).await?.wait().await
}

/// Reads a mandatory publish to `k` and its header; its body in frames.
async fn published(server: &mut Server, size: usize) {
    server.expect(1, "003c 0028 0000 00 01 6b 01").await;
    let header = server.next().await.unwrap();
    let mut expected = hex("003c 0000 00000000").to_vec();
    expected.extend(u32::try_from(size).unwrap().to_be_bytes());
    expected.extend(hex("1000 02"));
    assert_eq!(header, (Kind::Header, 1, expected.into()));
    let mut read = 0;
    while read < size {
        let (kind, channel, payload) = server.next().await.unwrap();
        assert_eq!((kind, channel), (Kind::Body, 1));
        assert!(payload.len() <= 4088 && payload.iter().all(|byte| *byte == 7));
        read += payload.len();
    }
    assert_eq!(read, size);
}

#[tokio::test(start_paused = true)]
async fn a_publish_is_done_when_the_broker_confirms() {
    let (_connection, mut server, channel) = publishing().await;
    for (number, size) in [(1u8, 0), (2, 5), (3, 4088), (4, 4089), (5, 200_000)] {
        let broker = async {
            published(&mut server, size).await;
            server.method(1, &format!("003c 0050 00000000000000{number:02x} 00")).await;
        };
        let (confirmed, ()) = tokio::join!(publish(&channel, "k", vec![7; size]), broker);
        assert_eq!(confirmed.unwrap(), Confirmation::Acked, "{size}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_returned_or_refused_is_not_done() {
    let (_connection, mut server, channel) = publishing().await;
    let broker = async {
        published(&mut server, 3).await;
        server.method(1, "003c 0032 0138 08 4e4f5f524f555445 00 01 6b").await;
        server.send(Kind::Header, 1, &hex("003c 0000 0000000000000003 0000")).await;
        server.send(Kind::Body, 1, &[7; 3]).await;
        server.method(1, "003c 0050 0000000000000001 00").await;
        published(&mut server, 3).await;
        server.method(1, "003c 0078 0000000000000002 00").await;
    };
    let client = async {
        let returned = publish(&channel, "k", vec![7; 3]).await.unwrap();
        assert_eq!(returned, Confirmation::Returned { code: 312, text: "NO_ROUTE".to_owned() });
        assert_eq!(publish(&channel, "k", vec![7; 3]).await.unwrap(), Confirmation::Nacked);
    };
    tokio::join!(client, broker);
}

#[tokio::test(start_paused = true)]
async fn confirms_of_many_and_out_of_order_find_their_publishes() {
    let (_connection, mut server, channel) = publishing().await;
    let mut open = Vec::new();
    for key in ["a", "b", "c", "d"] {
        open.push(channel.send("", key, key == "b", &Properties::new(), Bytes::new()).await.unwrap());
    }
    for _ in 0..8 {
        server.next().await.unwrap();
    }
    server.method(1, "003c 0050 0000000000000003 00").await;
    // One that nobody waits for.
    server.method(1, "003c 0050 0000000000000009 00").await;
    server.method(1, "003c 0032 0138 02 6e6f 00 01 62").await;
    server.send(Kind::Header, 1, &hex("003c 0000 0000000000000000 0000")).await;
    server.method(1, "003c 0050 0000000000000000 01").await;
    let mut confirmed = Vec::new();
    for confirm in open {
        confirmed.push(confirm.wait().await.unwrap());
    }
    let returned = Confirmation::Returned { code: 312, text: "no".to_owned() };
    assert_eq!(confirmed, [Confirmation::Acked, returned, Confirmation::Acked, Confirmation::Acked]);
}

#[tokio::test(start_paused = true)]
async fn a_publish_waits_while_the_broker_takes_nothing_and_acknowledgements_do_not() {
    let (connection, mut server, channel) = publishing().await;
    let mut blocked = connection.blocked();
    server.method(0, "000a 003c 03 6c6f77").await;
    assert_eq!(blocked.wait_for(Option::is_some).await.unwrap().as_deref(), Some("low"));
    assert!(connection.is_blocked());
    let error = publish(&channel, "k", "").await.unwrap_err();
    assert!(matches!(&error, AmqpError::Blocked { reason, .. } if &**reason == "low"), "{error}");
    assert_eq!(error.certainty(), Certainty::NotDone);
    // Anything else goes on.
    let trip = server.answer(1, "003c 000a 00000000 0000 00", "003c 000b");
    tokio::join!(channel.round_trip(), trip).0.unwrap();
    let broker = async {
        server.method(0, "000a 003d").await;
        published(&mut server, 0).await;
        server.method(1, "003c 0050 0000000000000001 00").await;
    };
    let (confirmed, ()) = tokio::join!(publish(&channel, "k", ""), broker);
    assert_eq!(confirmed.unwrap(), Confirmation::Acked);
    assert!(!connection.is_blocked());
    // A connection that has ended takes nothing for another reason.
    server.method(0, "000a 003c 03 6c6f77").await;
    blocked.wait_for(Option::is_some).await.unwrap();
    drop(server);
    timeout(Duration::from_secs(1), blocked.wait_for(Option::is_none)).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_publish_that_is_not_confirmed_may_have_been_done() {
    let (_connection, mut server, channel) = publishing().await;
    let (silent, ()) = tokio::join!(publish(&channel, "k", ""), published(&mut server, 0));
    assert_eq!(silent.unwrap_err().certainty(), Certainty::Unknown);
    let broker = async {
        published(&mut server, 0).await;
        server.method(1, "0014 0028 0194 02 6e6f 003c 0028").await;
    };
    let (closed, ()) = tokio::join!(publish(&channel, "k", ""), broker);
    let closed = closed.unwrap_err();
    assert_eq!((closed.certainty(), closed.close().unwrap().code), (Certainty::Unknown, 404));
    assert_eq!(publish(&channel, "k", "").await.unwrap_err().certainty(), Certainty::NotDone);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_sent_is_refused_whole() {
    let (_connection, mut server, channel) = publishing().await;
    // The broker closes the connection at a header that is longer than was agreed.
    let headers = crate::amqp::Fields::new().text("a", &"x".repeat(5000));
    let properties = Properties::new().with_headers(headers);
    let long = channel.send("", "k", true, &properties, Bytes::new()).await.unwrap_err();
    let key = publish(&channel, &"k".repeat(256), "").await.unwrap_err();
    for error in [long, key] {
        assert!(matches!(error, AmqpError::TooLong { .. }), "{error}");
        assert_eq!(error.certainty(), Certainty::NotDone);
    }
    let trip = server.answer(1, "003c 000a 00000000 0000 00", "003c 000b");
    tokio::join!(channel.round_trip(), trip).0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_confirms_nothing_is_published() {
    let (_connection, _server, channel, _deliveries) = with_channel(&OpenConfig::default()).await;
    let error = publish(&channel, "k", "").await.unwrap_err();
    assert_eq!(error.certainty(), Certainty::NotDone);
}

#[tokio::test(start_paused = true)]
async fn publishes_wait_for_room_in_what_is_unwritten() {
    let (_connection, mut server, channel) = publishing().await;
    let properties = Properties::persistent();
    let mut open = Vec::new();
    let send = async {
        loop {
            let sent = channel.send("", "k", true, &properties, vec![7; 400_000].into());
            match timeout(Duration::from_secs(1), sent).await {
                Ok(confirm) => open.push(confirm.unwrap()),
                Err(_) => break,
            }
        }
    };
    send.await;
    // A megabyte and the last that went beyond it.
    assert!((2..=5).contains(&open.len()), "{}", open.len());
    let more = channel.send("", "k", true, &properties, Bytes::from_static(&[7; 9]));
    let broker = async {
        for _ in &open {
            published(&mut server, 400_000).await;
        }
        published(&mut server, 9).await;
    };
    tokio::join!(more, broker).0.unwrap();
}
