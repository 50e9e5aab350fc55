//! What can happen to a connection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use lockstep_broker::Clock;
use lockstep_core::{AttemptResult, TransportFailure};
use lockstep_model::Moment;
use tokio::{
    io::AsyncReadExt as _,
    join,
    net::{TcpListener, TcpSocket, TcpStream},
    time::Instant,
};

use super::{
    super::{AttemptRequest, Deliver, Http},
    answered, broken, message, pair, request,
    server::{Peer, Server},
    settings, summary,
};

const BIG: usize = 4 * 1024 * 1024;

fn failed(failure: TransportFailure) -> AttemptResult {
    AttemptResult::Failed(failure)
}

/// One good exchange on a new connection, which stays open.
async fn warm(server: &Server, http: &Http) -> Peer {
    let (attempted, peer) = join!(http.attempt(request(message("a"))), async {
        let mut peer = server.accept().await;
        peer.request().await.unwrap();
        peer.answer(200, "", "fine").await;
        peer
    });
    assert_eq!(attempted.result, answered(200));
    peer
}

#[tokio::test]
async fn a_connection_is_used_again_and_again() {
    let (server, http) = pair().await;
    let mut peer = warm(&server, &http).await;
    for body in ["", "x", "a longer answer with a body"] {
        let (attempted, ()) = join!(http.attempt(request(message("b"))), async {
            peer.request().await.expect("the same connection must carry the request");
            peer.answer(200, "", body).await;
        });
        assert_eq!(attempted.result, answered(200));
    }
}

#[tokio::test]
async fn attempts_in_a_row_need_one_connection() {
    let (server, http) = pair().await;
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let mut peer = server.accept().await;
            counted.fetch_add(1, Relaxed);
            tokio::spawn(async move {
                for body in ["", "with a body"].into_iter().cycle() {
                    if peer.request().await.is_none() {
                        break;
                    }
                    peer.answer(200, "", body).await;
                }
            });
        }
    });
    for _ in 0..200 {
        assert_eq!(http.attempt(request(message("a"))).await.result, answered(200));
    }
    assert_eq!(connections.load(Relaxed), 1);
}

#[tokio::test]
async fn concurrent_attempts_use_connections_of_their_own() {
    let (server, http) = pair().await;
    let (first, second, ()) =
        join!(http.attempt(request(message("1"))), http.attempt(request(message("2"))), async {
            let (mut a, mut b) = (server.accept().await, server.accept().await);
            a.request().await.unwrap();
            b.request().await.unwrap();
            a.answer(200, "", "").await;
            b.answer(200, "", "").await;
        });
    assert_eq!((first.result, second.result), (answered(200), answered(200)));
}

#[tokio::test]
async fn a_refused_connection_is_unreachable() {
    let (server, http) = pair().await;
    drop(server);
    let attempted = http.attempt(request(message("a"))).await;
    assert_eq!(attempted.result, failed(TransportFailure::Unreachable));
    assert!(summary(&attempted).contains("refused"), "{attempted:?}");
}

#[tokio::test]
async fn an_unknown_name_is_unreachable() {
    let mut settings = settings(80);
    settings.endpoint.host = "no-such-host.invalid".into();
    let http = Http::new(&settings, Clock::new()).unwrap();
    let attempt = AttemptRequest { timeout: Duration::from_secs(3), ..request(message("a")) };
    assert_eq!(http.attempt(attempt).await.result, failed(TransportFailure::Unreachable));
}

/// A listener whose backlog is full: the next connection waits until one is accepted.
async fn full() -> (TcpListener, TcpStream, Http, Clock) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let first = TcpStream::connect(address).await.unwrap();
    let mut settings = settings(address.port());
    settings.endpoint.host = "127.0.0.1".into();
    let clock = Clock::new();
    let http = Http::new(&settings, clock).unwrap();
    (listener, first, http, clock)
}

