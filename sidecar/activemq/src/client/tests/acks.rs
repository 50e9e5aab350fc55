use bytes::{BufMut, BytesMut};
use futures_util::future::join_all;
use lockstep_broker::Certainty;

use super::{
    consuming, message,
    server::{ACK, REMOVE, message_id, queue, string},
};
use crate::client::{Ack, AckVerdict, ClientError, Dispatch};

/// That a message is done.
pub(super) fn done(dispatch: &Dispatch) -> Ack {
    Ack { destination: dispatch.destination.clone(), message: dispatch.id.clone(), verdict: AckVerdict::Done }
}

fn poison(dispatch: &Dispatch, cause: String) -> Ack {
    Ack { verdict: AckVerdict::Poison { cause }, ..done(dispatch) }
}

/// Of one message of consumer 1.
fn wanted(server: &super::Server, kind: u8, sequence: i64) -> BytesMut {
    let mut wanted = BytesMut::from(&queue("q")[..]);
    wanted.put_u8(0);
    wanted.put_slice(&server.consumer_id(1));
    wanted.put_u8(kind);
    wanted.put_slice(&message_id(sequence));
    wanted.put_slice(&message_id(sequence));
    wanted.put_i32(1);
    wanted
}

#[tokio::test]
async fn acknowledgements_leave_in_the_order_in_which_they_were_made_with_the_id_as_it_came() {
    let (_connection, mut server, consumer, mut deliveries) = consuming().await;
    for sequence in 1..=20 {
        server.deliver(1, sequence, "hi").await;
    }
    let mut taken = Vec::new();
    for _ in 0..20 {
        taken.push(message(deliveries.next().await));
    }
    // Out of order, and none is waited for before all are made.
    taken.reverse();
    let answers: Vec<_> = taken.iter().map(|dispatch| consumer.ack(done(dispatch)).unwrap()).collect();
    let broker = async {
        for sequence in (1..=20).rev() {
            let ack = server.answer(ACK).await;
            let mut wanted = wanted(&server, 2, sequence);
            wanted.put_u8(0);
            assert_eq!(ack.body, wanted);
        }
    };
    let (answers, ()) = tokio::join!(join_all(answers), broker);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test]
async fn a_dead_letter_tells_why_in_a_class_that_every_broker_has() {
    let (_connection, mut server, consumer, mut deliveries) = consuming().await;
    server.deliver(1, 1, "hi").await;
    let dispatch = message(deliveries.next().await);
    let long = "é".repeat(600);
    for (cause, told) in [("too often", "too often"), ("", ""), (&long, &"é".repeat(512))] {
        let answer = consumer.ack(poison(&dispatch, cause.to_owned())).unwrap();
        let (acked, ack) = tokio::join!(answer, server.answer(ACK));
        acked.unwrap();
        let mut wanted = wanted(&server, 1, 1);
        wanted.put_u8(1);
        string(&mut wanted, "java.lang.Exception");
        string(&mut wanted, told);
        assert_eq!(ack.body, wanted);
    }
}

#[tokio::test]
async fn a_refused_acknowledgement_is_told_to_whoever_made_it() {
    let (connection, mut server, consumer, mut deliveries) = consuming().await;
    server.deliver(1, 1, "hi").await;
    server.deliver(1, 2, "hi").await;
    let (one, two) = (message(deliveries.next().await), message(deliveries.next().await));
    let (first, second) = (consumer.ack(done(&one)).unwrap(), consumer.ack(done(&two)).unwrap());
    let broker = async {
        let ack = server.expect(ACK).await;
        server.exception(ack.id, "javax.jms.JMSException", "Unmatched acknowledge").await;
        server.answer(ACK).await;
    };
    let (first, second, ()) = tokio::join!(first, second, broker);
    let error = first.unwrap_err();
    assert!(
        matches!(&error, ClientError::Exception(exception) if &*exception.message == "Unmatched acknowledge")
    );
    assert_eq!(error.certainty(), Certainty::NotDone);
    second.unwrap();
    // The consumer is whoever uses it to judge.
    assert!(connection.is_open());
    drop(consumer.ack(done(&one)).unwrap());
    server.answer(ACK).await;
}

#[tokio::test]
async fn an_acknowledgement_that_was_not_answered_when_the_connection_ended_may_be_done() {
    let (_connection, mut server, consumer, mut deliveries) = consuming().await;
    server.deliver(1, 1, "hi").await;
    let dispatch = message(deliveries.next().await);
    let answer = consumer.ack(done(&dispatch)).unwrap();
    let broker = async {
        server.expect(ACK).await;
        drop(server);
    };
    let (acked, ()) = tokio::join!(answer, broker);
    assert_eq!(acked.unwrap_err().certainty(), Certainty::Unknown);
    assert_eq!(consumer.ack(done(&dispatch)).unwrap_err().certainty(), Certainty::NotDone);
}

#[tokio::test]
async fn nothing_is_acknowledged_through_a_closed_consumer() {
    let (_connection, mut server, consumer, mut deliveries) = consuming().await;
    server.deliver(1, 1, "hi").await;
    let dispatch = message(deliveries.next().await);
    let running = consumer.ack(done(&dispatch)).unwrap();
    let broker = async {
        // What was acknowledged before the end goes out before it.
        server.answer(ACK).await;
        server.answer(REMOVE).await;
    };
    let (running, closed, ()) = tokio::join!(running, consumer.close(1), broker);
    running.unwrap();
    closed.unwrap();
    let refused = consumer.ack(done(&dispatch)).unwrap_err();
    assert!(matches!(refused, ClientError::NotOpen(_)), "{refused}");
}
