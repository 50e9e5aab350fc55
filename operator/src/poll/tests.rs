use serde_json::json;

use super::*;

fn pod(status: serde_json::Value, spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec, "status": status})).unwrap()
}

#[test]
fn only_a_running_pod_with_an_address_is_asked() {
    let spec = json!({"containers": []});
    let at = |status| address(&pod(status, spec.clone()), 15464).map(|at| at.to_string());
    assert_eq!(at(json!({"phase": "Running", "podIP": "10.1.2.3"})).unwrap(), "10.1.2.3:15464");
    assert_eq!(at(json!({"phase": "Running", "podIP": "fd00::1"})).unwrap(), "[fd00::1]:15464");
    for status in [
        json!({"phase": "Pending", "podIP": "10.1.2.3"}),
        json!({"phase": "Running"}),
        json!({"phase": "Running", "podIP": ""}),
        json!({"phase": "Running", "podIP": "evil.example/x"}),
        json!({}),
    ] {
        assert_eq!(at(status.clone()), None, "{status}");
    }
}

#[test]
fn the_pods_own_port_counts() {
    let status = json!({"phase": "Running", "podIP": "10.1.2.3"});
    let spec = json!({
        "initContainers": [{"name": SIDECAR_CONTAINER, "ports": [{"containerPort": 15999}]}],
        "containers": [{"name": "app", "ports": [{"containerPort": 8080}]}],
    });
    assert_eq!(address(&pod(status, spec), 15464).unwrap().port(), 15999);
}

/// A pod that answers one request with these bytes, at the port that is answered.
async fn answering(answer: Vec<u8>) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let length = stream.read(&mut request).await.unwrap();
        assert!(request[..length].starts_with(b"GET /status HTTP/1.1\r\n"));
        // Who has read enough closes.
        stream.write_all(&answer).await.ok();
    });
    port
}

async fn asked(answer: Vec<u8>) -> PodReport {
    let port = answering(answer).await;
    let pod = pod(json!({"phase": "Running", "podIP": "127.0.0.1"}), json!({"containers": []}));
    let mut reports = Poller::new().unwrap().ask(&[Arc::new(pod)], port).await;
    reports.remove("a").unwrap()
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[tokio::test]
async fn a_pod_says_how_it_is() {
    let report = asked(ok(r#"{"format": 1, "group": "orders", "ready": true, "newer": {"field": 1}}"#)).await;
    let PodReport::Answered(status) = report else { panic!("{report:?}") };
    assert_eq!((status.group.as_str(), status.ready), ("orders", true));
}

#[tokio::test]
async fn no_answer_of_a_pod_is_believed_that_is_none() {
    let too_long = format!("\"{}\"", "a".repeat(ANSWER_MAX));
    for (answer, words) in [
        (
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/status\r\ncontent-length: 0\r\n\r\n"
                .to_vec(),
            "302",
        ),
        (b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n".to_vec(), "503"),
        (b"no HTTP at all".to_vec(), "connection"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}".to_vec(), "connection"),
        (ok("[1, 2]"), "not a sidecar's"),
        (ok("{\"format\": 999}"), "newer"),
        (ok(&too_long), "longer than"),
        (Vec::new(), "connection"),
    ] {
        let report = asked(answer.clone()).await;
        let PodReport::Unreachable(why) = report else { panic!("{report:?}") };
        assert!(why.contains(words), "{why} says {words}");
    }
}

/// Operator and sidecar may differ by one version: what is unknown or absent hides nothing else.
#[tokio::test]
async fn a_sidecar_of_another_version_is_understood() {
    let newer = r#"{"format": 1, "phase": "Dancing", "ready": true, "moon": {"phase": [1]}, "source": {"connected": true},
        "application": {"health": "Healthy", "reason": "Wine"}, "config": {"hotHash": "h", "cooler": 1},
        "queues": [{"name": "q", "state": "Sideways", "blocked": [{"hold": "Tide"}]}],
        "conditions": [{"type": "Moonlit", "status": "Perhaps"}, {}]}"#;
    let PodReport::Answered(status) = asked(ok(newer)).await else { panic!("it can't be read") };
    assert!(status.ready && status.source.connected);
    assert_eq!((status.config.hot_hash.as_str(), status.queues[0].name.as_str()), ("h", "q"));
    assert_eq!(status.phase, lockstep_contract::Phase::Unknown);
}
