use std::{pin::pin, time::Duration};

use bytes::{BufMut, BytesMut};
use lockstep_broker::Certainty;
use lockstep_openwire::Destination;

use super::{
    config, connected, consume, consuming, message, open, queue,
    server::{
        CONSUMER_CONTROL, DISPATCH, PULL, REMOVE, SESSION_INFO, Server, command, object,
        queue as queue_object, string,
    },
};
use crate::client::{Budget, ClientError, DeliveryEvent, Dispatch, OpenConfig, Subscription, Undecodable};

#[tokio::test]
async fn a_consumer_is_announced_as_it_is_wanted() {
    let (connection, mut server) = connected().await;
    let plain = {
        let (consuming, info) =
            tokio::join!(connection.consume(Subscription::new(queue())), server.consumer(1));
        drop(consuming.unwrap());
        server.answer(REMOVE).await;
        info
    };
    let mut wanted = BytesMut::from(&server.consumer_id(1)[..]);
    wanted.put_u8(0);
    wanted.put_slice(&queue_object("q"));
    // Prefetch and limit 0; no selector and no names; neither exclusive nor retroactive; priority 0; nothing of networks.
    wanted.put_slice(&[0; 8]);
    wanted.put_slice(&[0, 0, 0, 0]);
    wanted.put_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(plain.body, wanted);
    let subscription = Subscription {
        prefetch: 1000,
        selector: Some("a = 1".to_owned()),
        exclusive: true,
        priority: 5,
        dispatch_async: true,
        no_local: true,
        ..Subscription::new(Destination::topic("t"))
    };
    let (consuming, info) = tokio::join!(connection.consume(subscription), server.consumer(2));
    let _consumer = consuming.unwrap();
    let mut wanted = BytesMut::from(&server.consumer_id(2)[..]);
    wanted.put_u8(0);
    wanted.put_slice(&object(101, |out| string(out, "t")));
    wanted.put_i32(1000);
    wanted.put_i32(0);
    wanted.put_u8(1);
    string(&mut wanted, "a = 1");
    wanted.put_slice(&[0, 0, 1, 1, 0, 5]);
    wanted.put_slice(&[0, 0, 0, 0, 0, 0]);
    assert_eq!(info.body, wanted);
}

#[tokio::test]
async fn messages_come_to_their_consumers_in_the_brokers_order() {
    let (connection, mut server, _one, mut first) = consuming().await;
    let (_two, mut second) = consume(&connection, &mut server, 2, Subscription::new(queue())).await;
    for sequence in 1..=50 {
        server.deliver(1 + sequence % 2, sequence, "hi").await;
    }
    for sequence in 1..=50 {
        let deliveries = if sequence % 2 == 0 { &mut first } else { &mut second };
        let dispatch = message(deliveries.next().await);
        assert_eq!(dispatch.id.broker_sequence, sequence);
        assert_eq!(dispatch.destination, queue());
        dispatch.message.unwrap();
    }
    assert!(first.try_next().is_none() && second.try_next().is_none());
}

#[tokio::test]
async fn what_comes_before_the_answer_is_among_the_deliveries() {
    let (connection, mut server) = connected().await;
    let broker = async {
        let info = server.expect(super::server::CONSUMER_INFO).await;
        server.deliver(1, 1, "early").await;
        server.response(info.id).await;
    };
    let (consuming, ()) = tokio::join!(connection.consume(Subscription::new(queue())), broker);
    let (_consumer, mut deliveries) = consuming.unwrap();
    // Already here, without a wait.
    assert_eq!(message(deliveries.try_next().unwrap()).id.broker_sequence, 1);
}

#[tokio::test]
async fn the_counter_of_the_dispatch_counts_and_none_is_below_0() {
    let (_connection, mut server, _consumer, mut deliveries) = consuming().await;
    for (told, taken) in [(0, 0), (3, 3), (-1, 0)] {
        let text = super::server::message(1, "hi");
        server.send(server.dispatch(1, Some(&text), told)).await;
        assert_eq!(message(deliveries.next().await).redeliveries, taken);
    }
}

