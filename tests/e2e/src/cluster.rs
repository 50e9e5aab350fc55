//! A Kubernetes of this machine, started and ended by `tests/cluster/cluster.sh`.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use lockstep_tests_support::{
    brokers::new_folder,
    ports::{free_block, free_port},
    process::Process,
};

/// The node's address: what servers of this machine bind to so that pods reach them.
pub const NODE: &str = "10.244.0.1";

/// Which kind of cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything that runs pods.
    Whole,
    /// Only etcd and the API server.
    ApiServer,
}

/// A running cluster; ended when dropped, unless it was given by `LOCKSTEP_CLUSTER_STATE`.
#[derive(Debug)]
pub struct Cluster {
    state: PathBuf,
    ports: Option<(u16, u16)>,
    given: bool,
    path: String,
}

impl Cluster {
    /// Starts a cluster and waits until it serves, or takes the one whose folder `LOCKSTEP_CLUSTER_STATE` names.
    ///
    /// # Panics
    /// When it does not come up; the sentence holds what the script said.
    pub fn start(kind: Kind) -> Self {
        let given = std::env::var_os("LOCKSTEP_CLUSTER_STATE").filter(|_| kind == Kind::Whole);
        let ports = (kind == Kind::ApiServer).then(|| (free_port(), free_block(2)));
        let state = given.as_ref().map_or_else(|| new_folder("cluster"), PathBuf::from);
        let mut cluster = Self { state, ports, given: given.is_some(), path: String::new() };
        cluster.script(&[if kind == Kind::Whole { "up" } else { "apiserver" }]);
        let output = cluster.script_command(&["path"]).output().unwrap();
        let own = String::from_utf8(output.stdout).unwrap();
        cluster.path = format!("{}:{}", own.trim(), std::env::var("PATH").unwrap_or_default());
        cluster
    }

    /// The folder with everything of it.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Its administrator's kubeconfig file.
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.join("admin.kubeconfig")
    }

    /// A program, with the cluster's own ones found first, that talks to the cluster as its administrator.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let program = program.as_ref();
        let own = |folder: &str| Path::new(folder).join(program);
        let found = self.path.split(':').map(own).find(|path| path.is_file());
        let mut command = Command::new(found.unwrap_or_else(|| program.into()));
        command.env("KUBECONFIG", self.kubeconfig()).env("PATH", &self.path);
        // What one program found out before the chart was there must not be another's truth.
        command.env("KUBECACHEDIR", self.state.join("cache").join(program));
        // A stray helm configuration of the machine must not matter.
        for (name, folder) in [("CACHE", "cache"), ("CONFIG", "config"), ("DATA", "data")] {
            command.env(format!("HELM_{name}_HOME"), self.state.join("helm").join(folder));
        }
        command
    }

    /// Runs kubectl and gives what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments).unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }

    /// Runs kubectl.
    ///
    /// # Errors
    /// What it printed when it failed.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        said(&self.command("kubectl").args(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// `kubectl apply -f -`.
    ///
    /// # Errors
    /// What it printed when it failed.
    pub fn apply(&self, yaml: &str) -> Result<String, String> {
        let mut command = self.command("kubectl");
        command.args(["apply", "--server-side", "--field-manager=tests", "-f", "-"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It may end early, with an error that it prints.
        drop(child.stdin.take().unwrap().write_all(yaml.as_bytes()));
        said(&child.wait_with_output().unwrap())
    }

    /// Runs helm.
    ///
    /// # Errors
    /// What it printed when it failed.
    pub fn helm(&self, arguments: &[&str]) -> Result<String, String> {
        said(&self.command("helm").args(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Starts a kubectl that goes on, with its output in a file; it is killed with the handle.
    pub fn follow(&self, name: &str, arguments: &[&str]) -> (Process, PathBuf) {
        let file = self.state.join("log").join(format!("{name}.out"));
        let process = Process::spawn(name, self.command("kubectl").args(arguments), &file);
        (process, file)
    }

    /// Kills one of the cluster's processes and starts it again.
    pub fn restart(&self, node: &str) {
        self.script(&["restart", node]);
    }

    /// Puts an image into the cluster.
    pub fn load(&self, image: &Path) {
        self.script(&["load", &image.display().to_string()]);
    }

    fn script_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster/cluster.sh"));
        command.args(arguments).env("CLUSTER_STATE", &self.state).stdin(Stdio::null());
        if let Some((api, etcd)) = self.ports {
            command.env("CLUSTER_API_PORT", api.to_string()).env("CLUSTER_ETCD_PORT", etcd.to_string());
        }
        command
    }

    fn script(&self, arguments: &[&str]) {
        // The cluster's processes keep what they inherit, so the output must not be a pipe that we would wait for.
        let log = self.state.with_extension("script.out");
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let status =
            self.script_command(arguments).stdout(file.try_clone().unwrap()).stderr(file).status().unwrap();
        let output = || fs::read_to_string(&log).unwrap_or_default();
        assert!(status.success(), "cluster.sh {} ended with {status}: {}", arguments.join(" "), output());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.given {
            // In a run of `tests/run.sh` the logs are kept with the run's.
            let keep = std::env::var_os("LOCKSTEP_RUN_DIR").map_or("", |_| "--keep");
            let mut command = self.script_command(&["down", keep]);
            drop(command.stdout(Stdio::null()).stderr(Stdio::null()).status());
        }
    }
}

fn said(output: &Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{}{}", text(&output.stderr), text(&output.stdout)))
}
