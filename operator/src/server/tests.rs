use std::{convert::Infallible, net::Ipv4Addr, pin::pin, task::Poll};

use axum::body::{Body, to_bytes};
use futures_util::poll;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::advance,
};
use tower::{Service, ServiceExt};

use super::*;

async fn get_from(router: &Router, path: &str) -> (StatusCode, String) {
    let request = Request::builder().uri(path).body(Body::empty()).unwrap();
    let response: Result<Response, Infallible> = router.clone().oneshot(request).await;
    let (head, body) = response.unwrap().into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    (head.status, String::from_utf8(body.to_vec()).unwrap())
}

fn rig() -> (Router, Arc<Probes>) {
    let probes = Arc::new(Probes::default());
    (router(Arc::new(Metrics::new("test")), Arc::clone(&probes)), probes)
}

#[tokio::test(start_paused = true)]
async fn a_replica_without_a_loop_lives_and_is_ready() {
    let (router, _) = rig();
    advance(HEARTBEAT_MAX * 10).await;
    assert_eq!(get_from(&router, "/live").await.0, StatusCode::OK);
    assert_eq!(get_from(&router, "/ready").await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_hung_loop_is_told() {
    let (router, probes) = rig();
    probes.beat();
    advance(HEARTBEAT_MAX).await;
    assert_eq!(get_from(&router, "/live").await.0, StatusCode::OK);
    advance(Duration::from_secs(1)).await;
    let (status, why) = get_from(&router, "/live").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(why.contains("61 s"), "{why}");
    probes.beat();
    assert_eq!(get_from(&router, "/live").await.0, StatusCode::OK);
    advance(HEARTBEAT_MAX * 2).await;
    probes.rest();
    assert_eq!(get_from(&router, "/live").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_leader_is_ready_when_its_watches_are_complete() {
    let (router, probes) = rig();
    probes.synced(false);
    assert_eq!(get_from(&router, "/ready").await.0, StatusCode::SERVICE_UNAVAILABLE);
    probes.synced(true);
    assert_eq!(get_from(&router, "/ready").await.0, StatusCode::OK);
}

#[tokio::test]
async fn metrics_and_a_hint_for_the_lost() {
    let (router, _) = rig();
    let (status, text) = get_from(&router, "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert_eq!(get_from(&router, "/").await, (StatusCode::NOT_FOUND, WHAT_IS_HERE.to_owned()));
    let request = Request::builder().method("POST").uri("/live").body(Body::empty()).unwrap();
    let mut router = router;
    assert_eq!(router.call(request).await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn it_serves_until_it_is_stopped_and_says_when_the_port_is_taken() {
    let stop = CancellationToken::new();
    let start = |address| {
        let metrics = Arc::new(Metrics::new("test"));
        listen(address, metrics, Arc::new(Probes::default()), stop.clone())
    };
    let (address, server) = start((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let mut server = pin!(server);
    assert!(matches!(poll!(&mut server), Poll::Pending));
    let taken = start(address).await.err().unwrap().to_string();
    assert!(taken.contains(&address.to_string()) && taken.contains("--listen"), "{taken}");
    let ask = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        // An idle connection does not hold the end up.
        stop.cancel();
        stream
    };
    let (server, _stream) = tokio::join!(&mut server, ask);
    server.unwrap();
}

#[tokio::test]
async fn silent_connections_make_room_again() {
    let (address, server) = {
        let metrics = Arc::new(Metrics::new("test"));
        let probes = Arc::new(Probes::default());
        listen((Ipv4Addr::LOCALHOST, 0).into(), metrics, probes, CancellationToken::new()).await.unwrap()
    };
    let server = tokio::spawn(server);
    let mut silent = Vec::new();
    for _ in 0..listener::CONNECTIONS_MAX {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut late = TcpStream::connect(address).await.unwrap();
    late.write_all(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    // Closing one is what the timer does too, sooner.
    drop(silent.pop());
    let mut answer = [0; 15];
    late.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    server.abort();
}
