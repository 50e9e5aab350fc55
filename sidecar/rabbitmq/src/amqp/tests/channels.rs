use std::time::Duration;

use lockstep_broker::Certainty;

use super::{connected, consuming, with_channel};
use crate::amqp::{ANSWER_WITHIN, AmqpError, DeliveryEvent, Fields, OpenConfig, QueueInfo};

#[tokio::test(start_paused = true)]
async fn questions_get_their_answers_in_order() {
    let (_connection, mut server, channel, _deliveries) = with_channel(&OpenConfig::default()).await;
    let ask = async { tokio::join!(channel.declare_passive("q"), channel.round_trip(), channel.cancel("t")) };
    let answer = async {
        server.expect(1, "0032 000a 0000 01 71 01 00000000").await;
        server.expect(1, "003c 000a 00000000 0000 00").await;
        server.expect(1, "003c 001e 01 74 00").await;
        server.method(1, "0032 000b 01 71 00000007 00000002").await;
        server.method(1, "003c 000b").await;
        server.method(1, "003c 001f 01 74").await;
    };
    let ((queue, trip, cancelled), ()) = tokio::join!(ask, answer);
    assert_eq!(queue.unwrap(), QueueInfo { messages: 7, consumers: 2 });
    trip.unwrap();
    cancelled.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_round_trip_repeats_the_prefetch_that_is_set() {
    let (_connection, mut server, channel, _deliveries) = consuming(&OpenConfig::default()).await;
    let (trip, ()) =
        tokio::join!(channel.round_trip(), server.answer(1, "003c 000a 00000000 0003 00", "003c 000b"));
    trip.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_the_broker_closes_tells_all_that_wait_and_the_connection_goes_on() {
    let (connection, mut server, channel, mut deliveries) = consuming(&OpenConfig::default()).await;
    server.deliver(1, b"buffered").await;
    let broker = async {
        server.expect(1, "0032 000a 0000 01 71 01 00000000").await;
        server.method(1, "0014 0028 0194 02 6e6f 0032 000a").await;
        server.expect(1, "0014 0029").await;
    };
    let (queue, ()) = tokio::join!(channel.declare_passive("q"), broker);
    let error = queue.unwrap_err();
    assert!(
        matches!(&error, AmqpError::ChannelClosed(close) if close.code == 404 && close.text == "no"),
        "{error}"
    );
    assert_eq!(error.certainty(), Certainty::Unknown);
    assert!(!channel.is_open());
    // What was buffered goes back to the queue: it is not shown any more.
    assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(AmqpError::ChannelClosed(_))));
    assert!(matches!(deliveries.try_next(), Some(DeliveryEvent::Closed(_))));
    let later = channel.ack(super::tag(1), false).unwrap_err();
    assert_eq!((later.certainty(), later.close().unwrap().code), (Certainty::NotDone, 404));
    channel.close().await.unwrap();
    // Another one is opened, with another number.
    let (opened, ()) =
        tokio::join!(connection.open_channel(), server.answer(2, "0014 000a 00", "0014 000b 00000000"));
    assert!(opened.unwrap().0.is_open());
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_broker_and_drops_what_comes_meanwhile() {
    let (_connection, mut server, channel, mut deliveries) = consuming(&OpenConfig::default()).await;
    let broker = async {
        server.expect(1, "0014 0028 00c8 00 0000 0000").await;
        server.deliver(1, &[7; 5000]).await;
        server.method(1, "003c 001e 01 74 00").await;
        assert!(!channel.is_open());
        server.method(1, "0014 0029").await;
    };
    let (closed, ()) = tokio::join!(channel.close(), broker);
    closed.unwrap();
    assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(AmqpError::ClosedByUs)));
    assert!(matches!(channel.round_trip().await.unwrap_err(), AmqpError::NotOpen(_)));
    channel.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn both_may_close_at_once() {
    let (connection, mut server, channel, _deliveries) = consuming(&OpenConfig::default()).await;
    let broker = async {
        server.expect(1, "0014 0028 00c8 00 0000 0000").await;
        server.method(1, "0014 0028 0196 02 6e6f 0000 0000").await;
        server.expect(1, "0014 0029").await;
        server.method(1, "0014 0029").await;
    };
    let (closed, ()) = tokio::join!(channel.close(), broker);
    closed.unwrap();
    assert!(connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_close_without_an_answer_is_given_up() {
    let (_connection, mut server, channel, _deliveries) = consuming(&OpenConfig::default()).await;
    let beat = async {
        server.expect(1, "0014 0028 00c8 00 0000 0000").await;
    };
    let (closed, ()) = tokio::join!(channel.close(), beat);
    assert!(matches!(
        closed.unwrap_err(),
        AmqpError::Timeout { what: "channel.close", after: ANSWER_WITHIN }
    ));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_late_is_dropped_and_the_next_is_right() {
    let (_connection, mut server, channel, _deliveries) = with_channel(&OpenConfig::default()).await;
    let error = channel.declare_passive("q").await.unwrap_err();
    assert_eq!(error.certainty(), Certainty::Unknown);
    assert!(matches!(error, AmqpError::Timeout { .. }));
    let answer = async {
        server.answer(1, "0032 000a 0000 01 71 01 00000000", "0032 000b 01 71 00000007 00000002").await;
        server.answer(1, "0032 000a 0000 01 72 01 00000000", "0032 000b 01 72 00000001 00000000").await;
    };
    let (queue, ()) = tokio::join!(channel.declare_passive("r"), answer);
    assert_eq!(queue.unwrap(), QueueInfo { messages: 1, consumers: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_dropped_channel_is_closed() {
    let (_connection, mut server, channel, _deliveries) = consuming(&OpenConfig::default()).await;
    drop(channel.clone());
    assert!(channel.is_open());
    drop(channel);
    server.expect(1, "0014 0028 00c8 00 0000 0000").await;
}

#[tokio::test(start_paused = true)]
async fn channels_are_as_many_as_was_agreed_and_free_again_when_closed() {
    let (connection, mut server) = connected(&OpenConfig::default()).await;
    let mut channels = Vec::new();
    for number in 1..=7 {
        let answer = server.answer(number, "0014 000a 00", "0014 000b 00000000");
        channels.push(tokio::join!(connection.open_channel(), answer).0.unwrap());
    }
    assert!(matches!(connection.open_channel().await.unwrap_err(), AmqpError::Busy { most: 7, .. }));
    let close = async {
        server.answer(3, "0014 0028 00c8 00 0000 0000", "0014 0029").await;
    };
    tokio::join!(channels[2].0.close(), close).0.unwrap();
    let answer = server.answer(3, "0014 000a 00", "0014 000b 00000000");
    let again = tokio::join!(connection.open_channel(), answer).0.unwrap();
    // The old handle is not the new channel.
    assert!(channels[2].0.round_trip().await.is_err());
    assert!(again.0.is_open());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_before_anything_is_sent() {
    let (_connection, mut server, channel, _deliveries) = with_channel(&OpenConfig::default()).await;
    let long = "x".repeat(256);
    let refused = [
        channel.declare_passive(&long).await.unwrap_err(),
        channel.declare("q", true, &Fields::new().int(&long, 1)).await.unwrap_err(),
        channel.cancel(&long).await.unwrap_err(),
        // No prefetch is set: nothing would bound what is buffered.
        channel.consume("q", "t", &Fields::new()).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.certainty(), Certainty::NotDone, "{error}");
    }
    let (trip, ()) =
        tokio::join!(channel.round_trip(), server.answer(1, "003c 000a 00000000 0000 00", "003c 000b"));
    trip.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_nothing_ends_the_connection() {
    for wrong in ["003c 000b", "0014 0029", "003c 001e 01 74 00"] {
        let (connection, mut server, _channel, _deliveries) = with_channel(&OpenConfig::default()).await;
        server.method(1, wrong).await;
        let reason = tokio::time::timeout(Duration::from_secs(1), connection.closed()).await.unwrap();
        assert!(matches!(reason, AmqpError::Protocol(_)), "{wrong}: {reason}");
    }
    for (channel, wrong) in [(5, "003c 000b"), (0, "003c 000b"), (0, "000a 0033"), (0, "000a 0029 00")] {
        let (connection, mut server) = connected(&OpenConfig::default()).await;
        server.method(channel, wrong).await;
        let reason = connection.closed().await;
        assert!(matches!(reason, AmqpError::Protocol(_)), "{wrong}: {reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn flow_is_answered() {
    let (_connection, mut server, _channel, _deliveries) = with_channel(&OpenConfig::default()).await;
    server.method(1, "0014 0014 01").await;
    server.expect(1, "0014 0015 01").await;
}
