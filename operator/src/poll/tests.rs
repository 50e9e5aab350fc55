use serde_json::json;

use super::{http::ANSWER_MAX, *};

fn pod(status: serde_json::Value, spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec, "status": status})).unwrap()
}

#[test]
fn only_a_running_pod_with_an_address_is_asked() {
    let spec = json!({"containers": []});
    let at = |status| Place::of(&pod(status, spec.clone())).map(|place| (place.ip.to_string(), place.port));
    assert_eq!(at(json!({"phase": "Running", "podIP": "10.1.2.3"})).unwrap(), ("10.1.2.3".to_owned(), None));
    assert_eq!(at(json!({"phase": "Running", "podIP": "fd00::1"})).unwrap(), ("fd00::1".to_owned(), None));
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
    assert_eq!(Place::of(&pod(status, spec)).unwrap().port, Some(15999));
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
    let mut reports =
        Poller::new().unwrap().ask(vec![("a".to_owned(), Place::of(&pod).unwrap())], port).await;
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

/// A pod that sends the head of an answer and so many letters of it, and then nothing more.
async fn stalling(letters: usize) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
        stream.write_all(&[head.as_slice(), &vec![b' '; letters]].concat()).await.unwrap();
        while stream.read(&mut [0; 1024]).await.is_ok_and(|length| length > 0) {}
    });
    port
}

#[tokio::test]
async fn pods_that_stall_take_no_time_from_the_others() {
    let long = format!("{}{{\"format\": 1, \"ready\": true}}", " ".repeat(100_000));
    let mut ports = Vec::new();
    for letters in [1000, 100_000, 100_000, 100_000, 100_000] {
        ports.push(stalling(letters).await);
    }
    ports.push(answering(ok(&long)).await);
    let named = |(index, port): (usize, u16)| {
        let spec = json!({"containers": [{"name": SIDECAR_CONTAINER, "ports": [{"containerPort": port}]}]});
        let pod = pod(json!({"phase": "Running", "podIP": "127.0.0.1"}), spec);
        (index.to_string(), Place::of(&pod).unwrap())
    };
    let pods: Vec<_> = ports.into_iter().enumerate().map(named).collect();
    let reports = Poller::new().unwrap().ask(pods, 1).await;
    let answered: Vec<_> = reports
        .iter()
        .filter(|(_, report)| matches!(report, PodReport::Answered(_)))
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(answered, ["5"], "{reports:?}");
}

#[test]
fn what_is_kept_of_an_answer_is_bounded() {
    let queue = json!({
        "name": "q".repeat(5000),
        "blocked": vec![json!({"messageId": "m".repeat(5000), "lastError": "ä".repeat(5000)}); 20],
    });
    let text = json!({
        "format": 1,
        "queues": vec![queue; 2],
        "gaps": [{}],
        "config": {"error": "e".repeat(5000), "warnings": ["w"]},
        "source": {"message": "s".repeat(5000)},
        "conditions": vec![json!({"message": "c".repeat(5000)}); 100],
    });
    let mut status = read(text.to_string().as_bytes()).unwrap();
    assert!(serde_json::to_string(&status).unwrap().len() < 128 * 1024);
    assert_eq!((status.queues.len(), status.queues[0].blocked.len()), (2, 16));
    status.queues = vec![status.queues[0].clone(); 2000];
    assert_eq!(bounded(status).queues.len(), 1024);
}

#[test]
fn an_answer_that_would_grow_by_far_is_not_read() {
    let not_read = |items: &str, field: &str, count: usize| {
        let list = vec![items; count].join(",");
        read(format!("{{\"format\": 1, {field}: [{list}]}}").as_bytes()).is_err()
    };
    assert!(not_read("{}", "\"queues\"", 100_000));
    assert!(not_read("[]", "\"queues\"", 100_000));
    assert!(not_read("\"\"", "\"newer\"", 1_000_000));
    // As many as a sidecar may have.
    let blocked = vec![r#"{"messageId":"m","position":1,"attempts":1,"ageSeconds":1,"hold":"Starting"}"#; 16];
    let queue = format!(
        r#"{{"name":"q","epoch":1,"state":"Owned","cursor":1,"committed":1,"lag":1,"buffered":1,"blocked":[{}]}}"#,
        blocked.join(",")
    );
    assert!(!not_read(&queue, "\"queues\"", 1024));
}

#[test]
fn one_slow_answer_changes_nothing_and_three_do() {
    let said = |what: &PodReport| BTreeMap::from([("a".to_owned(), what.clone())]);
    let answered = |ready| PodReport::Answered(Arc::new(Status { ready, ..Status::default() }));
    let missed = PodReport::Unreachable("late".to_owned());
    let mut answers = Answers::default();
    assert!(answers.take(said(&answered(true))));
    assert!(!answers.take(said(&answered(true))));
    for _ in 0..2 {
        for _ in 0..2 {
            assert!(!answers.take(said(&missed)));
        }
        assert!(!answers.take(said(&answered(true))), "and an answer begins the count anew");
    }
    assert!(!answers.take(said(&missed)) && !answers.take(said(&missed)));
    assert!(answers.take(said(&missed)));
    assert_eq!(answers.reports(), &said(&missed));
    assert!(answers.take(said(&answered(false))));
    // One that never answered has nothing to be kept, and one that is gone is forgotten.
    assert!(answers.take(BTreeMap::new()));
    assert!(answers.take(said(&missed)));
}
