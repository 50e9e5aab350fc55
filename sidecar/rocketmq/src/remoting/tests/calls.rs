use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use lockstep_broker::Certainty;
use tokio::time::Instant;

use super::{LONG, peer::FakePeer, plain, question, up};
use crate::{
    codec::{Command, Credentials, HeaderEncoding},
    protocol::ResponseCode,
    remoting::{CallError, CredentialsSource, Remoting, RemotingConfig},
};

#[tokio::test]
async fn replies_find_their_callers_in_any_order() {
    let peer = FakePeer::start().await;
    let (remoting, _events) = plain();
    let calls = join_all((0..200).map(|queue| {
        let (remoting, address) = (remoting.clone(), peer.address.clone());
        async move { remoting.call(&address, &question(queue), LONG).await.unwrap() }
    }));
    let answers = async {
        let mut conversation = peer.accept().await;
        let mut requests = Vec::new();
        for _ in 0..200 {
            requests.push(conversation.read().await);
        }
        for request in requests.iter().rev() {
            let queue: i64 = request.fields.get("queueId").unwrap().parse().unwrap();
            conversation.answer(request, queue * 10).await;
        }
        conversation
    };
    let (offsets, _conversation) = tokio::join!(calls, answers);
    assert_eq!(offsets, (0..200).map(|queue| queue * 10).collect::<Vec<i64>>());
}

#[tokio::test]
async fn both_header_forms_are_understood() {
    let peer = FakePeer::start().await;
    let config = RemotingConfig { encoding: HeaderEncoding::Binary, ..RemotingConfig::default() };
    let (remoting, _events) = Remoting::new(config);
    let request = question(3);
    let call = remoting.call(&peer.address, &request, LONG);
    let answer = async {
        let mut conversation = peer.accept().await;
        let request = conversation.read().await;
        // As brokers from 5.0 do: a binary question, a JSON answer.
        conversation.answer(&request, 77).await;
        conversation
    };
    let (offset, _conversation) = tokio::join!(call, answer);
    assert_eq!(offset.unwrap(), 77);
}

#[tokio::test]
async fn a_refusal_says_its_code() {
    let peer = FakePeer::start().await;
    let (remoting, _events) = plain();
    let request = question(3);
    let call = remoting.call(&peer.address, &request, LONG);
    let answer = async {
        let mut conversation = peer.accept().await;
        let request = conversation.read().await;
        conversation.write(&Command::response(17, request.opaque).remark("topic[T] not exist")).await;
        conversation
    };
    let (error, _conversation) = tokio::join!(call, answer);
    let error = error.unwrap_err();
    assert_eq!(error.refusal(), Some(ResponseCode::TopicNotExist));
    assert_eq!(error.certainty(), Certainty::NotDone);
    assert!(error.to_string().ends_with(
        "did not query the largest offset: refused with code 17 TOPIC_NOT_EXIST: topic[T] not exist"
    ));
}

#[tokio::test]
async fn a_call_dropped_before_it_is_written_is_never_written() {
    let peer = FakePeer::start().await;
    let (remoting, _events) = plain();
    let first = question(1);
    let mut dropped = Box::pin(remoting.call(&peer.address, &first, LONG));
    // Polled once, it stands in the queue: the connection's task had no turn yet.
    assert!(futures_util::poll!(&mut dropped).is_pending());
    drop(dropped);
    let second = question(2);
    let call = remoting.call(&peer.address, &second, LONG);
    let answer = async {
        let mut conversation = peer.accept().await;
        let request = conversation.read().await;
        assert_eq!(request.fields.get("queueId"), Some("2"));
        conversation.answer(&request, 5).await;
        conversation
    };
    let (offset, _conversation) = tokio::join!(call, answer);
    assert_eq!(offset.unwrap(), 5);
}

#[tokio::test]
async fn a_call_dropped_after_it_is_written_leaves_the_connection_usable() {
    let peer = FakePeer::start().await;
    let (remoting, _events) = plain();
    let first = question(1);
    let mut dropped = Box::pin(remoting.call(&peer.address, &first, LONG));
    let mut conversation = tokio::select! {
        _ = &mut dropped => unreachable!("nobody answers yet"),
        conversation = peer.accept() => conversation,
    };
    let request = tokio::select! {
        _ = &mut dropped => unreachable!("nobody answers yet"),
        request = conversation.read() => request,
    };
    drop(dropped);
    conversation.answer(&request, 1).await;
    tokio::spawn(conversation.echo());
    assert_eq!(remoting.call(&peer.address, &question(2), LONG).await.unwrap(), 2);
}

