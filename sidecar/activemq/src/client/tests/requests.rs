use std::time::Duration;

use lockstep_broker::Certainty;
use tokio::time::Instant;

use super::{
    connected, consuming, piped, queue,
    server::{CONSUMER_INFO, DESTINATION_INFO, PRODUCER_INFO, REMOVE, SESSION_INFO, object, string},
};
use lockstep_openwire::{Destination, DestinationKind};

use crate::client::{ANSWER_WITHIN, ClientError, OpenConfig, Outgoing, Subscription};

fn temporary(name: &str) -> Destination {
    Destination { kind: DestinationKind::TempQueue, name: name.into() }
}

#[tokio::test]
async fn a_sign_of_life_is_a_command_that_both_products_answer() {
    let (connection, mut server) = connected().await;
    for id in 3..6 {
        let (alive, asked) = tokio::join!(connection.alive(), server.answer(SESSION_INFO));
        alive.unwrap();
        assert_eq!(asked.id, id);
        let session = object(121, |out| {
            string(out, &server.connection);
            out.extend_from_slice(&1_i64.to_be_bytes());
        });
        assert_eq!(asked.body, session);
    }
}

#[tokio::test]
async fn answers_go_to_those_who_asked_in_whatever_order_they_come() {
    let (connection, mut server) = connected().await;
    let first = async { connection.alive().await };
    let second = async { connection.temp_queue().await };
    let broker = async {
        let one = server.expect(SESSION_INFO).await;
        let two = server.expect(DESTINATION_INFO).await;
        server.exception(two.id, "javax.jms.JMSException", "none left").await;
        server.response(one.id).await;
    };
    let (alive, queue, ()) = tokio::join!(first, second, broker);
    alive.unwrap();
    let refused = queue.unwrap_err();
    assert_eq!(refused.to_string(), "the broker answered: JMSException: none left");
    assert_eq!(refused.certainty(), Certainty::NotDone);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_answered_in_time_is_told_and_a_late_answer_is_nobodys() {
    let (connection, mut server) = piped(OpenConfig::default(), 30_000).await;
    let start = Instant::now();
    let error = connection.alive().await.unwrap_err();
    assert_eq!(start.elapsed(), ANSWER_WITHIN);
    assert!(
        matches!(error, ClientError::Timeout { what: "a sign of life", after } if after == ANSWER_WITHIN),
        "{error}"
    );
    assert_eq!(error.certainty(), Certainty::Unknown);
    let late = server.expect(SESSION_INFO).await;
    server.response(late.id).await;
    let broker = async {
        let asked = server.expect(SESSION_INFO).await;
        server.exception(asked.id, "java.lang.Exception", "").await;
    };
    let (alive, ()) = tokio::join!(connection.alive(), broker);
    assert_eq!(alive.unwrap_err().to_string(), "the broker answered: Exception");
}

#[tokio::test]
async fn a_refused_consumer_is_none_and_leaves_the_connection() {
    let (connection, mut server) = connected().await;
    for (class, security) in
        [("java.lang.SecurityException", true), ("javax.jms.InvalidSelectorException", false)]
    {
        let broker = async {
            let info = server.expect(CONSUMER_INFO).await;
            server.exception(info.id, class, "no").await;
        };
        let (refused, ()) = tokio::join!(connection.consume(Subscription::new(queue())), broker);
        let error = refused.unwrap_err();
        assert_eq!(matches!(error, ClientError::Security(_)), security, "{error}");
        assert_eq!(error.exception().unwrap().class, class.into());
    }
    // There is nothing to be removed.
    let (alive, _) = tokio::join!(connection.alive(), server.answer(SESSION_INFO));
    alive.unwrap();
}

#[tokio::test]
async fn a_consumer_that_nobody_waits_for_any_more_is_removed() {
    let (connection, mut server) = connected().await;
    tokio::select! {
        biased;
        _ = connection.consume(Subscription::new(queue())) => panic!("there is no answer yet"),
        _ = server.expect(CONSUMER_INFO) => {}
    }
    let remove = server.answer(REMOVE).await;
    assert!(remove.body.starts_with(&server.consumer_id(1)), "{remove:?}");
}

#[tokio::test]
async fn a_queue_for_answers_is_this_connections() {
    let (connection, mut server) = connected().await;
    for number in 1..=2 {
        let (made, asked) = tokio::join!(connection.temp_queue(), server.answer(DESTINATION_INFO));
        let name = format!("{}:{number}", server.connection);
        assert_eq!(made.unwrap(), temporary(&name));
        let mut wanted = object(120, |out| string(out, &server.connection)).to_vec();
        wanted.extend_from_slice(&object(102, |out| string(out, &name)));
        // To be added, without a limit in time and a path.
        wanted.extend_from_slice(&[0; 10]);
        assert_eq!(asked.body, wanted);
    }
}

#[tokio::test]
async fn a_message_is_sent_with_what_an_answer_needs() {
    let (connection, mut server) = connected().await;
    let outgoing = Outgoing {
        destination: Destination::queue("activemq.management"),
        reply_to: Some(temporary("answers")),
        correlation: Some("c-1".to_owned()),
        properties: vec![("_AMQ_Attribute".to_owned(), "consumerCount".to_owned())],
    };
    for number in 1..=2_u8 {
        let broker = async {
            if number == 1 {
                server.answer(PRODUCER_INFO).await;
            }
            let message = server.next().await.unwrap();
            server.response(message.id).await;
            message
        };
        let (sent, message) = tokio::join!(connection.send(outgoing.clone()), broker);
        sent.unwrap();
        assert!((23..=29).contains(&message.kind) && message.answered, "{message:?}");
        let shown = String::from_utf8_lossy(&message.body).into_owned();
        for part in ["activemq.management", "answers", "c-1", "_AMQ_Attribute\t\0\rconsumerCount"] {
            assert!(shown.contains(part), "{part} in {shown:?}");
        }
        // Each has an id of its own.
        let id = object(110, |out| {
            out.extend_from_slice(&[0]);
            out.extend_from_slice(&object(123, |out| {
                string(out, &server.connection);
                out.extend_from_slice(&1_i64.to_be_bytes());
                out.extend_from_slice(&1_i64.to_be_bytes());
            }));
            out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, number]);
        });
        assert!(message.body.windows(id.len()).any(|part| part == id), "{message:?}");
    }
}

#[tokio::test]
async fn what_does_not_fit_is_not_sent_and_nothing_of_it_goes_out() {
    let (connection, mut server, consumer, _deliveries) = consuming().await;
    let long = "x".repeat(70_000);
    let error = connection.consume(Subscription::new(Destination::queue(&long))).await.unwrap_err();
    assert!(matches!(error, ClientError::TooLong { .. }), "{error}");
    assert_eq!(error.certainty(), Certainty::NotDone);
    let selector = Some(long);
    let error =
        connection.consume(Subscription { selector, ..Subscription::new(queue()) }).await.unwrap_err();
    assert!(matches!(error, ClientError::TooLong { .. }), "{error}");
    consumer.pull(Duration::from_secs(1)).unwrap();
    server.answer(super::server::PULL).await;
    let (alive, _) = tokio::join!(connection.alive(), server.answer(SESSION_INFO));
    alive.unwrap();
}