#[tokio::test]
async fn a_pull_asks_for_one_message_and_is_told_that_there_is_none() {
    let (_connection, mut server, consumer, mut deliveries) = consuming().await;
    consumer.pull(Duration::from_secs(20)).unwrap();
    let pull = server.answer(PULL).await;
    let mut wanted = BytesMut::from(&server.consumer_id(1)[..]);
    wanted.put_slice(&queue_object("q"));
    wanted.put_i64(20_000);
    wanted.put_slice(&[0, 0]);
    assert_eq!(pull.body, wanted);
    assert!(deliveries.try_next().is_none());
    server.send(server.dispatch(1, None, 0)).await;
    assert!(matches!(deliveries.next().await, DeliveryEvent::Nothing));
    consumer.pull(Duration::from_secs(20)).unwrap();
    server.answer(PULL).await;
    server.deliver(1, 1, "hi").await;
    message(deliveries.next().await);
}

#[tokio::test]
async fn no_pull_waits_for_ever_or_not_at_all() {
    let (_connection, mut server, consumer, _deliveries) = consuming().await;
    // 0 stands for no limit, and less than a millisecond would be it.
    for (asked, told) in [(Duration::ZERO, 1), (Duration::from_nanos(1), 1), (Duration::MAX, i64::MAX)] {
        consumer.pull(asked).unwrap();
        let pull = server.answer(PULL).await;
        assert!(pull.body.ends_with(&[&told.to_be_bytes()[..], &[0, 0]].concat()), "{pull:?}");
    }
}

#[tokio::test]
async fn a_refused_pull_ends_its_consumer_alone() {
    let (connection, mut server, one, mut first) = consuming().await;
    let (two, mut second) = consume(&connection, &mut server, 2, Subscription::new(queue())).await;
    one.pull(Duration::from_secs(1)).unwrap();
    let pull = server.expect(PULL).await;
    server.deliver(1, 1, "goes back").await;
    server.exception(pull.id, "java.lang.IllegalArgumentException", "no such consumer").await;
    let (alive, _) = tokio::join!(connection.alive(), server.answer(SESSION_INFO));
    alive.unwrap();
    let event = first.next().await;
    assert!(matches!(event, DeliveryEvent::Closed(ClientError::Exception(_))), "{event:?}");
    let error = one.prefetch(1).unwrap_err();
    assert_eq!(error.certainty(), Certainty::NotDone);
    assert_eq!(error.exception().unwrap().name(), "IllegalArgumentException");
    two.pull(Duration::from_secs(1)).unwrap();
    server.answer(PULL).await;
    server.deliver(2, 2, "hi").await;
    message(second.next().await);
}

#[tokio::test]
async fn a_prefetch_is_raised_while_consuming() {
    let (_connection, mut server, consumer, _deliveries) = consuming().await;
    for (asked, told) in [(10, 10_i32), (0, 0), (u32::MAX, i32::MAX)] {
        consumer.prefetch(asked).unwrap();
        let control = server.answer(CONSUMER_CONTROL).await;
        let mut wanted = BytesMut::from(&queue_object("q")[..]);
        wanted.put_u8(0);
        wanted.put_slice(&server.consumer_id(1));
        wanted.put_i32(told);
        wanted.put_slice(&[0, 0, 0]);
        assert_eq!(control.body, wanted);
    }
}

#[tokio::test]
async fn a_consumer_that_the_broker_wants_gone_is_told_behind_its_messages_and_can_settle_them() {
    let (_connection, mut server, consumer, mut deliveries) = consuming().await;
    server.deliver(1, 1, "hi").await;
    server.send(server.control(1, true)).await;
    let dispatch = message(deliveries.next().await);
    assert!(matches!(deliveries.next().await, DeliveryEvent::Cancelled));
    let answer = consumer.ack(super::acks::done(&dispatch)).unwrap();
    let (acked, _) = tokio::join!(answer, server.answer(super::server::ACK));
    acked.unwrap();
    assert!(deliveries.try_next().is_none());
}

