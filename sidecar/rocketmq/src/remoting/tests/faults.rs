use std::time::Duration;

use futures_util::future::join_all;
use lockstep_broker::Certainty;
use tokio::net::TcpListener;

use super::{
    LONG, down,
    peer::{FakePeer, frame},
    plain, question, up,
};
use crate::{
    codec::{Command, FrameError},
    protocol::ResponseCode,
    remoting::{CallError, ConnectError, Lost},
};

/// A timeout that must pass for the test to go on; long enough for a busy machine to write a request in it.
const SHORT: Duration = Duration::from_secs(2);

/// Calls once, and has the peer answer these bytes and close when told so. Gives the call's error.
async fn call_answered_with(bytes: impl Fn(&Command) -> Vec<u8>, close: bool) -> (CallError, Lost) {
    let peer = FakePeer::start().await;
    let (remoting, mut events) = plain();
    let request = question(1);
    let call = remoting.call(&peer.address, &request, LONG);
    let answer = async {
        let mut conversation = peer.accept().await;
        let request = conversation.read().await;
        conversation.write_raw(&bytes(&request)).await;
        if close { None } else { Some(conversation) }
    };
    let (error, _conversation) = tokio::join!(call, answer);
    up(&mut events).await;
    (error.unwrap_err(), down(&mut events).await.1)
}

#[tokio::test]
async fn a_connection_closed_in_a_frame_leaves_the_call_uncertain() {
    let half = |request: &Command| {
        let whole = frame(&Command::response(0, request.opaque).field("offset", 1));
        whole[..whole.len() / 2].to_vec()
    };
    let (error, reason) = call_answered_with(half, true).await;
    assert!(matches!(reason, Lost::Closed), "{reason}");
    assert!(matches!(error, CallError::Lost { cause: Lost::Closed, .. }), "{error}");
    assert_eq!(error.certainty(), Certainty::Unknown);
}

#[tokio::test]
async fn garbage_closes_the_connection() {
    let garbage = |_: &Command| b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec();
    let (error, reason) = call_answered_with(garbage, false).await;
    assert!(matches!(reason, Lost::Frame(FrameError::Length(_))), "{reason}");
    assert_eq!(error.certainty(), Certainty::Unknown);
}

#[tokio::test]
async fn an_oversize_length_closes_the_connection_before_anything_more_is_read() {
    let oversize = |_: &Command| vec![0x01, 0, 0, 1];
    let (_, reason) = call_answered_with(oversize, false).await;
    assert!(matches!(reason, Lost::Frame(FrameError::Length(0x0100_0001))), "{reason}");
}

#[tokio::test]
async fn a_header_that_is_no_command_closes_the_connection() {
    let broken = |_: &Command| vec![0, 0, 0, 6, 0, 0, 0, 2, b'[', b']'];
    let (_, reason) = call_answered_with(broken, false).await;
    assert!(matches!(reason, Lost::Frame(FrameError::Member("code"))), "{reason}");
}

#[tokio::test]
async fn a_peer_that_goes_away_is_left() {
    let go_away = |request: &Command| frame(&Command::response(1500, request.opaque));
    let (error, reason) = call_answered_with(go_away, false).await;
    assert!(matches!(reason, Lost::GoAway), "{reason}");
    assert_eq!(error.refusal(), Some(ResponseCode::GoAway));
}

#[tokio::test]
async fn a_silent_peer_is_left_and_the_next_call_connects_anew() {
    let peer = FakePeer::start().await;
    let (remoting, mut events) = plain();
    let request = question(1);
    let (error, mut conversation) =
        tokio::join!(remoting.call(&peer.address, &request, SHORT), peer.accept());
    let error = error.unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }), "{error}");
    assert_eq!(error.certainty(), Certainty::Unknown);
    let first = up(&mut events).await;
    let (connection, reason) = down(&mut events).await;
    assert_eq!(connection, first);
    assert!(matches!(reason, Lost::Silent(_)), "{reason}");
    conversation.read().await;
    assert!(conversation.next().await.is_none());
    let (offset, ()) = tokio::join!(call_through_backoff(&remoting, &peer.address), async {
        tokio::spawn(peer.accept().await.echo());
    });
    assert_eq!(offset, 9);
    assert!(up(&mut events).await > first);
}

/// Calls until no backoff stands in the way; fails on any other error.
async fn call_through_backoff(remoting: &super::Remoting, address: &str) -> i64 {
    loop {
        match remoting.call(address, &question(9), LONG).await {
            Ok(offset) => return offset,
            Err(CallError::Backoff { retry_in, .. }) => tokio::time::sleep(retry_in).await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_refused_connect_fails_at_once_and_then_fails_fast_until_its_time() {
    // A port that nobody listens on: taken and given back.
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let (remoting, _events) = plain();
    let error = remoting.call(&address, &question(1), LONG).await.unwrap_err();
    assert!(matches!(&error, CallError::Connect { cause: ConnectError::Io(_), .. }), "{error}");
    assert_eq!(error.certainty(), Certainty::NotDone);
    let error = remoting.call(&address, &question(1), LONG).await.unwrap_err();
    let CallError::Backoff { retry_in, .. } = &error else { panic!("{error}") };
    assert!(*retry_in <= Duration::from_millis(100), "{retry_in:?}");
    assert!(error.to_string().contains("can't be reached"), "{error}");
    let listener = TcpListener::bind(&address).await.unwrap();
    let echo = async {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(super::peer::Conversation::new(stream).echo());
    };
    let (offset, ()) = tokio::join!(call_through_backoff(&remoting, &address), echo);
    assert_eq!(offset, 9);
}

#[tokio::test]
async fn a_peer_that_closes_each_connection_at_once_is_not_hammered() {
    let peer = FakePeer::start().await;
    let (remoting, _events) = plain();
    let request = question(1);
    let (error, ()) = tokio::join!(remoting.call(&peer.address, &request, LONG), async {
        drop(peer.accept().await);
    });
    assert!(matches!(error.unwrap_err(), CallError::Lost { .. }));
    let error = remoting.call(&peer.address, &request, LONG).await.unwrap_err();
    assert!(matches!(error, CallError::Backoff { .. }), "{error}");
}

#[tokio::test]
async fn a_peer_that_never_reads_fills_a_bounded_queue() {
    let peer = FakePeer::start().await;
    let (remoting, _events) = plain();
    let calls = (0..8000).map(|queue| {
        let (remoting, address) = (remoting.clone(), peer.address.clone());
        async move { remoting.call(&address, &question(queue), SHORT).await.unwrap_err() }
    });
    let (errors, _conversation) = tokio::join!(join_all(calls), peer.accept());
    let busy = errors.iter().filter(|error| matches!(error, CallError::Busy { .. })).count();
    assert!(busy >= 1000, "{busy} of 8000");
    assert!(errors.iter().all(|error| matches!(
        error,
        CallError::Busy { .. } | CallError::Timeout { .. } | CallError::Lost { .. }
    )));
}

#[tokio::test]
async fn a_wrong_address_is_said() {
    let (remoting, _events) = plain();
    let error = remoting.call("broker-a", &question(1), LONG).await.unwrap_err();
    assert!(error.to_string().contains("host:port"), "{error}");
}
