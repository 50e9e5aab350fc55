use bytes::Bytes;

use super::{consuming, message, tag};
use crate::amqp::{
    AmqpError, BodyState, Budget, Close, DeliveryEvent, HeaderDefect, Malformed, OpenConfig, codec::Kind,
};

fn budget(limit: usize) -> OpenConfig {
    OpenConfig { budget: Budget::new(limit), ..OpenConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn deliveries_come_in_order_with_their_parts() {
    let config = OpenConfig::default();
    let (_connection, mut server, channel, mut deliveries) = consuming(&config).await;
    assert!(deliveries.try_next().is_none());
    server.deliver(1, b"one").await;
    server.deliver(2, b"").await;
    server.deliver(3, &[7; 10_000]).await;
    let one = message(deliveries.next().await);
    assert_eq!((one.tag, one.redelivered), (tag(1), false));
    assert_eq!((&one.exchange[..], &one.routing_key[..]), (&b"ex"[..], &b"k"[..]));
    assert_eq!(one.body, BodyState::Whole(Bytes::from_static(b"one")));
    assert_eq!(one.properties.unwrap().iter().count(), 0);
    assert_eq!(message(deliveries.next().await).body, BodyState::Whole(Bytes::new()));
    assert_eq!(message(deliveries.next().await).body, BodyState::Whole(vec![7; 10_000].into()));
    // Counted with their two bytes of properties until they are settled.
    assert_eq!(config.budget.held(), 10_009);
    channel.ack(tag(2), false).unwrap();
    assert_eq!(config.budget.held(), 10_007);
    channel.ack(tag(3), true).unwrap();
    assert_eq!(config.budget.held(), 0);
    server.expect(1, "003c 0050 0000000000000002 00").await;
    server.expect(1, "003c 0050 0000000000000003 01").await;
}

#[tokio::test(start_paused = true)]
async fn settlements_leave_in_the_order_of_the_calls_and_only_for_what_is_unsettled() {
    let (_connection, mut server, channel, mut deliveries) = consuming(&OpenConfig::default()).await;
    for number in 1..=3 {
        server.deliver(number, b"x").await;
    }
    for _ in 1..=3 {
        message(deliveries.next().await);
    }
    channel.reject(tag(2), false).unwrap();
    channel.nack(tag(1), true).unwrap();
    channel.ack(tag(3), false).unwrap();
    for again in 1..=4 {
        assert!(matches!(channel.ack(tag(again), true).unwrap_err(), AmqpError::UnknownTag { .. }));
    }
    server.expect(1, "003c 005a 0000000000000002 00").await;
    server.expect(1, "003c 0078 0000000000000001 02").await;
    server.expect(1, "003c 0050 0000000000000003 00").await;
}

#[tokio::test(start_paused = true)]
async fn a_body_without_room_becomes_a_stub_and_has_room_later() {
    let config = budget(10_000);
    let (_connection, mut server, channel, mut deliveries) = consuming(&config).await;
    server.deliver(1, &[1; 6000]).await;
    server.deliver(2, &[2; 6000]).await;
    server.deliver(3, &[3; 100]).await;
    assert!(matches!(message(deliveries.next().await).body, BodyState::Whole(_)));
    assert_eq!(message(deliveries.next().await).body, BodyState::Stub { size: 6002 });
    assert!(matches!(message(deliveries.next().await).body, BodyState::Whole(_)));
    assert_eq!(config.budget.held(), 6104);
    channel.ack(tag(1), false).unwrap();
    drop(config.budget.reserve(6002).await);
    assert_eq!(config.budget.held(), 102);
    // The stub is unsettled still.
    channel.nack(tag(2), true).unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_body_larger_than_the_budget_at_a_time_comes_through_beside_the_others() {
    let config = budget(10_000);
    let (_connection, mut server, channel, mut deliveries) = consuming(&config).await;
    for (tag, size) in [(1, 20_000), (2, 1), (3, 20_000)] {
        server.deliver(tag, &vec![1; size]).await;
    }
    let BodyState::Whole(large) = message(deliveries.next().await).body else { panic!() };
    assert_eq!(message(deliveries.next().await).body, BodyState::Whole(Bytes::from_static(&[1])));
    assert!(matches!(message(deliveries.next().await).body, BodyState::Stub { .. }));
    channel.ack(tag(2), true).unwrap();
    assert_eq!((large.len(), config.budget.held()), (20_000, 20_002));
    drop(large);
    assert_eq!(config.budget.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_finds_no_room_takes_what_is_reserved_and_else_that_stays() {
    let config = budget(10_000);
    let (_connection, mut server, channel, mut deliveries) = consuming(&config).await;
    server.deliver(1, &[1; 9000]).await;
    let mut bodies = vec![message(deliveries.next().await).body];
    channel.reserve(Some(config.budget.reserve(5000).await)).unwrap();
    assert_eq!(config.budget.held(), 9002 + 6024);
    // One that finds room, and one that does not.
    server.deliver(2, &[2; 500]).await;
    bodies.push(message(deliveries.next().await).body);
    assert_eq!(config.budget.held(), 9002 + 502 + 6024);
    server.deliver(3, &[3; 5500]).await;
    bodies.push(message(deliveries.next().await).body);
    assert!(bodies.iter().all(|body| matches!(body, BodyState::Whole(_))), "{bodies:?}");
    assert_eq!(config.budget.held(), 9002 + 502 + 5502);
    channel.ack(tag(3), true).unwrap();
    assert_eq!(config.budget.held(), 5502);
    drop(bodies);
    assert_eq!(config.budget.held(), 0);
    // What nobody needed is given back when it is said so, and with the channel.
    channel.reserve(Some(config.budget.reserve(5000).await)).unwrap();
    channel.reserve(None).unwrap();
    assert_eq!(config.budget.held(), 0);
    channel.reserve(Some(config.budget.reserve(5000).await)).unwrap();
    assert_eq!(config.budget.held(), 6024);
    channel.close().await.unwrap_err();
    assert_eq!(config.budget.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_large_body_gives_its_bytes_back_when_it_is_dropped() {
    let config = budget(1_000_000);
    let (_connection, mut server, channel, mut deliveries) = consuming(&config).await;
    let broker = async { server.deliver(1, &[1; 100_000]).await };
    let (event, ()) = tokio::join!(deliveries.next(), broker);
    let BodyState::Whole(body) = message(event).body else { panic!() };
    channel.ack(tag(1), false).unwrap();
    let part = body.slice(5..10);
    drop(body);
    assert_eq!(config.budget.held(), 100_000);
    drop(part);
    assert_eq!(config.budget.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_larger_than_any_is_a_stub_of_which_nothing_is_kept() {
    let config = OpenConfig::default();
    let (_connection, mut server, _channel, mut deliveries) = consuming(&config).await;
    let size = Budget::largest() + 1;
    server.head(1, size, &[0, 0]).await;
    let feed = async {
        let piece = [0; 4088];
        let mut left = usize::try_from(size).unwrap();
        while left > 0 {
            let count = left.min(piece.len());
            server.send(Kind::Body, 1, &piece[..count]).await;
            left -= count;
        }
    };
    let (event, ()) = tokio::join!(deliveries.next(), feed);
    assert_eq!(message(event).body, BodyState::Stub { size: size + 2 });
    assert_eq!(config.budget.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn properties_that_can_not_be_read_do_not_end_the_connection() {
    let (connection, mut server, _channel, mut deliveries) = consuming(&OpenConfig::default()).await;
    server.head(1, 0, &[0, 1]).await;
    server.head(2, 3, &[0x20, 0, 255, 255, 255, 255]).await;
    server.send(Kind::Body, 1, b"abc").await;
    // Longer than is kept, behind it a message that is fine.
    let long = vec![0; 1_100_000];
    let broker = async {
        server.head(3, 3, &long).await;
        server.send(Kind::Body, 1, b"def").await;
    };
    let bad = message(deliveries.next().await).properties.unwrap_err();
    assert_eq!((bad.defect, &bad.raw[..]), (HeaderDefect::Flags(1), &[0, 1][..]));
    let second = message(deliveries.next().await);
    assert_eq!(second.properties.unwrap_err().defect, HeaderDefect::Length);
    assert_eq!(second.body, BodyState::Whole(Bytes::from_static(b"abc")));
    let (third, ()) = tokio::join!(deliveries.next(), broker);
    let third = message(third);
    assert_eq!(third.properties.unwrap_err().defect, HeaderDefect::TooLong { size: 1_100_012 });
    assert_eq!(third.body, BodyState::Whole(Bytes::from_static(b"def")));
    assert!(connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn properties_of_a_stub_are_not_kept_when_they_are_large() {
    let config = budget(5000);
    let (_connection, mut server, _channel, mut deliveries) = consuming(&config).await;
    server.deliver(1, &[1; 1000]).await;
    server.head(2, 0, &[0; 4500]).await;
    message(deliveries.next().await);
    let stub = message(deliveries.next().await);
    assert_eq!(stub.body, BodyState::Stub { size: 4500 });
    assert_eq!(stub.properties.unwrap_err().defect, HeaderDefect::NoRoom { size: 4500 });
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_the_broker_ends_is_told_behind_its_deliveries() {
    let (_connection, mut server, channel, mut deliveries) = consuming(&OpenConfig::default()).await;
    server.deliver(1, b"x").await;
    server.method(1, "003c 001e 01 74 00").await;
    server.expect(1, "003c 001f 01 74").await;
    message(deliveries.next().await);
    assert!(matches!(deliveries.next().await, DeliveryEvent::Cancelled));
    assert!(channel.is_open());
    channel.ack(tag(1), false).unwrap();
    server.expect(1, "003c 0050 0000000000000001 00").await;
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_breaks_the_rules_of_content_loses_the_connection() {
    let cases: [(&str, Malformed); 6] = [
        ("body", Malformed::Order("body frame")),
        ("header", Malformed::Order("content header")),
        ("longer", Malformed::BodyLength),
        ("method", Malformed::Order("method within content")),
        ("tag", Malformed::Tag { tag: 0, last: 0 }),
        ("prefetch", Malformed::Prefetch { most: 3 }),
    ];
    for (case, expected) in cases {
        let config = OpenConfig::default();
        let (connection, mut server, _channel, mut deliveries) = consuming(&config).await;
        match case {
            "body" => server.send(Kind::Body, 1, b"x").await,
            "header" => server.send(Kind::Header, 1, &[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await,
            "longer" => {
                server.head(1, 2, &[0, 0]).await;
                server.send(Kind::Body, 1, b"xyz").await;
            }
            "method" => {
                server.head(1, 2, &[0, 0]).await;
                server.method(1, "003c 000b").await;
            }
            "tag" => server.deliver(0, b"x").await,
            _ => {
                for number in 1..=4 {
                    server.deliver(number, b"x").await;
                }
            }
        }
        let reason = connection.closed().await;
        assert!(
            matches!(&reason, AmqpError::Protocol(malformed) if *malformed == expected),
            "{case}: {reason}"
        );
        assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(AmqpError::Protocol(_))));
        assert_eq!(config.budget.held(), 0, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_ends_within_content_gives_everything_back() {
    let config = OpenConfig::default();
    let (connection, mut server, _channel, mut deliveries) = consuming(&config).await;
    server.deliver(1, b"x").await;
    server.head(2, 10_000, &[0, 0]).await;
    server.send(Kind::Body, 1, &[7; 4000]).await;
    server.method(1, "0014 0028 0196 07 74696d656f7574 003c 0014").await;
    server.expect(1, "0014 0029").await;
    let event = deliveries.next().await;
    let expected = Close { code: 406, text: "timeout".to_owned(), class: 60, method: 20 };
    assert!(matches!(event, DeliveryEvent::Closed(AmqpError::ChannelClosed(close)) if close == expected));
    assert_eq!(config.budget.held(), 0);
    assert!(connection.is_open());
}