#[tokio::test]
async fn a_closed_consumer_is_removed_with_what_was_delivered_and_nothing_comes_of_it() {
    let (connection, mut server, consumer, mut deliveries) = consuming().await;
    server.deliver(1, 42, "hi").await;
    message(deliveries.next().await);
    let copy = consumer.clone();
    let broker = async {
        server.deliver(1, 43, "on its way").await;
        let remove = server.expect(REMOVE).await;
        server.deliver(1, 44, "late").await;
        server.response(remove.id).await;
        remove
    };
    let (closed, remove) = tokio::join!(consumer.close(42), broker);
    closed.unwrap();
    let wanted = [&server.consumer_id(1)[..], &42_i64.to_be_bytes()].concat();
    assert_eq!(remove.body, wanted);
    assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(ClientError::ClosedByUs)));
    assert!(matches!(copy.pull(Duration::from_secs(1)).unwrap_err(), ClientError::NotOpen(_)));
    assert!(matches!(copy.close(42).await.unwrap_err(), ClientError::NotOpen(_)));
    // Dropping the handles does not remove it again.
    drop((copy, consumer, deliveries));
    let (alive, _) = tokio::join!(connection.alive(), server.answer(SESSION_INFO));
    alive.unwrap();
}

#[tokio::test]
async fn a_consumer_that_the_broker_had_removed_is_closed_too() {
    let (_connection, mut server, consumer, _deliveries) = consuming().await;
    let broker = async {
        let remove = server.expect(REMOVE).await;
        server.exception(remove.id, "java.lang.IllegalStateException", "not registered").await;
    };
    let (closed, ()) = tokio::join!(consumer.close(-1), broker);
    closed.unwrap();
}

#[tokio::test]
async fn one_that_waits_for_a_delivery_is_woken_by_the_end() {
    let (_connection, mut server, consumer, mut deliveries) = consuming().await;
    let waiting = async { deliveries.next().await };
    let mut waiting = pin!(waiting);
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("nothing has come"),
        () = std::future::ready(()) => {}
    }
    let (event, closed, _) = tokio::join!(waiting, consumer.close(-1), server.answer(REMOVE));
    closed.unwrap();
    assert!(matches!(event, DeliveryEvent::Closed(ClientError::ClosedByUs)));
}

/// With a maximum of 1000 bytes a frame.
async fn bounded() -> (crate::client::Connection, Server) {
    let bounded = OpenConfig { max_frame: 1000, ..config() };
    let (opened, server) = open(bounded, async |server| server.agree(30_000).await).await;
    (opened.unwrap(), server)
}

#[tokio::test]
async fn a_message_that_is_too_long_comes_with_its_id_and_can_be_settled() {
    let (connection, mut server) = bounded().await;
    let (consumer, mut deliveries) = consume(&connection, &mut server, 1, Subscription::new(queue())).await;
    for (sequence, length) in [(1, 500), (2, 1000), (3, 2_000_000), (4, 500)] {
        let text = super::server::message(sequence, &"x".repeat(length));
        let frame = server.dispatch(1, Some(&text), 7);
        let size = frame.len() as u64;
        server.send(frame).await;
        let dispatch = message(deliveries.next().await);
        assert_eq!(dispatch.id.broker_sequence, sequence);
        assert_eq!((dispatch.redeliveries, &dispatch.destination), (7, &queue()));
        if size <= 1000 {
            dispatch.message.unwrap();
        } else {
            assert_eq!(dispatch.message.unwrap_err(), Undecodable::Oversize { size });
            let answer =
                consumer.ack(super::acks::done(&Dispatch { message: Err(oversize(size)), ..dispatch }));
            let (acked, ack) = tokio::join!(answer.unwrap(), server.answer(super::server::ACK));
            acked.unwrap();
            let id = super::server::message_id(sequence);
            assert!(ack.body.windows(id.len()).any(|part| part == id), "{ack:?}");
        }
    }
}

fn oversize(size: u64) -> Undecodable {
    Undecodable::Oversize { size }
}

#[tokio::test]
async fn other_frames_that_are_too_long_are_skipped() {
    let (connection, mut server) = bounded().await;
    server.send(command(99, |out| out.extend_from_slice(&[1; 300_000]))).await;
    server.send(vec![0xff; 1001]).await;
    let (alive, _) = tokio::join!(connection.alive(), server.answer(SESSION_INFO));
    alive.unwrap();
}

