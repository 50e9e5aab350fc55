//! Real RabbitMQ servers, started by `tests/brokers/rabbitmq/rabbitmq.sh`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{new_folder, run_script, script};
use crate::{ports::free_block, rabbitmq::Node};

/// How to start RabbitMQ.
#[derive(Debug, Clone)]
pub struct RabbitMqOptions {
    /// 3.10, 4.0 or 4.3.
    pub version: &'static str,
    /// The nodes.
    pub nodes: &'static [&'static str],
    /// The heartbeat that the broker asks for, in seconds.
    pub heartbeat: u64,
    /// Whether TLS is served too, with client certificates.
    pub tls: bool,
    /// The address where they listen.
    pub bind: &'static str,
}

impl Default for RabbitMqOptions {
    fn default() -> Self {
        Self { version: "3.10", nodes: &["r1"], heartbeat: 5, tls: false, bind: "127.0.0.1" }
    }
}

/// Running servers; killed, and their folder removed, when dropped.
#[derive(Debug)]
pub struct RabbitMqServers {
    options: RabbitMqOptions,
    folder: PathBuf,
    port: u16,
}

impl RabbitMqServers {
    /// Starts the servers and waits until they serve.
    ///
    /// # Panics
    /// When they don't.
    pub fn start(options: RabbitMqOptions) -> Self {
        let folder = new_folder("rabbitmq");
        let servers = Self { options, folder, port: free_block(13) };
        if servers.options.tls {
            // A user whose name is the common name of the client's certificate.
            servers.run("start", servers.options.nodes);
            servers.ctl(&["add_user", "lockstep", "not-used"]);
            servers.ctl(&["set_permissions", "lockstep", ".*", ".*", ".*"]);
        } else {
            servers.run("start", servers.options.nodes);
        }
        servers
    }

    /// A client of a node.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn node(&self, name: &str) -> Node {
        Node::new(self.address(name, 1), self.address(name, 3))
    }

    /// A node's address for AMQP over TLS.
    pub fn tls_address(&self, name: &str) -> String {
        self.address(name, 2)
    }

    /// The folder with configuration, data, logs and `tls/`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What a node has logged so far.
    pub fn log(&self, name: &str) -> String {
        let file = self.folder.join(format!("log/{name}.out"));
        String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
    }

    /// SIGKILL.
    pub fn kill(&self, node: &str) {
        self.run("kill", &[node]);
    }

    /// Starts a node again with its data, and waits until it serves.
    pub fn restart(&self, node: &str) {
        self.run("start", &[node]);
    }

    /// Runs rabbitmqctl on the first node and gives what it said.
    ///
    /// # Panics
    /// When it fails.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output = self.ctl_command(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "rabbitmqctl {} failed: {said}", arguments.join(" "));
        said
    }

    /// The command that runs rabbitmqctl on the first node.
    pub fn ctl_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&[&["ctl", self.options.nodes[0]], arguments].concat());
        command.stdin(Stdio::null());
        command
    }

    fn address(&self, name: &str, kind: u16) -> String {
        let index: u16 = name.trim_start_matches('r').parse().unwrap_or_else(|_| panic!("no node {name}"));
        format!("{}:{}", self.options.bind, self.port + 4 * index - 4 + kind)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = script("rabbitmq", &self.folder);
        command
            .args(arguments)
            .env("BROKER_BIND", self.options.bind)
            .env("RABBITMQ_VERSION", self.options.version)
            .env("RABBITMQ_PORT", self.port.to_string())
            .env("RABBITMQ_TLS", if self.options.tls { "mutual" } else { "0" })
            .env("RABBITMQ_CONF", format!("heartbeat = {}", self.options.heartbeat));
        command
    }

    fn run(&self, verb: &str, nodes: &[&str]) {
        run_script(self.command(&[&[verb], nodes].concat()), &self.folder);
    }
}

impl Drop for RabbitMqServers {
    fn drop(&mut self) {
        let mut command = self.command(&["kill"]);
        drop(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status());
        if !std::thread::panicking() {
            drop(fs::remove_dir_all(&self.folder));
        }
    }
}