#[tokio::test]
async fn a_connection_that_never_comes_is_unreachable() {
    let (_listener, _first, http, _) = full().await;
    let attempt = AttemptRequest { timeout: Duration::from_millis(300), ..request(message("a")) };
    assert_eq!(http.attempt(attempt).await.result, failed(TransportFailure::Unreachable));
}

#[tokio::test]
async fn a_connection_that_comes_too_late_is_not_written_on() {
    let (listener, _first, http, clock) = full().await;
    let not_after = clock.now() + Duration::from_millis(50);
    let attempt = AttemptRequest { not_after: Some(not_after), ..request(message("a")) };
    let (attempted, bytes) = join!(http.attempt(attempt), async {
        tokio::time::sleep_until(clock.instant(not_after + Duration::from_millis(1))).await;
        drop(listener.accept().await.unwrap());
        let (mut late, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        late.read_to_end(&mut bytes).await.unwrap();
        bytes
    });
    assert_eq!(attempted.result, failed(TransportFailure::Cancelled));
    assert_eq!(bytes, b"", "nothing may be written");
}

#[tokio::test]
async fn localhost_means_both_address_families() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = Server::bind(address).await;
        let http = Http::new(&settings(server.address().port()), Clock::new()).unwrap();
        warm(&server, &http).await;
    }
}

#[tokio::test]
async fn an_address_of_version_six_can_be_given() {
    let server = Server::bind("[::1]:0").await;
    let mut settings = settings(server.address().port());
    settings.endpoint.host = "::1".into();
    let http = Http::new(&settings, Clock::new()).unwrap();
    warm(&server, &http).await;
}

#[tokio::test]
async fn no_answer_is_a_timeout_and_closes_the_connection() {
    let (server, http) = pair().await;
    for half in ["", "HTTP/1.1 200 OK\r\ncontent-le", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"] {
        let attempt = AttemptRequest { timeout: Duration::from_millis(200), ..request(message("a")) };
        let (attempted, ()) = join!(http.attempt(attempt), async {
            let mut peer = server.accept().await;
            peer.request().await.unwrap();
            peer.send(half).await;
            peer.closed().await;
        });
        assert_eq!(attempted.result, failed(TransportFailure::TimedOut), "{half:?}");
    }
}

#[tokio::test]
async fn a_failures_status_counts_when_its_body_does_not_end() {
    let (server, http) = pair().await;
    // Servers that keep connections open and forget the length are common; so is one slow byte after another.
    for rest in ["\r\n", "content-length: 900\r\n\r\nslow"] {
        let attempt = AttemptRequest { timeout: Duration::from_secs(60), ..request(message("a")) };
        let (attempted, ()) = join!(http.attempt(attempt), async {
            let mut peer = server.accept().await;
            peer.request().await.unwrap();
            peer.send(&format!("HTTP/1.1 401 No\r\n{rest}")).await;
            peer.closed().await;
        });
        assert_eq!(attempted.result, answered(401), "{rest:?}");
    }
}

#[tokio::test]
async fn a_success_whose_body_does_not_end_says_what_is_missing() {
    let (server, http) = pair().await;
    let attempt = AttemptRequest { timeout: Duration::from_millis(200), ..request(message("a")) };
    let (attempted, ()) = join!(http.attempt(attempt), async {
        let mut peer = server.accept().await;
        peer.request().await.unwrap();
        peer.send("HTTP/1.1 200 OK\r\n\r\n").await;
        peer.closed().await;
    });
    assert_eq!(attempted.result, failed(TransportFailure::TimedOut));
    assert!(summary(&attempted).contains("Content-Length"), "{}", summary(&attempted));
}

#[tokio::test]
async fn half_an_answer_is_no_answer() {
    let (server, http) = pair().await;
    let halves = [
        "",
        "HTTP/1.1 2",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 503 No\r\nretry-after: 9\r\ncontent-length: 9\r\n\r\n",
    ];
    for half in halves {
        let (attempted, ()) = join!(http.attempt(request(message("a"))), async {
            let mut peer = server.accept().await;
            peer.request().await.unwrap();
            peer.send(half).await;
        });
        assert_eq!(attempted.result, broken(), "{half:?}");
    }
}