#[tokio::test]
async fn a_message_that_can_not_be_read_comes_with_its_id() {
    let (_connection, mut server, _consumer, mut deliveries) = consuming().await;
    let mut text = super::server::message(5, "hi").to_vec();
    // The group's id, right behind the message's, is of a length that nothing has.
    let id = super::server::message_id(5);
    let at = text.windows(id.len()).position(|part| part == id).unwrap() + id.len() + 1;
    text[at..at + 3].copy_from_slice(&[1, 0xff, 0xff]);
    server.send(server.dispatch(1, Some(&text), 2)).await;
    let dispatch = message(deliveries.next().await);
    assert_eq!((dispatch.id.broker_sequence, dispatch.redeliveries), (5, 2));
    let reason = dispatch.message.unwrap_err();
    assert!(matches!(reason, Undecodable::Malformed { .. }), "{reason:?}");
}

#[tokio::test]
async fn a_message_of_which_nothing_can_be_read_ends_the_connection() {
    let (connection, mut server, _consumer, mut deliveries) = consuming().await;
    server.send(command(DISPATCH, |out| out.extend_from_slice(&[1, 122, 1, 0xff]))).await;
    let reason = connection.closed().await;
    assert!(matches!(reason, ClientError::Protocol(_)), "{reason}");
    assert!(matches!(deliveries.next().await, DeliveryEvent::Closed(ClientError::Protocol(_))));
}

#[tokio::test]
async fn what_is_held_is_counted_until_the_last_slice_is_gone() {
    let budget = Budget::new(1000);
    let config = OpenConfig { budget: budget.clone(), ..config() };
    let (opened, mut server) = open(config, async |server| server.agree(30_000).await).await;
    let connection = opened.unwrap();
    let (_consumer, mut deliveries) = consume(&connection, &mut server, 1, Subscription::new(queue())).await;
    assert!(budget.has_room() && budget.held() == 0);
    let text = super::server::message(1, &"x".repeat(2000));
    let size = server.dispatch(1, Some(&text), 0).len();
    server.send(server.dispatch(1, Some(&text), 0)).await;
    let dispatch = message(deliveries.next().await);
    assert_eq!(budget.held(), size);
    assert!(!budget.has_room());
    let content = dispatch.message.as_ref().unwrap().fields.content.clone().unwrap();
    drop(dispatch);
    assert_eq!(budget.held(), size);
    let ((), ()) = tokio::join!(budget.room(), async { drop(content) });
    assert_eq!(budget.held(), 0);
    // Nor do messages that nobody takes hold anything after the end.
    server.deliver(1, 2, "hi").await;
    server.deliver(1, 3, "hi").await;
    message(deliveries.next().await);
    drop(server);
    connection.closed().await;
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn what_comes_to_a_consumer_that_ended_is_not_kept() {
    let budget = Budget::new(1000);
    let config = OpenConfig { budget: budget.clone(), ..config() };
    let (opened, mut server) = open(config, async |server| server.agree(30_000).await).await;
    let connection = opened.unwrap();
    let (consumer, _deliveries) = consume(&connection, &mut server, 1, Subscription::new(queue())).await;
    consumer.pull(Duration::from_secs(1)).unwrap();
    let pull = server.expect(PULL).await;
    server.exception(pull.id, "java.lang.IllegalArgumentException", "no such consumer").await;
    server.deliver(1, 1, "late").await;
    let (alive, _) = tokio::join!(connection.alive(), server.answer(SESSION_INFO));
    alive.unwrap();
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn a_broker_that_sends_without_end_what_nobody_asked_for_is_left() {
    let (connection, mut server, _consumer, _deliveries) = consuming().await;
    let nothing = super::server::sized(&server.dispatch(1, None, 0)).repeat(10_000);
    // It hangs up before all is taken.
    let _: Result<(), std::io::Error> =
        tokio::io::AsyncWriteExt::write_all(&mut server.stream, &nothing).await;
    let reason = connection.closed().await;
    assert!(matches!(reason, ClientError::Protocol(_)), "{reason}");
}
