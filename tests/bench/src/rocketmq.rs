//! A real RocketMQ with one filled queue, started and ended by the project's own script.

use std::{
    net::TcpListener,
    process::{Command, Stdio},
};

use crate::{Result, peers::Group};

/// Messages in the queue: more than any one measurement takes.
const MESSAGES: u32 = 150_000;
const TOPIC: &str = "bench";

/// A running name server and broker; ended on drop.
#[derive(Debug)]
pub(crate) struct Cluster {
    script: String,
    environment: Vec<(&'static str, String)>,
    name_server: String,
}

impl Cluster {
    /// Starts them, makes a topic of one queue and fills it.
    pub(crate) fn start(script: &str) -> Result<Self> {
        let state = std::env::temp_dir().join(format!("lockstep-bench-rocketmq-{}", std::process::id()));
        let (name_port, broker_port) = free_ports()?;
        let cluster = Self {
            script: script.to_owned(),
            environment: vec![
                ("BROKER_STATE", state.to_string_lossy().into_owned()),
                ("ROCKETMQ_NAMESRV_PORT", name_port.to_string()),
                ("ROCKETMQ_BROKER_PORT", broker_port.to_string()),
            ],
            name_server: format!("127.0.0.1:{name_port}"),
        };
        cluster.call(&["start"])?;
        cluster.admin(&format!(
            "updateTopic -n {} -c DefaultCluster -t {TOPIC} -r 1 -w 1",
            cluster.name_server
        ))?;
        let count = MESSAGES.to_string();
        cluster.call(&["peer", "Produce", &cluster.name_server, TOPIC, &count, "16", "16", "1024"])?;
        Ok(cluster)
    }

    /// Makes a consumer group that starts at the queue's beginning.
    pub(crate) fn group(&self, name: &str) -> Result<Group<'static>> {
        self.admin(&format!("updateSubGroup -n {} -c DefaultCluster -g {name}", self.name_server))?;
        Ok(Group {
            name_server: self.name_server.clone(),
            topic: TOPIC,
            group: name.to_owned(),
            mode: "PerQueue",
            max_in_flight: 32,
        })
    }

    fn admin(&self, line: &str) -> Result<()> {
        let words: Vec<&str> = std::iter::once("admin").chain(line.split(' ')).collect();
        self.call(&words)
    }

    fn call(&self, words: &[&str]) -> Result<()> {
        let status = Command::new("bash")
            .arg(&self.script)
            .args(words)
            .envs(self.environment.iter().map(|(name, value)| (*name, value.as_str())))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{} {} failed: {status}", self.script, words.join(" ")).into())
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Nothing can be done about a failure at the end; the next run uses other ports and another folder.
        drop(self.call(&["kill"]));
        if let Some((_, state)) = self.environment.first() {
            drop(std::fs::remove_dir_all(state));
        }
    }
}

/// A free port for the name server, and one for the broker that is free with its two neighbours.
fn free_ports() -> Result<(u16, u16)> {
    for _ in 0..100 {
        let name = TcpListener::bind("127.0.0.1:0")?;
        let broker = TcpListener::bind("127.0.0.1:0")?;
        let port = broker.local_addr()?.port();
        let beside = [port.checked_sub(2), port.checked_add(1)];
        if beside.iter().all(|p| p.is_some_and(|p| TcpListener::bind(("127.0.0.1", p)).is_ok())) {
            return Ok((name.local_addr()?.port(), port));
        }
    }
    Err("no three free ports".into())
}
