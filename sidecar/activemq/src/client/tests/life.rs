use std::time::Duration;

use lockstep_broker::Certainty;
use tokio::{
    io::AsyncWriteExt,
    time::{Instant, advance, sleep_until},
};

use super::{
    connected, consume, consuming, piped, queue,
    server::{
        CONNECTION_CONTROL, CONNECTION_ERROR, Command, KEEP_ALIVE, REMOVE, SESSION_INFO, SHUTDOWN, command,
        keep_alive, object, string, throwable,
    },
};
use crate::client::{ANSWER_WITHIN, ClientError, DeliveryEvent, OpenConfig, Subscription};

/// As agreed in these tests.
const INACTIVITY: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn silence_of_two_durations_ends_the_connection_and_something_is_asked_before() {
    let (connection, mut server) = piped(OpenConfig::default(), 30_000).await;
    let (consumer, mut deliveries) = consume(&connection, &mut server, 1, Subscription::new(queue())).await;
    let start = Instant::now();
    let broker = async {
        let asked = server.expect(SESSION_INFO).await;
        assert!(asked.answered);
        assert_eq!(start.elapsed(), INACTIVITY);
        assert_eq!(server.next().await, None);
    };
    let (reason, ()) = tokio::join!(connection.closed(), broker);
    assert!(matches!(reason, ClientError::SilentBroker { after } if after == 2 * INACTIVITY), "{reason}");
    assert_eq!(start.elapsed(), 2 * INACTIVITY);
    assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(ClientError::SilentBroker { .. })));
    assert!(!connection.is_open());
    assert_eq!(connection.alive().await.unwrap_err().certainty(), Certainty::NotDone);
    assert_eq!(consumer.pull(INACTIVITY).unwrap_err().certainty(), Certainty::NotDone);
    assert!(consumer.pull(INACTIVITY).unwrap_err().is_end_of_connection());
}