#[tokio::test]
async fn a_reset_of_a_fresh_connection_counts() {
    let (server, http) = pair().await;
    let (attempted, ()) = join!(http.attempt(request(message("a"))), async {
        let mut peer = server.accept().await;
        peer.request().await.unwrap();
        peer.reset();
    });
    assert_eq!(attempted.result, broken());
}

#[tokio::test]
async fn a_reset_of_a_reused_connection_is_repeated_once() {
    let (server, http) = pair().await;
    let mut peer = warm(&server, &http).await;
    let (attempted, (first, second)) = join!(http.attempt(request(message("b"))), async {
        let first = peer.request().await.unwrap();
        peer.reset();
        let mut peer = server.accept().await;
        let second = peer.request().await.unwrap();
        peer.answer(204, "", "").await;
        (first, second)
    });
    assert_eq!(attempted.result, answered(204));
    assert_eq!(first, second, "the repeat must be the same request, with the same attempt number");
}

#[tokio::test]
async fn a_connection_counts_as_reused_however_its_last_answer_ended() {
    let (server, http) = pair().await;
    tokio::spawn(async move {
        loop {
            let mut peer = server.accept().await;
            peer.request().await.unwrap();
            // The end of the body comes apart from its beginning.
            for part in ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n", "0\r\n", "\r\n"]
            {
                peer.send(part).await;
                tokio::task::yield_now().await;
            }
            peer.request().await.unwrap();
            peer.reset();
        }
    });
    // In a task of its own, where the next attempt can run before the connection is back in its pool.
    let attempts = tokio::spawn(async move {
        for _ in 0..50 {
            assert_eq!(http.attempt(request(message("a"))).await.result, answered(200));
        }
    });
    attempts.await.unwrap();
}

#[tokio::test]
async fn a_second_reset_counts() {
    let (server, http) = pair().await;
    let mut peer = warm(&server, &http).await;
    let (attempted, ()) = join!(http.attempt(request(message("b"))), async {
        peer.request().await.unwrap();
        peer.reset();
        let mut peer = server.accept().await;
        peer.request().await.unwrap();
        peer.reset();
    });
    assert_eq!(attempted.result, broken());
}

#[tokio::test]
async fn a_refused_repeat_leaves_the_first_failure() {
    let (server, http) = pair().await;
    let mut peer = warm(&server, &http).await;
    let (attempted, ()) = join!(http.attempt(request(message("b"))), async {
        peer.request().await.unwrap();
        drop(server);
        peer.reset();
    });
    assert_eq!(attempted.result, broken());
}

#[tokio::test]
async fn garbage_on_a_reused_connection_is_not_repeated() {
    let (server, http) = pair().await;
    let mut peer = warm(&server, &http).await;
    let (attempted, ()) = join!(http.attempt(request(message("b"))), async {
        peer.request().await.unwrap();
        peer.send("SSH-2.0-OpenSSH_9.9\r\n").await;
        peer.closed().await;
    });
    assert_eq!(attempted.result, broken());
}

#[tokio::test]
async fn idle_connections_closed_by_the_application_cost_nothing() {
    let (server, http) = pair().await;
    for reset in [false, true].into_iter().cycle().take(40) {
        let peer = warm(&server, &http).await;
        if reset {
            peer.reset();
        }
    }
}

#[tokio::test]
async fn a_connection_idle_for_too_long_is_not_used_again() {
    let server = Server::bind("127.0.0.1:0").await;
    let (clock, idle) = (Clock::new(), Duration::from_millis(50));
    let http = Http::with_idle_reuse(&settings(server.address().port()), clock, idle).unwrap();
    let old = warm(&server, &http).await;
    tokio::time::sleep_until(clock.instant(clock.now() + idle * 2)).await;
    warm(&server, &http).await;
    drop(old);
}

