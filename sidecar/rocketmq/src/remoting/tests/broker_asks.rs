use super::{Event, LONG, peer::FakePeer, plain, question, up};
use crate::{codec::Command, protocol::BrokerRequest};

/// Connects and gives both ends.
macro_rules! connected {
    ($peer:ident, $remoting:ident, $events:ident, $conversation:ident) => {
        let $peer = FakePeer::start().await;
        let ($remoting, mut $events) = plain();
        let request = question(0);
        let (sent, conversation) =
            tokio::join!($remoting.oneway(&$peer.address, &request, LONG), $peer.accept());
        sent.unwrap();
        let mut $conversation = conversation;
        $conversation.read().await;
        up(&mut $events).await;
    };
}

fn running_info(opaque: i32) -> Command {
    let mut command = Command::request(307).field("consumerGroup", "g").field("clientId", "me");
    command.opaque = opaque;
    command
}

#[tokio::test]
async fn a_notice_reaches_the_listener_and_gets_no_answer() {
    connected!(peer, remoting, events, conversation);
    conversation.write(&Command::request(40).field("consumerGroup", "g").oneway()).await;
    conversation.write(&running_info(7)).await;
    let Some(Event::Request { request, responder, .. }) = events.recv().await else { panic!() };
    assert!(matches!(request, BrokerRequest::MembersChanged { group } if group == "g"));
    responder.refuse("not heard");
    let Some(Event::Request { responder, .. }) = events.recv().await else { panic!() };
    responder.answer("{}");
    let answer = conversation.read().await;
    assert_eq!((answer.opaque, answer.code, answer.is_response()), (7, 0, true));
    assert_eq!(&answer.body[..], b"{}");
}

#[tokio::test]
async fn a_question_that_is_dropped_is_refused() {
    connected!(peer, remoting, events, conversation);
    conversation.write(&running_info(-3)).await;
    let Some(Event::Request { request, responder, .. }) = events.recv().await else { panic!() };
    assert!(matches!(request, BrokerRequest::QueryRunningInfo(info) if info.client_id == "me"));
    drop(responder);
    let answer = conversation.read().await;
    assert_eq!((answer.opaque, answer.code), (-3, 1));
}

#[tokio::test]
async fn what_is_not_for_consumers_is_answered_without_the_listener() {
    connected!(peer, remoting, events, conversation);
    for (code, expected) in [(4711, 3), (326, 1), (221, 1)] {
        let mut command = Command::request(code);
        command.opaque = code;
        conversation.write(&command).await;
        let answer = conversation.read().await;
        assert_eq!((answer.opaque, answer.code), (code, expected));
    }
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn an_answer_for_a_lost_connection_is_not_sent_on_the_next_one() {
    connected!(peer, remoting, events, conversation);
    conversation.write(&running_info(7)).await;
    let Some(Event::Request { responder, .. }) = events.recv().await else { panic!() };
    drop(conversation);
    super::down(&mut events).await;
    let request = question(0);
    let (sent, conversation) = tokio::join!(remoting.oneway(&peer.address, &request, LONG), peer.accept());
    sent.unwrap();
    responder.answer("stale");
    let mut conversation = conversation;
    assert_eq!(conversation.read().await.code, 30);
    remoting.oneway(&peer.address, &Command::request(99), LONG).await.unwrap();
    assert_eq!(conversation.read().await.code, 99);
}

#[tokio::test]
async fn questions_without_a_reader_are_bounded_and_refused() {
    connected!(peer, remoting, events, conversation);
    // More than the event channel and the connection hold together.
    for opaque in 0..400 {
        conversation.write(&running_info(opaque)).await;
    }
    let answer = conversation.read().await;
    assert_eq!(answer.code, 2);
    let mut held = Vec::new();
    while let Ok(event) = events.try_recv() {
        held.push(event);
    }
    assert!(held.len() <= 256);
    drop(held);
}

#[tokio::test]
async fn without_a_listener_questions_are_refused_and_calls_go_on() {
    connected!(peer, remoting, events, conversation);
    drop(events);
    conversation.write(&running_info(5)).await;
    let answer = conversation.read().await;
    assert_eq!((answer.opaque, answer.code), (5, 1));
    tokio::spawn(conversation.echo());
    assert_eq!(remoting.call(&peer.address, &question(8), LONG).await.unwrap(), 8);
}
