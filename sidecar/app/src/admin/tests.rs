use std::sync::Mutex;

use lockstep_contract::Phase;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

use super::*;

/// An admin port and a loop that answers as told.
struct Rig {
    port: u16,
    ready: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<String>>>,
    tasks: Vec<JoinHandle<()>>,
    _stop: watch::Sender<()>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn rig() -> Rig {
    let (commands, mut receiver) = mpsc::channel(8);
    let ready = Arc::new(AtomicBool::new(false));
    let admin = Admin {
        commands,
        metrics: Arc::new(Metrics::new("test")),
        ready: Arc::clone(&ready),
        log_level: LogLevel::fixed(),
        group_uid: Some("uid-1".into()),
        identify: Arc::new(|status| status.group = "orders".to_owned()),
    };
    let (stop, stopped) = watch::channel(());
    let (port, server) = listen(0, admin, stopped).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let answer = async move {
        while let Some(command) = receiver.recv().await {
            log.lock().unwrap().push(format!("{command:?}").split([' ', '(']).next().unwrap().to_owned());
            match command {
                Command::Status(reply) => {
                    let status = Status { phase: Phase::Running, ..Status::default() };
                    reply.send(Box::new(status)).ok();
                }
                Command::Hold(reply) => drop(reply.send(())),
                Command::ByHand { queue, reply, .. } => {
                    let known = queue == "q/0";
                    reply.send(if known { Ok(()) } else { Err(ByHandError::UnknownQueue(queue)) }).ok();
                }
                Command::Drain | Command::Checked { .. } | Command::Reload { .. } => {}
            }
        }
    };
    let serve = async move {
        server.await.ok();
    };
    Rig { port, ready, seen, tasks: vec![tokio::spawn(answer), tokio::spawn(serve)], _stop: stop }
}

async fn ask(port: u16, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

#[tokio::test]
async fn probes_and_status_are_answered() {
    let rig = rig().await;
    assert_eq!(ask(rig.port, "GET", "/live", "").await.0, 200);
    assert_eq!(ask(rig.port, "GET", "/ready", "").await.0, 503);
    rig.ready.store(true, Ordering::Relaxed);
    assert_eq!(ask(rig.port, "GET", "/ready", "").await.0, 200);
    let (status, text) = ask(rig.port, "GET", "/status", "").await;
    assert_eq!(status, 200);
    assert!(text.contains("\"group\":\"orders\"") && text.contains("\"phase\":\"Running\""), "{text}");
    let (status, text) = ask(rig.port, "GET", "/metrics", "").await;
    assert_eq!(status, 200);
    assert!(text.contains("lockstep_attempts_in_flight") && text.trim_end().ends_with("# EOF"), "{text}");
}

#[tokio::test]
async fn the_shutdown_hook_needs_the_groups_uid() {
    let rig = rig().await;
    assert_eq!(ask(rig.port, "GET", "/wait-for-drain/other", "").await.0, 403);
    assert_eq!(ask(rig.port, "GET", "/wait-for-drain/", "").await.0, 404);
    assert_eq!(ask(rig.port, "GET", "/wait-for-drain", "").await.0, 403);
    assert!(rig.seen.lock().unwrap().is_empty());
    assert_eq!(ask(rig.port, "GET", "/wait-for-drain/uid-1", "").await.0, 200);
    assert_eq!(*rig.seen.lock().unwrap(), ["Hold"]);
}

#[tokio::test]
async fn commands_reach_the_loop() {
    let rig = rig().await;
    assert_eq!(ask(rig.port, "POST", "/drain", "").await.0, 202);
    assert_eq!(ask(rig.port, "POST", "/log-level", "debug").await.0, 200);
    assert_eq!(ask(rig.port, "POST", "/log-level", "loud").await.0, 400);
    let (known, unknown) = (r#"{"queue": "q/0", "messageId": "m"}"#, r#"{"queue": "q/1", "messageId": "m"}"#);
    assert_eq!(ask(rig.port, "POST", "/skip", known).await.0, 200);
    assert_eq!(ask(rig.port, "POST", "/dead-letter", known).await.0, 200);
    let (status, text) = ask(rig.port, "POST", "/skip", unknown).await;
    assert!(status == 404 && text.contains("not owned"), "{text}");
    assert_eq!(ask(rig.port, "POST", "/skip", "{}").await.0, 422);
    assert_eq!(ask(rig.port, "POST", "/skip", &"x".repeat(10_000)).await.0, 413);
    assert_eq!(*rig.seen.lock().unwrap(), ["Drain", "ByHand", "ByHand", "ByHand"]);
}

#[test]
fn only_loopback_peers_may_command() {
    let peer = |text: &str| Peer::new(text.parse().unwrap()).is_loopback();
    assert!(peer("127.0.0.1:1") && peer("127.9.9.9:1") && peer("[::1]:1") && peer("[::ffff:127.0.0.1]:1"));
    assert!(!peer("10.0.0.1:1") && !peer("[::ffff:10.0.0.1]:1") && !peer("[fe80::1]:1"));
}

#[tokio::test]
async fn a_peer_from_the_pod_network_may_look_but_not_command() {
    // Any address of this machine that is not loopback serves; a machine without one has no pod network either.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let Ok(()) = socket.connect("192.0.2.1:9") else { return };
    let address = socket.local_addr().unwrap().ip();
    let rig = rig().await;
    let ask = async |method: &str, path: &str| {
        let mut stream = TcpStream::connect((address, rig.port)).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    assert!(ask("GET", "/live").await.starts_with("HTTP/1.1 200"));
    for path in ["/drain", "/log-level", "/skip", "/dead-letter"] {
        assert!(ask("POST", path).await.starts_with("HTTP/1.1 403"), "{path}");
    }
    assert!(rig.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_port_in_use_names_the_setting() {
    let rig = rig().await;
    let (commands, _receiver) = mpsc::channel(8);
    let admin = Admin {
        commands,
        metrics: Arc::new(Metrics::new("test")),
        ready: Arc::default(),
        log_level: LogLevel::fixed(),
        group_uid: None,
        identify: Arc::new(|_| {}),
    };
    let error = listen(rig.port, admin, watch::channel(()).1).await.err().unwrap();
    assert!(error.to_string().contains("sidecar.adminPort"), "{error}");
}
