use std::time::Duration;

use lockstep_broker::Certainty;
use tokio::{
    io::AsyncWriteExt,
    time::{Instant, sleep},
};

use super::{connected, consuming, tag};
use crate::amqp::{ANSWER_WITHIN, AmqpError, DeliveryEvent, OpenConfig, codec::Kind};

#[tokio::test(start_paused = true)]
async fn silence_of_two_heartbeats_ends_the_connection() {
    let (connection, mut server, channel, mut deliveries) = consuming(&OpenConfig::default()).await;
    sleep(Duration::from_secs(7)).await;
    server.send(Kind::Heartbeat, 0, b"").await;
    let start = Instant::now();
    let reason = connection.closed().await;
    assert!(
        matches!(reason, AmqpError::HeartbeatMissed { after } if after == Duration::from_secs(20)),
        "{reason}"
    );
    assert_eq!(start.elapsed().as_secs(), 20);
    assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(AmqpError::HeartbeatMissed { .. })));
    assert!(!connection.is_open());
    assert_eq!(channel.round_trip().await.unwrap_err().certainty(), Certainty::NotDone);
    assert_eq!(channel.close().await.unwrap_err().certainty(), Certainty::NotDone);
    assert!(matches!(connection.open_channel().await.unwrap_err(), AmqpError::NotOpen(_)));
}

#[tokio::test(start_paused = true)]
async fn we_give_a_sign_of_life_each_half_heartbeat_and_any_byte_of_the_broker_is_one() {
    let (connection, mut server) = connected(&OpenConfig::default()).await;
    let start = Instant::now();
    let bytes = [8, 0, 0, 0, 0, 0, 0, 0xCE];
    for (beat, byte) in (1..=20).zip(bytes.into_iter().cycle()) {
        assert_eq!(server.any().await.unwrap().0, Kind::Heartbeat);
        assert_eq!(start.elapsed().as_secs(), 5 * beat);
        // A part of a frame is enough.
        server.stream.write_all(&[byte]).await.unwrap();
    }
    assert!(connection.is_open());
    assert!(connection.last_read().elapsed() <= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn what_lies_in_the_socket_counts_before_the_deadline_after_a_freeze() {
    let (connection, mut server, channel, _deliveries) = consuming(&OpenConfig::default()).await;
    server.method(0, "000a 003c 03 6c6f77").await;
    // Neither side runs for a minute.
    tokio::time::advance(Duration::from_secs(60)).await;
    let mut blocked = connection.blocked();
    blocked.wait_for(Option::is_some).await.unwrap();
    assert!(connection.is_open() && channel.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_takes_nothing_is_given_up() {
    let (connection, mut server, channel, _deliveries) = consuming(&OpenConfig::default()).await;
    let fill = async {
        // More than the pipe holds, and nobody reads; the broker goes on giving signs of life.
        for _ in 0..60 {
            for _ in 0..3000 {
                if channel.ack(tag(1), false).is_err() {
                    break;
                }
            }
            if server.stream.write_all(&[8, 0, 0, 0, 0, 0, 0, 0xCE]).await.is_err() {
                return;
            }
            for number in 0..200 {
                let flow = if number % 2 == 0 { "0014 0014 01" } else { "0014 0014 00" };
                let mut out = bytes::BytesMut::new();
                crate::amqp::codec::frame(&mut out, Kind::Method, 1, |out| {
                    out.extend_from_slice(&crate::amqp::codec::tests::hex(flow));
                });
                if server.stream.write_all(&out).await.is_err() {
                    return;
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    let (reason, ()) = tokio::join!(connection.closed(), fill);
    assert!(matches!(reason, AmqpError::WriteStalled { .. }), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn closing_says_so_and_waits() {
    let (connection, mut server, channel, mut deliveries) = consuming(&OpenConfig::default()).await;
    let broker = async {
        server.expect(0, "000a 0032 00c8 00 0000 0000").await;
        server.deliver(1, b"too late").await;
        server.method(0, "000a 0033").await;
        assert_eq!(server.next().await, None);
    };
    tokio::join!(connection.close(), broker);
    assert!(matches!(connection.closed().await, AmqpError::ClosedByUs));
    assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(AmqpError::ClosedByUs)));
    assert!(!channel.is_open());
    // Again is nothing new.
    connection.close().await;
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_ever() {
    let (connection, _server) = connected(&OpenConfig::default()).await;
    let start = Instant::now();
    connection.close().await;
    assert_eq!(start.elapsed().as_secs(), ANSWER_WITHIN.as_secs());
}

#[tokio::test(start_paused = true)]
async fn dropping_all_handles_closes_it() {
    let (connection, mut server, channel, deliveries) = consuming(&OpenConfig::default()).await;
    drop(connection);
    drop(deliveries);
    assert!(channel.is_open());
    drop(channel);
    server.expect(1, "0014 0028 00c8 00 0000 0000").await;
    server.expect(0, "000a 0032 00c8 00 0000 0000").await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_the_broker_closes_says_why() {
    let (connection, mut server, channel, mut deliveries) = consuming(&OpenConfig::default()).await;
    server.deliver(1, b"x").await;
    let broker = async {
        server.expect(1, "003c 000a 00000000 0003 00").await;
        server.method(0, "000a 0032 0140 03 627965 0000 0000").await;
        server.expect(0, "000a 0033").await;
        assert_eq!(server.next().await, None);
    };
    let (trip, ()) = tokio::join!(channel.round_trip(), broker);
    let trip = trip.unwrap_err();
    assert_eq!((trip.certainty(), trip.close().unwrap().code), (Certainty::Unknown, 320));
    assert!(matches!(connection.closed().await, AmqpError::ClosedByServer(close) if close.text == "bye"));
    assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(AmqpError::ClosedByServer(_))));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_hangs_up_is_told() {
    let (connection, server, channel, _deliveries) = consuming(&OpenConfig::default()).await;
    let (trip, ()) = tokio::join!(channel.round_trip(), async { drop(server) });
    assert_eq!(trip.unwrap_err().certainty(), Certainty::Unknown);
    let reason = connection.closed().await;
    assert!(matches!(reason, AmqpError::ClosedByPeer | AmqpError::Io(_)), "{reason}");
}