#[tokio::test]
async fn nothing_is_written_after_its_last_moment() {
    let peer = FakePeer::start().await;
    let (remoting, _events) = plain();
    let past = Instant::now().checked_sub(Duration::from_millis(1)).unwrap();
    let late = question(1);
    let call = remoting.call_before(&peer.address, &late, LONG, Some(past));
    let (error, conversation) = tokio::join!(call, peer.accept());
    let error = error.unwrap_err();
    assert!(matches!(error, CallError::TooLate { .. }), "{error}");
    assert_eq!(error.certainty(), Certainty::NotDone);
    let mut conversation = conversation;
    let second = question(2);
    let call = remoting.call_before(&peer.address, &second, LONG, Some(Instant::now() + LONG));
    let first_seen = async {
        let request = conversation.read().await;
        conversation.answer(&request, 2).await;
        request.fields.get("queueId").unwrap().to_owned()
    };
    let (offset, seen) = tokio::join!(call, first_seen);
    assert_eq!((offset.unwrap(), seen.as_str()), (2, "2"));
}

#[tokio::test]
async fn a_oneway_request_is_done_when_written() {
    let peer = FakePeer::start().await;
    let (remoting, _events) = plain();
    let request = question(4);
    let (sent, conversation) = tokio::join!(remoting.oneway(&peer.address, &request, LONG), peer.accept());
    sent.unwrap();
    let mut conversation = conversation;
    let seen = conversation.read().await;
    assert!(seen.is_oneway() && !seen.is_response());
}

#[tokio::test]
async fn requests_are_signed_with_what_is_valid_at_the_connect() {
    let peer = FakePeer::start().await;
    let reads = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&reads);
    let credentials = CredentialsSource::Function(Arc::new(move || {
        let read = counter.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Credentials {
            access_key: format!("key-{read}"),
            secret_key: "sk".to_owned(),
            security_token: None,
        }))
    }));
    let config = RemotingConfig { credentials, ..RemotingConfig::default() };
    let (remoting, mut events) = Remoting::new(config);
    for read in 0..2 {
        let request = question(4);
        let (sent, conversation) =
            tokio::join!(remoting.oneway(&peer.address, &request, LONG), peer.accept());
        sent.unwrap();
        let mut conversation = conversation;
        let mut seen = conversation.read().await;
        assert_eq!(seen.fields.get("AccessKey"), Some(format!("key-{read}").as_str()));
        let signature = seen.fields.get("Signature").unwrap().to_owned();
        seen.fields.remove("Signature");
        let signer = Credentials {
            access_key: format!("key-{read}"),
            secret_key: "sk".to_owned(),
            security_token: None,
        };
        signer.sign(&mut seen);
        assert_eq!(seen.fields.get("Signature"), Some(signature.as_str()));
        up(&mut events).await;
        remoting.close(&peer.address);
        assert!(conversation.next().await.is_none());
        super::down(&mut events).await;
    }
}

#[tokio::test]
async fn an_overridden_address_is_connected_to_instead() {
    let peer = FakePeer::start().await;
    let overrides = BTreeMap::from([("10.255.255.1:10911".to_owned(), peer.address.clone())]);
    let (remoting, mut events) = Remoting::new(RemotingConfig { overrides, ..RemotingConfig::default() });
    let request = question(1);
    let (sent, _conversation) =
        tokio::join!(remoting.oneway("10.255.255.1:10911", &request, LONG), peer.accept());
    sent.unwrap();
    match events.recv().await.unwrap() {
        super::Event::Up { address, .. } => assert_eq!(&*address, "10.255.255.1:10911"),
        other @ (super::Event::Down { .. } | super::Event::Request { .. }) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_last_clone_closes_the_connections() {
    let peer = FakePeer::start().await;
    let (remoting, _events) = plain();
    let request = question(1);
    let (sent, mut conversation) =
        tokio::join!(remoting.oneway(&peer.address, &request, LONG), peer.accept());
    sent.unwrap();
    drop(remoting);
    conversation.read().await;
    assert!(conversation.next().await.is_none());
}