#[tokio::test]
async fn nothing_is_written_after_the_last_moment() {
    let server = Server::bind("127.0.0.1:0").await;
    let clock = Clock::new();
    let http = Http::new(&settings(server.address().port()), clock).unwrap();
    let mut peer = warm(&server, &http).await;

    let late = AttemptRequest { not_after: Some(Moment::ZERO), ..request(message("b")) };
    assert_eq!(http.attempt(late).await.result, failed(TransportFailure::Cancelled));

    // The moment passes between the request and its repeat.
    let not_after = clock.now() + Duration::from_millis(100);
    let attempt = AttemptRequest { not_after: Some(not_after), ..request(message("c")) };
    let (attempted, ()) = join!(http.attempt(attempt), async {
        assert_eq!(peer.request().await.unwrap().body, b"c", "the late request must not have been sent");
        tokio::time::sleep_until(clock.instant(not_after + Duration::from_millis(1))).await;
        peer.reset();
    });
    assert_eq!(attempted.result, failed(TransportFailure::Cancelled));
}

#[tokio::test]
async fn a_dropped_attempt_closes_its_connection() {
    let (server, http) = pair().await;
    let mut peer = {
        let attempt = http.attempt(request(message("a")));
        tokio::pin!(attempt);
        tokio::select! {
            attempted = &mut attempt => panic!("nobody answered: {attempted:?}"),
            peer = async {
                let mut peer = server.accept().await;
                peer.request().await.unwrap();
                peer
            } => peer,
        }
    };
    peer.closed().await;
    warm(&server, &http).await;
}

#[tokio::test]
async fn an_answer_may_come_before_the_request_is_read() {
    let (server, http) = pair().await;
    let mut peer = warm(&server, &http).await;
    let (attempted, received) = join!(http.attempt(request(message(vec![7; BIG]))), async {
        let head = peer.head().await.unwrap();
        peer.answer(200, "", "early").await;
        let mut left = BIG - peer.read_ahead();
        let mut chunk = vec![0; 65536];
        while left > 0 {
            left = left.saturating_sub(peer.stream.read(&mut chunk).await.unwrap().max(1));
        }
        head
    });
    assert!(String::from_utf8_lossy(&received).contains("content-length: 4194304"));
    assert_eq!(attempted.result, answered(200));
}

#[tokio::test]
async fn an_application_that_never_reads_the_request_holds_slot_and_body_only_for_the_timeout() {
    let (server, http) = pair().await;
    let timeout = Duration::from_millis(1200);
    let attempt = AttemptRequest { timeout, ..request(message(vec![7; BIG])) };
    let body = attempt.delivery.message.body.clone();
    let started = Instant::now();
    let (attempted, peer) = join!(http.attempt(attempt), async {
        let mut peer = server.accept().await;
        peer.head().await.unwrap();
        peer.answer(200, "", "early").await;
        peer
    });
    assert_eq!(attempted.result, answered(200));
    assert!(started.elapsed() >= timeout, "the slot must stay taken while the request is not read");
    while !body.is_unique() {
        tokio::task::yield_now().await;
    }
    drop(peer);
}

#[tokio::test]
async fn bodies_of_any_size_arrive_untouched() {
    let (server, http) = pair().await;
    for body in [Vec::new(), vec![0; 1], (0..=250).cycle().take(BIG).collect::<Vec<u8>>()] {
        let (attempted, received) = join!(http.attempt(request(message(body.clone()))), async {
            let mut peer = server.accept().await;
            let received = peer.request().await.unwrap();
            peer.answer(200, "connection: close\r\n", "").await;
            received
        });
        assert_eq!(attempted.result, answered(200));
        assert_eq!(received.line, "POST /messages HTTP/1.1");
        assert_eq!(received.header("content-length"), Some(body.len().to_string().as_str()));
        assert!(received.body == body);
    }
}
