//! A sidecar with a local broker as a process, and an application for it.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener as StdListener,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use reqwest::Client;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::Notify, time::sleep};

/// A condition that does not hold after so long never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// The application: it answers 422 to bodies that say so and takes its time with others.
#[derive(Debug, Clone, Default)]
pub(crate) struct App {
    /// Bodies and attempts in the order of their arrival.
    pub(crate) seen: Arc<Mutex<Vec<(String, u32)>>>,
    /// The headers of the last request.
    pub(crate) headers: Arc<Mutex<HeaderMap>>,
    /// Lets a body `held` be answered.
    pub(crate) release: Arc<Notify>,
    /// When the last such answer was given.
    pub(crate) released: Arc<Mutex<Option<Instant>>>,
}

async fn messages(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Response {
    let attempt = headers["lockstep-attempt"].to_str().unwrap().parse().unwrap();
    let body = String::from_utf8_lossy(&body).into_owned();
    app.seen.lock().unwrap().push((body.clone(), attempt));
    *app.headers.lock().unwrap() = headers;
    match body.as_str() {
        "rejected" => StatusCode::UNPROCESSABLE_ENTITY,
        "unknown" => StatusCode::NOT_FOUND,
        "failing" => return (StatusCode::INTERNAL_SERVER_ERROR, "the reason").into_response(),
        "busy" => return (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "100")]).into_response(),
        "held" => {
            app.release.notified().await;
            *app.released.lock().unwrap() = Some(Instant::now());
            StatusCode::OK
        }
        "slow" => {
            sleep(Duration::from_secs(600)).await;
            StatusCode::OK
        }
        _ => StatusCode::OK,
    }
    .into_response()
}

impl App {
    /// Serves it; answers where.
    pub(crate) async fn start() -> (Self, String) {
        let app = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let callback = format!("http://{}/messages", listener.local_addr().unwrap());
        let router = Router::new().route("/messages", post(messages)).with_state(app.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (app, callback)
    }

    pub(crate) fn bodies(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(body, _)| body.clone()).collect()
    }
}

/// A folder with a manifest, and the sidecar that runs on it.
pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    pub(crate) admin_port: u16,
    callback: String,
    environment: Vec<(&'static str, &'static str)>,
    child: Option<Child>,
    publish: String,
    client: Client,
}

impl Rig {
    /// Starts a sidecar with these lines in its `spec`, indented by two blanks.
    pub(crate) async fn start(callback: &str, spec: &str) -> Self {
        Self::start_with(callback, spec, &[]).await
    }

    /// The same, as a pod of the operator's with these variables.
    pub(crate) async fn start_with(
        callback: &str,
        spec: &str,
        environment: &[(&'static str, &'static str)],
    ) -> Self {
        let mut rig = Self {
            folder: tempfile::tempdir().unwrap(),
            admin_port: free_port(),
            callback: callback.to_owned(),
            environment: environment.to_vec(),
            child: None,
            publish: String::new(),
            client: Client::builder().no_proxy().build().unwrap(),
        };
        rig.write_manifest(spec);
        rig.restart();
        rig
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.folder.path().join("group.yaml")
    }

    pub(crate) fn write_manifest(&self, spec: &str) {
        let text = manifest(&format!("{spec}\n  sidecar: {{adminPort: {}}}", self.admin_port));
        let new = self.folder.path().join("new.yaml");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.manifest()).unwrap();
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = program();
        command.arg("dev").arg("-f").arg(self.manifest()).args(["--callback", &self.callback]);
        command.arg("--state-dir").arg(self.folder.path().join("state"));
        command.arg("--credentials-dir").arg(self.folder.path().join("secrets"));
        command
    }

    /// Starts the sidecar (again) on the same files.
    pub(crate) fn restart(&mut self) {
        let logs = fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let mut command = self.command();
        command.env("LOCKSTEP_GROUP_UID", "uid-1").envs(self.environment.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(logs).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.publish = line.trim().strip_prefix("publish ").expect("it must tell its address").to_owned();
        self.child = Some(child);
    }

    /// Mounts a key of a Secret, or takes the folder's key away.
    pub(crate) fn secret(&self, path: &str, content: Option<&str>) {
        let path = self.folder.path().join("secrets").join(path);
        match content {
            Some(content) => {
                let folder = path.parent().unwrap();
                fs::create_dir_all(folder).unwrap();
                fs::write(folder.join("..new"), content).unwrap();
                fs::rename(folder.join("..new"), path).unwrap();
            }
            None => fs::remove_file(path).unwrap(),
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn logs(&self) -> String {
        fs::read_to_string(self.log()).unwrap()
    }

    pub(crate) async fn publish(&self, body: &str) {
        drop(self.publish_with(&[("Lockstep-Key", "k")], body).await);
    }

    /// Answers the receipt.
    pub(crate) async fn publish_with(&self, headers: &[(&str, &str)], body: &str) -> Value {
        let mut request = self.client.post(&self.publish).body(body.to_owned());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.unwrap_or_else(|error| panic!("{error:?}: {}", self.logs()));
        assert_eq!(answer.status(), 201);
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let url = format!("http://127.0.0.1:{}{path}", self.admin_port);
        match self.client.get(url).send().await {
            Ok(answer) => (answer.status().as_u16(), answer.text().await.unwrap_or_default()),
            Err(_) => (0, String::new()),
        }
    }

    pub(crate) async fn status(&self) -> Value {
        serde_json::from_str(&self.get("/status").await.1).unwrap_or_default()
    }

    /// Waits until the status document shows something.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let status = self.status().await;
            if holds(&status) {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "not in time: {what}; {status}; {}", self.logs());
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        let mut child = self.child.take().unwrap();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if began.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("it does not end: {}", self.logs());
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "not in time: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lockstep-sidecar"))
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

pub(crate) fn manifest(spec: &str) -> String {
    format!(
        "apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: orders}}
spec:
  source:
    rocketmq: {{nameServers: ['localhost:9876'], consumerGroup: shop, subscriptions: [{{topic: orders}}]}}
{spec}
"
    )
}

pub(crate) fn free_port() -> u16 {
    StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
