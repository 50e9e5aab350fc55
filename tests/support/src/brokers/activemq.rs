//! Real servers of ActiveMQ, started by the scripts in `tests/brokers/activemq`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use super::{new_folder, run_script};
use crate::{activemq::Node, ports::free_block};

/// How to start ActiveMQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveMqOptions {
    /// 6.3.1 or 5.17.2 of Classic, or 2.40.0 of Artemis.
    pub version: &'static str,
    /// How long a peer may say nothing.
    pub inactivity: Duration,
    /// The address where it listens.
    pub bind: &'static str,
}

impl Default for ActiveMqOptions {
    fn default() -> Self {
        Self { version: "6.3.1", inactivity: Duration::from_secs(5), bind: "127.0.0.1" }
    }
}

/// A running broker; killed, and its folder removed, when dropped.
#[derive(Debug)]
pub struct ActiveMqServer {
    options: ActiveMqOptions,
    folder: PathBuf,
    port: u16,
}

impl ActiveMqServer {
    /// Starts the broker and waits until it serves.
    ///
    /// # Panics
    /// When it does not.
    pub fn start(options: ActiveMqOptions) -> Self {
        let server = Self { options, folder: new_folder("activemq"), port: free_block(2) };
        server.run("start");
        server
    }

    /// A client of it.
    pub fn node(&self) -> Node {
        let address = |port: u16| format!("{}:{port}", self.options.bind);
        Node::new(address(self.port), address(self.port + 1), self.is_artemis())
    }

    /// The folder with configuration, data and logs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("log/broker.out")).unwrap_or_default())
            .into_owned()
    }

    /// SIGKILL.
    pub fn kill(&self) {
        self.run("kill");
    }

    /// Starts it again with its data, and waits until it serves.
    pub fn restart(&self) {
        self.run("start");
    }

    fn is_artemis(&self) -> bool {
        self.options.version.starts_with("2.")
    }

    fn command(&self, verb: &str) -> Command {
        let (script, version, port) = if self.is_artemis() {
            ("artemis.sh", "ARTEMIS_VERSION", "ARTEMIS_PORT")
        } else {
            ("activemq.sh", "ACTIVEMQ_VERSION", "ACTIVEMQ_PORT")
        };
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../brokers/activemq");
        let mut command = Command::new(scripts.join(script));
        command
            .arg(verb)
            .env("BROKER_STATE", &self.folder)
            .env("BROKER_BIND", self.options.bind)
            .env("BROKER_INACTIVITY", self.options.inactivity.as_millis().to_string())
            .env(version, self.options.version)
            .env(port, self.port.to_string());
        command
    }

    fn run(&self, verb: &str) {
        run_script(self.command(verb), &self.folder);
    }
}

impl Drop for ActiveMqServer {
    fn drop(&mut self) {
        let mut command = self.command("kill");
        drop(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status());
        if !std::thread::panicking() {
            drop(fs::remove_dir_all(&self.folder));
        }
    }
}
