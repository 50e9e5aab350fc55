//! The demonstration's sidecar: a process of its own with the local broker in it, so that it can be killed.

use std::{
    env,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use http::StatusCode;
use reqwest::Client;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::sleep;

use super::{super::Failure, shop::Order};

/// How often the broker is asked whether it is done.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The process. It is killed when dropped.
pub(super) struct Consumer {
    child: Child,
    client: Client,
    /// `http://host:port` of the broker in it.
    pub(super) broker: String,
    admin_port: u16,
}

/// Where a publish was stored.
#[derive(Debug, Deserialize)]
pub(super) struct Receipt {
    pub(super) queue: String,
    pub(super) position: u64,
}

/// The broker's own view.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BrokerView {
    pub(super) queues: Vec<QueueView>,
    pub(super) dead_letters: u64,
}

/// One queue of it.
#[derive(Debug, Deserialize)]
pub(super) struct QueueView {
    pub(super) name: String,
    pub(super) committed: u64,
    pub(super) unfinished: u64,
}

impl Consumer {
    /// Starts the process and waits until its broker takes messages.
    pub(super) async fn start(folder: &Path, callback: &str, admin_port: u16) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("failed to start the sidecar: {error}"));
        let logs =
            OpenOptions::new().create(true).append(true).open(folder.join("sidecar.log")).map_err(failed)?;
        let mut child = spawn(folder, callback, logs).map_err(failed)?;
        let output = child.stdout.take();
        let line = tokio::task::spawn_blocking(move || first_line(output)).await.map_err(Failure::failed)?;
        let address = line.map_err(failed)?;
        let client = Client::builder().no_proxy().build().map_err(Failure::failed)?;
        Ok(Self { child, client, broker: address, admin_port })
    }

    pub(super) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Publishes an order; it is on disk when this answers.
    pub(super) async fn publish(&self, order: &Order) -> Result<Receipt, Failure> {
        let body = serde_json::to_vec(order).map_err(Failure::failed)?;
        let request = self
            .client
            .post(format!("{}/publish", self.broker))
            .header("Lockstep-Key", &order.customer)
            .header("Content-Type", "application/json")
            .body(body);
        let answer = request.send().await.map_err(Failure::failed)?;
        if answer.status() != StatusCode::CREATED {
            return Err(Failure::failed(format!("the broker answered {} to a publish", answer.status())));
        }
        parse(&answer.bytes().await.map_err(Failure::failed)?)
    }

    pub(super) async fn view(&self) -> Result<BrokerView, Failure> {
        let answer = self.client.get(&self.broker).send().await.map_err(Failure::failed)?;
        parse(&answer.bytes().await.map_err(Failure::failed)?)
    }

    /// Waits until every message has a final verdict.
    pub(super) async fn until_done(&self) -> Result<BrokerView, Failure> {
        loop {
            let view = self.view().await?;
            if view.queues.iter().all(|queue| queue.unfinished == 0) {
                return Ok(view);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// SIGKILL.
    pub(super) fn kill(mut self) -> Result<(), Failure> {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(Failure::failed)
    }

    /// Drains it and waits for its end; whether it ended with 0.
    pub(super) async fn drain(mut self) -> Result<bool, Failure> {
        let url = format!("http://127.0.0.1:{}/drain", self.admin_port);
        self.client.post(url).send().await.map_err(Failure::failed)?;
        loop {
            if let Some(status) = self.child.try_wait().map_err(Failure::failed)? {
                return Ok(status.success());
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // Both fail only for a process that has ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn spawn(folder: &Path, callback: &str, logs: File) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .arg("demo-member")
        .args(["--callback", callback])
        .arg("-f")
        .arg(folder.join("group.yaml"))
        .arg("--state-dir")
        .arg(folder.join("state"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(logs)
        // A terminal's Ctrl-C is for the demonstration, which ends its sidecar itself.
        .process_group(0)
        .spawn()
}

/// The address in the line `publish http://host:port/publish`.
fn first_line(output: Option<impl io::Read>) -> io::Result<String> {
    let mut line = String::new();
    if let Some(output) = output {
        BufReader::new(output).read_line(&mut line)?;
    }
    let address = line.trim().strip_prefix("publish ").and_then(|url| url.strip_suffix("/publish"));
    address.map(str::to_owned).ok_or_else(|| io::Error::other("it ended before its broker was ready"))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::failed(format!("the broker's answer can't be read: {error}")))
}
