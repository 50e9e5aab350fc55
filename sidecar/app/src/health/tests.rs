use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::Instant,
};

use super::{Health, HealthGate, HealthSettings};

const HOUR: Duration = Duration::from_secs(3600);

fn settings(port: u16, path: Option<&str>, period: Duration, failure_threshold: u32) -> HealthSettings {
    HealthSettings {
        host: "localhost".into(),
        port,
        path: path.map(str::to_owned),
        period,
        failure_threshold,
    }
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

async fn accept(listener: &TcpListener) -> (TcpStream, String) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut head).await.unwrap(), 0, "a request must come");
    }
    (stream, String::from_utf8(head).unwrap())
}

async fn reply(listener: &TcpListener, answer: &str) -> String {
    let (mut stream, head) = accept(listener).await;
    stream.write_all(answer.as_bytes()).await.unwrap();
    head
}

/// Runs the gate beside the test's body.
async fn beside<T>(gate: &HealthGate, body: impl Future<Output = T>) -> T {
    tokio::select! {
        () = gate.run() => unreachable!("the gate runs for ever"),
        value = body => value,
    }
}

async fn until(state: &mut watch::Receiver<Health>, condition: impl FnMut(&Health) -> bool) -> Health {
    state.wait_for(condition).await.unwrap().clone()
}

#[tokio::test]
async fn a_connection_is_enough_without_a_path() {
    let (listener, port) = listen().await;
    let gate = HealthGate::new(settings(port, None, HOUR, 3));
    let mut state = gate.watch();
    assert!(!state.borrow().healthy, "nothing is known at the start");
    let health = beside(&gate, until(&mut state, |health| health.healthy)).await;
    assert_eq!((health.successes, health.problem), (1, None));
    drop(listener);
}

#[tokio::test]
async fn localhost_means_both_address_families() {
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let gate = HealthGate::new(settings(listener.local_addr().unwrap().port(), None, HOUR, 3));
    let mut state = gate.watch();
    beside(&gate, until(&mut state, |health| health.healthy)).await;
}

#[tokio::test]
async fn failures_below_the_threshold_change_nothing_and_one_success_heals() {
    let (listener, port) = listen().await;
    let gate = HealthGate::new(settings(port, Some("/healthz"), Duration::from_millis(1), 3));
    let mut state = gate.watch();
    let answers =
        [(204, true), (500, true), (404, true), (200, true), (503, true), (503, true), (302, false)];
    let answers = answers.into_iter().chain([(500, false), (200, true)]);
    beside(&gate, async {
        for (checks, (status, healthy)) in answers.enumerate() {
            let head =
                reply(&listener, &format!("HTTP/1.1 {status} Text\r\ncontent-length: 0\r\n\r\n")).await;
            assert!(head.starts_with("GET /healthz HTTP/1.1\r\nHost: localhost:"), "{head}");
            let seen = checks as u64 + 1;
            let health = until(&mut state, |health| health.successes + health.failures == seen).await;
            assert_eq!(health.healthy, healthy, "check {seen}: {status}");
            assert_eq!(health.problem.is_none(), (200..300).contains(&status));
        }
    })
    .await;
}

#[tokio::test]
async fn every_failure_says_what_it_was() {
    let (listener, port) = listen().await;
    let gate = HealthGate::new(settings(port, Some("/h"), Duration::from_millis(1), 1));
    let mut state = gate.watch();
    beside(&gate, async {
        let answers = [
            ("HTTP/1.1 503 No\r\n\r\n", "GET /h on port", "it answered 503"),
            ("nonsense and more\r\n", "GET /h", "not HTTP"),
            ("HTTP/1.1 99 x\r\n", "GET /h", "not HTTP"),
            ("", "GET /h", "without an answer"),
            (&"x".repeat(1000), "GET /h", "not HTTP"),
        ];
        for (checks, (answer, what, why)) in answers.into_iter().enumerate() {
            let (mut stream, _) = accept(&listener).await;
            // It may close before it has read a long answer.
            let _ = stream.write_all(answer.as_bytes()).await;
            drop(stream);
            let health = until(&mut state, |health| health.failures == checks as u64 + 1).await;
            let problem = health.problem.unwrap();
            assert!(problem.contains(what) && problem.contains(why) && !health.healthy, "{problem}");
        }
    })
    .await;
    drop(listener);
    let mut state = gate.watch();
    let health = beside(&gate, until(&mut state, |health| health.failures > 5)).await;
    assert!(health.problem.unwrap().contains("refused"));
}

#[tokio::test]
async fn interim_answers_are_passed_over() {
    let (listener, port) = listen().await;
    let gate = HealthGate::new(settings(port, Some("/h"), HOUR, 1));
    let mut state = gate.watch();
    beside(&gate, async {
        reply(
            &listener,
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: <x>\r\n\r\nHTTP/1.0 200 OK\r\n\r\n",
        )
        .await;
        until(&mut state, |health| health.healthy).await;
    })
    .await;
}

#[tokio::test]
async fn an_application_that_never_answers_fails_in_time() {
    let (listener, port) = listen().await;
    let gate = HealthGate::new(settings(port, Some("/h"), Duration::from_millis(1), 1));
    let mut state = gate.watch();
    let started = Instant::now();
    beside(&gate, async {
        let held = accept(&listener).await;
        let health = until(&mut state, |health| health.failures == 1).await;
        assert!(health.problem.unwrap().contains("no answer within 500 ms"));
        drop(held);
    })
    .await;
    assert!(started.elapsed() >= Duration::from_millis(500));
}

#[tokio::test]
async fn a_fast_poll_begins_at_once_and_ends_with_its_guard() {
    let (listener, port) = listen().await;
    let gate = HealthGate::new(settings(port, Some("/h"), HOUR, 3));
    let mut state = gate.watch();
    beside(&gate, async {
        let ok = "HTTP/1.1 200 OK\r\n\r\n";
        reply(&listener, ok).await;
        until(&mut state, |health| health.healthy).await;
        let fast = gate.poll_fast();
        for _ in 0..3 {
            // Within the hour's period these come only from the fast poll.
            reply(&listener, ok).await;
        }
        until(&mut state, |health| health.successes == 4).await;
        drop(fast);
        gate.set_settings(settings(port, Some("/other"), HOUR, 3));
        let head = reply(&listener, ok).await;
        assert!(head.starts_with("GET /other "), "new settings are checked at once: {head}");
    })
    .await;
}
