use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt;

use super::{
    config, connected, consume, message, open, queue,
    server::{
        CLASSIC_ID, CONNECTION_INFO, SESSION_INFO, broker_info, command, keep_alive, sized, wire_format,
    },
};
use crate::client::{ClientError, DeliveryEvent, Subscription};

/// All that a broker says in a handshake, in one piece.
fn greeting() -> Bytes {
    let response = |to: i32| command(30, |out| out.extend_from_slice(&to.to_be_bytes()));
    let frames = [wire_format(12, Some(30_000)), broker_info(CLASSIC_ID, "t"), response(1), response(2)];
    frames.iter().flat_map(|frame| sized(frame)).collect()
}

#[tokio::test]
async fn a_handshake_in_one_piece_or_byte_by_byte_is_one() {
    for size in [1, 3, 1000] {
        let (opened, mut server) = open(config(), async |server| {
            server.frame().await.unwrap();
            for piece in greeting().chunks(size) {
                server.raw(piece).await;
            }
            server.expect(CONNECTION_INFO).await;
            server.expect(SESSION_INFO).await;
        })
        .await;
        let connection = opened.unwrap();
        let (alive, _) = tokio::join!(connection.alive(), server.answer(SESSION_INFO));
        alive.unwrap();
    }
}

#[tokio::test]
async fn a_handshake_that_is_cut_at_any_byte_is_none() {
    let greeting = greeting();
    for cut in 0..greeting.len() {
        let (opened, _server) = open(config(), async |server| {
            server.frame().await.unwrap();
            // The client may have hung up before: what it asks is not read.
            server.raw(&greeting[..cut]).await;
            server.stream.shutdown().await.unwrap();
        })
        .await;
        let error = opened.unwrap_err();
        assert!(matches!(error, ClientError::ClosedByPeer), "{error} at {cut}");
    }
}

#[tokio::test]
async fn deliveries_that_are_cut_at_any_byte_end_with_the_connection() {
    let (_, server) = connected().await;
    let length = sized(&server.dispatch(1, Some(&super::server::message(1, "hi")), 0)).len();
    for cut in (0..length).step_by(7) {
        let (connection, mut server) = connected().await;
        let (_consumer, mut deliveries) =
            consume(&connection, &mut server, 1, Subscription::new(queue())).await;
        let delivery = sized(&server.dispatch(1, Some(&super::server::message(1, "hi")), 0));
        server.raw(&delivery).await;
        message(deliveries.next().await);
        server.raw(&delivery[..cut]).await;
        server.stream.shutdown().await.unwrap();
        let event = deliveries.next().await;
        assert!(matches!(event, DeliveryEvent::Closed(ClientError::ClosedByPeer)), "{event:?} at {cut}");
    }
}

#[tokio::test]
async fn deliveries_may_come_in_any_pieces() {
    let (connection, mut server) = connected().await;
    let (_consumer, mut deliveries) = consume(&connection, &mut server, 1, Subscription::new(queue())).await;
    let mut bytes = BytesMut::new();
    for sequence in 1..=9 {
        bytes.extend_from_slice(&sized(&keep_alive(false)));
        let text = super::server::message(sequence, "hi");
        bytes.extend_from_slice(&sized(&server.dispatch(1, Some(&text), 0)));
    }
    for size in [1, 5, 64, 10_000] {
        for piece in bytes.chunks(size) {
            server.raw(piece).await;
        }
        for sequence in 1..=9 {
            assert_eq!(message(deliveries.next().await).id.broker_sequence, sequence);
        }
    }
}

#[tokio::test]
async fn garbage_ends_the_connection_and_nothing_else() {
    for garbage in [
        &[0, 0, 0, 0][..],
        &[0xff; 4],
        // An answer without what it answers; an exception that is cut; the end of an unknown consumer, cut.
        &[0, 0, 0, 6, 30, 0, 0, 0, 0, 0],
        &[0, 0, 0, 12, 31, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1],
        &[0, 0, 0, 8, 17, 0, 0, 0, 0, 0, 0, 1],
        &[0, 0, 0, 2, 21, 0],
    ] {
        let (connection, mut server) = connected().await;
        server.raw(garbage).await;
        let reason = connection.closed().await;
        assert!(matches!(reason, ClientError::Protocol(_)), "{reason} after {garbage:?}");
    }
}