#[tokio::test(start_paused = true)]
async fn what_a_silent_broker_is_asked_keeps_the_connection_when_it_is_answered() {
    let (connection, mut server) = piped(OpenConfig::default(), 0).await;
    let start = Instant::now();
    for asked in 1..=10 {
        let session = server.expect(SESSION_INFO).await;
        assert_eq!(start.elapsed(), asked * INACTIVITY);
        server.response(session.id).await;
    }
    assert!(connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn we_give_a_sign_of_life_each_third_and_any_byte_of_the_broker_is_one() {
    let (connection, mut server) = piped(OpenConfig::default(), 30_000).await;
    let start = Instant::now();
    for (beat, byte) in (1..=20).zip([0, 0, 0, 6, KEEP_ALIVE, 0, 0, 0, 0, 0].into_iter().cycle()) {
        let sign = server.any().await.unwrap();
        assert_eq!((sign.kind, sign.answered), (KEEP_ALIVE, false));
        assert_eq!(start.elapsed(), beat * INACTIVITY / 3);
        // A part of a frame is enough.
        server.raw(&[byte]).await;
    }
    assert!(connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn what_is_written_anyway_is_a_sign_of_life() {
    let (connection, mut server) = piped(OpenConfig::default(), 30_000).await;
    for _ in 0..5 {
        advance(Duration::from_secs(9)).await;
        let broker = async {
            let asked = server.any().await.unwrap();
            assert_eq!(asked.kind, SESSION_INFO);
            server.response(asked.id).await;
        };
        let (alive, ()) = tokio::join!(connection.alive(), broker);
        alive.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_brokers_question_for_a_sign_of_life_is_answered() {
    let (_connection, mut server) = piped(OpenConfig::default(), 30_000).await;
    let start = Instant::now();
    server.send(keep_alive(false)).await;
    server.send(keep_alive(true)).await;
    let sign = server.any().await.unwrap();
    assert_eq!((sign.kind, sign.answered), (KEEP_ALIVE, false));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn signs_of_life_go_over_a_socket_and_a_broker_that_stops_is_given_up() {
    let (opened, mut server) = super::open(super::config(), async |server| server.agree(30).await).await;
    let connection = opened.unwrap();
    assert_eq!(server.any().await.unwrap().kind, KEEP_ALIVE);
    let reason = connection.closed().await;
    assert!(matches!(reason, ClientError::SilentBroker { after } if after.as_millis() == 60), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn what_lies_in_the_socket_counts_before_the_deadline_after_a_freeze() {
    let (connection, mut server) = piped(OpenConfig::default(), 30_000).await;
    let (_consumer, mut deliveries) = consume(&connection, &mut server, 1, Subscription::new(queue())).await;
    server.send(server.control(1, true)).await;
    // Neither side runs for two minutes.
    advance(4 * INACTIVITY).await;
    assert!(matches!(deliveries.next().await, DeliveryEvent::Cancelled));
    assert!(connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_takes_nothing_is_given_up() {
    let (connection, mut server) = piped(OpenConfig::default(), 30_000).await;
    let (consumer, _deliveries) = consume(&connection, &mut server, 1, Subscription::new(queue())).await;
    // More than the pipe holds, and nobody reads; the broker goes on giving signs of life.
    for _ in 0..5000 {
        consumer.pull(INACTIVITY).unwrap();
    }
    let start = Instant::now();
    let beats = async {
        for beat in 1..=12 {
            sleep_until(start + beat * INACTIVITY / 2).await;
            if server.stream.write_all(&[0, 0, 0, 6, KEEP_ALIVE, 0, 0, 0, 0, 0]).await.is_err() {
                return;
            }
        }
    };
    let (reason, ()) = tokio::join!(connection.closed(), beats);
    assert!(matches!(reason, ClientError::WriteStalled { after } if after == 2 * INACTIVITY), "{reason}");
}

#[tokio::test]
async fn closing_says_so_and_waits() {
    let (connection, mut server, consumer, mut deliveries) = consuming().await;
    let broker = async {
        let remove = server.expect(REMOVE).await;
        assert!(remove.answered);
        let mut wanted = object(120, |out| string(out, &server.connection)).to_vec();
        wanted.extend_from_slice(&(-2_i64).to_be_bytes());
        assert_eq!(remove.body, wanted);
        server.deliver(1, 1, "too late").await;
        server.response(remove.id).await;
        server.expect(SHUTDOWN).await;
        assert_eq!(server.next().await, None);
    };
    tokio::join!(connection.close(), broker);
    assert!(matches!(connection.closed().await, ClientError::ClosedByUs));
    assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(ClientError::ClosedByUs)));
    assert!(matches!(consumer.pull(INACTIVITY).unwrap_err(), ClientError::NotOpen(_)));
    // Again is nothing new.
    connection.close().await;
}

#[tokio::test]
async fn a_broker_that_hangs_up_instead_of_answering_the_end_has_closed_it() {
    let (connection, mut server) = connected().await;
    let broker = async {
        server.expect(REMOVE).await;
        server.stream.shutdown().await.unwrap();
    };
    tokio::join!(connection.close(), broker);
    let reason = connection.closed().await;
    assert!(matches!(reason, ClientError::ClosedByUs), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_ever() {
    let (connection, _server) = piped(OpenConfig::default(), 30_000).await;
    let start = Instant::now();
    connection.close().await;
    assert_eq!(start.elapsed(), ANSWER_WITHIN);
}

#[tokio::test]
async fn dropping_all_handles_closes_it() {
    let (connection, mut server, consumer, deliveries) = consuming().await;
    drop(connection);
    drop(deliveries);
    consumer.prefetch(1).unwrap();
    server.answer(super::server::CONSUMER_CONTROL).await;
    drop(consumer);
    let consumer = server.expect(REMOVE).await;
    assert!(consumer.body.starts_with(&server.consumer_id(1)), "{consumer:?}");
    assert!(consumer.body.ends_with(&(-2_i64).to_be_bytes()), "{consumer:?}");
    let Command { kind, body, .. } = server.next().await.unwrap();
    assert_eq!((kind, &body[..2]), (REMOVE, &[1, 120][..]));
}

/// A failure that the broker says of no command.
fn failure(server: &super::Server, whole: bool) -> bytes::Bytes {
    command(CONNECTION_ERROR, |out| {
        throwable(out, "java.lang.IllegalStateException", "oh");
        if whole {
            out.extend_from_slice(&object(120, |out| string(out, &server.connection)));
        } else {
            out.extend_from_slice(&[0]);
        }
    })
}

#[tokio::test]
async fn a_failure_of_nothing_in_particular_ends_the_consumers_and_leaves_the_connection() {
    let (connection, mut server, consumer, mut deliveries) = consuming().await;
    server.deliver(1, 1, "goes back").await;
    server.send(failure(&server, false)).await;
    let (alive, _) = tokio::join!(connection.alive(), server.answer(SESSION_INFO));
    alive.unwrap();
    let event = deliveries.next().await;
    assert!(
        matches!(&event, DeliveryEvent::Closed(ClientError::Exception(exception)) if &*exception.message == "oh"),
        "{event:?}"
    );
    assert!(matches!(consumer.pull(INACTIVITY).unwrap_err(), ClientError::NotOpen(_)));
    // The broker may have it still.
    let (closed, _) = tokio::join!(consumer.close(-1), server.answer(REMOVE));
    closed.unwrap();
    assert!(connection.is_open());
    // The next one is not touched.
    consume(&connection, &mut server, 2, Subscription::new(queue())).await;
}

#[tokio::test]
async fn a_failure_of_the_connection_ends_it() {
    let (connection, mut server, _consumer, mut deliveries) = consuming().await;
    let broker = async {
        server.expect(SESSION_INFO).await;
        server.send(failure(&server, true)).await;
        assert_eq!(server.next().await, None);
    };
    let (alive, ()) = tokio::join!(connection.alive(), broker);
    assert!(matches!(alive.unwrap_err(), ClientError::Exception(_)));
    let reason = connection.closed().await;
    assert_eq!(reason.to_string(), "the broker answered: IllegalStateException: oh");
    assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(ClientError::Exception(_))));
}

#[tokio::test]
async fn a_peer_that_hangs_up_is_told() {
    let (connection, server, consumer, mut deliveries) = consuming().await;
    let (alive, ()) = tokio::join!(connection.alive(), async { drop(server) });
    assert_eq!(alive.unwrap_err().certainty(), Certainty::Unknown);
    let reason = connection.closed().await;
    assert!(matches!(reason, ClientError::ClosedByPeer | ClientError::Io(_)), "{reason}");
    assert!(reason.is_end_of_connection());
    assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(_)));
    assert!(matches!(deliveries.try_next(), Some(DeliveryEvent::Closed(_))));
    assert_eq!(consumer.close(-1).await.unwrap_err().certainty(), Certainty::NotDone);
}

#[tokio::test]
async fn what_is_unknown_or_needs_no_reaction_is_skipped() {
    let (connection, mut server, consumer, mut deliveries) = consuming().await;
    // Null, unknown with and without a body, an answer to nothing, where the cluster is, a change of the prefetch.
    server.send([0]).await;
    server.send([99]).await;
    server.send(command(127, |out| out.extend_from_slice(&[0xff; 100]))).await;
    server.response(12_345).await;
    server.exception(12_345, "java.lang.Error", "of nothing").await;
    server
        .send(command(CONNECTION_CONTROL, |out| {
            out.extend_from_slice(&[1, 1, 0, 0, 0]);
            string(out, "tcp://elsewhere:61616");
            string(out, "tcp://elsewhere:61616");
            out.extend_from_slice(&[1, 0]);
        }))
        .await;
    server.send(server.control(1, false)).await;
    server.send(server.control(9, true)).await;
    server.deliver(9, 1, "of nobody").await;
    server.deliver(1, 2, "hi").await;
    assert_eq!(super::message(deliveries.next().await).redeliveries, 0);
    assert!(deliveries.try_next().is_none());
    assert!(connection.is_open());
    drop(consumer);
}
