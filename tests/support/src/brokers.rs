//! Real servers, started by the scripts in `tests/brokers`; here those of RocketMQ.

mod activemq;
mod rabbitmq;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

pub use self::{
    activemq::{ActiveMqOptions, ActiveMqServer},
    rabbitmq::{RabbitMqOptions, RabbitMqServers},
};
use crate::ports::{free_block, free_port};

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A folder of this test run, new and empty: below `LOCKSTEP_RUN_DIR`, where `tests/run.sh` looks for servers that
/// were left over, else below the system's folder for temporary files.
///
/// # Panics
/// When it can't be made.
pub fn new_folder(name: &str) -> PathBuf {
    let root = std::env::var_os("LOCKSTEP_RUN_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = root.join(format!("lockstep-{name}-{}-{number}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// How to start RocketMQ.
#[derive(Debug, Clone)]
pub struct RocketMqOptions {
    /// 5.5.0 or 4.9.7.
    pub version: &'static str,
    /// The nodes.
    pub nodes: &'static [&'static str],
    /// How long a queue lock lives unrenewed, in seconds.
    pub lock_seconds: u64,
    /// Whether requests must be signed.
    pub signed: bool,
    /// Whether only TLS is served.
    pub tls: bool,
    /// The address where they listen, and which they tell.
    pub bind: &'static str,
    /// Further lines of the brokers' configuration.
    pub conf: &'static str,
}

impl Default for RocketMqOptions {
    fn default() -> Self {
        let nodes = &["namesrv", "broker-a", "broker-b"];
        let (version, bind) = ("5.5.0", "127.0.0.1");
        Self { version, nodes, lock_seconds: 60, signed: false, tls: false, bind, conf: "" }
    }
}

/// Running servers; killed, and their folder removed, when dropped.
#[derive(Debug)]
pub struct RocketMqServers {
    options: RocketMqOptions,
    folder: PathBuf,
    namesrv_port: u16,
    broker_port: u16,
}

impl RocketMqServers {
    /// Starts the servers and waits until they serve.
    ///
    /// # Panics
    /// When they don't.
    pub fn start(options: RocketMqOptions) -> Self {
        let folder = new_folder("rocketmq");
        // broker-a takes ports 0 to 3 of the block, broker-b 10 to 13.
        let servers = Self { options, folder, namesrv_port: free_port(), broker_port: free_block(14) + 2 };
        servers.script("start", servers.options.nodes);
        servers
    }

    /// The name server's address.
    pub fn namesrv(&self) -> String {
        format!("{}:{}", self.options.bind, self.namesrv_port)
    }

    /// A broker's address, as the name server tells it.
    ///
    /// # Panics
    /// When there is no such broker.
    pub fn broker(&self, name: &str) -> String {
        let port = match name {
            "broker-a" => self.broker_port,
            "broker-b" => self.broker_port + 10,
            _ => panic!("no broker {name}"),
        };
        format!("{}:{port}", self.options.bind)
    }

    /// The folder with configuration, data, logs and `tls/`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// SIGKILL.
    pub fn kill(&self, node: &str) {
        self.script("kill", &[node]);
    }

    /// Starts a node again with its data, and waits until it serves.
    pub fn restart(&self, node: &str) {
        self.script("start", &[node]);
    }

    /// SIGSTOP.
    pub fn freeze(&self, node: &str) {
        self.script("freeze", &[node]);
    }

    /// SIGCONT.
    pub fn thaw(&self, node: &str) {
        self.script("thaw", &[node]);
    }

    /// Runs mqadmin commands, one a line, and gives what they said: errors don't show otherwise.
    ///
    /// # Panics
    /// When mqadmin can't be run.
    pub fn admin(&self, commands: &str) -> String {
        let mut command = self.command(&["admin-batch"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The command that runs the script against these servers.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = script("rocketmq", &self.folder);
        let flag = |on: bool| if on { "1" } else { "0" };
        command
            .args(arguments)
            .env("BROKER_BIND", self.options.bind)
            .env("ROCKETMQ_VERSION", self.options.version)
            .env("ROCKETMQ_NAMESRV_PORT", self.namesrv_port.to_string())
            .env("ROCKETMQ_BROKER_PORT", self.broker_port.to_string())
            .env("ROCKETMQ_LOCK_MS", (self.options.lock_seconds * 1_000).to_string())
            .env("ROCKETMQ_AUTH", flag(self.options.signed))
            .env("ROCKETMQ_TLS", flag(self.options.tls))
            .env("ROCKETMQ_CONF", self.options.conf);
        command
    }

    fn script(&self, verb: &str, nodes: &[&str]) {
        run_script(self.command(&[&[verb], nodes].concat()), &self.folder);
    }
}

/// The command that runs a broker's script against the servers of a folder.
fn script(broker: &str, folder: &Path) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../brokers");
    let mut command = Command::new(scripts.join(broker).join(format!("{broker}.sh")));
    command.env("BROKER_STATE", folder);
    command
}

/// Runs a script that starts or ends servers.
fn run_script(mut command: Command, folder: &Path) {
    // The servers keep what they inherit, so their output must not be a pipe that we would wait for.
    let file = folder.join("script.out");
    let log = fs::File::options().create(true).append(true).open(&file).unwrap();
    let status = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).status().unwrap();
    let output = || fs::read_to_string(&file).unwrap_or_default();
    assert!(status.success(), "{command:?} failed: {}", output());
}

impl Drop for RocketMqServers {
    fn drop(&mut self) {
        let mut command = self.command(&["kill"]);
        drop(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status());
        if !std::thread::panicking() {
            drop(fs::remove_dir_all(&self.folder));
        }
    }
}
