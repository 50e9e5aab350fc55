//! The sidecar under test, as a process.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{http, ports::free_port, process::Process, recording::program};

/// How to start a sidecar. The manifest gets `spec.sidecar.adminPort` by itself.
#[derive(Debug, Clone)]
pub struct SidecarOptions {
    /// The name of its files.
    pub name: String,
    /// Its name in the broker's group.
    pub client_id: String,
    /// `spec` without its `sidecar`, indented by two blanks.
    pub spec: String,
    /// Where it POSTs to.
    pub callback: String,
    /// Its state folder; `None` means none.
    pub state: Option<PathBuf>,
    /// The folder with its secrets.
    pub credentials: Option<PathBuf>,
    /// The file with the queues that are its to take.
    pub assignment: Option<PathBuf>,
}

/// A running sidecar; killed when dropped.
#[derive(Debug)]
pub struct Sidecar {
    /// The process, to kill or freeze it.
    pub process: Process,
    admin_port: u16,
}

impl Sidecar {
    /// Starts a sidecar whose manifest and log lie in `folder`. It takes `LOCKSTEP_SIDECAR`, or the one of this
    /// build.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn start(folder: &Path, options: &SidecarOptions) -> Self {
        let SidecarOptions { name, client_id, callback, state, credentials, assignment, .. } = options;
        let admin_port = free_port();
        let manifest = manifest(folder, options, admin_port);
        let mut command = Command::new(sidecar_program());
        command.arg("run").arg("-f").arg(&manifest).args(["--callback", callback, "--client-id", client_id]);
        if let Some(state) = state {
            command.arg("--state-dir").arg(state);
        }
        if let Some(credentials) = credentials {
            command.arg("--credentials-dir").arg(credentials);
        }
        if let Some(assignment) = assignment {
            command.arg("--assignment").arg(assignment);
        }
        let process = Process::spawn(name, &mut command, folder.join(format!("{name}.out")));
        Self { process, admin_port }
    }

    /// An answer of its admin port: status and body. Status 0 means that nobody answered.
    pub fn admin(&self, method: &str, path: &str) -> (u16, String) {
        let answer = http::call(&format!("127.0.0.1:{}", self.admin_port), method, path, b"");
        answer.map_or((0, String::new()), |(status, body)| {
            (status, String::from_utf8_lossy(&body).into_owned())
        })
    }

    /// Its `/status` document; null when nobody answered.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.admin("GET", "/status").1).unwrap_or_default()
    }

    /// Whether it says that it is ready.
    pub fn is_ready(&self) -> bool {
        self.admin("GET", "/ready").0 == 200
    }

    /// The admin port.
    pub const fn admin_port(&self) -> u16 {
        self.admin_port
    }
}

/// What `check --connect` says of the same options, and its exit code.
///
/// # Panics
/// When it can't be run.
pub fn check(folder: &Path, options: &SidecarOptions) -> (Option<i32>, String) {
    let mut command = Command::new(sidecar_program());
    command.arg("check").arg("--connect").arg("-f").arg(manifest(folder, options, free_port()));
    if let Some(credentials) = &options.credentials {
        command.arg("--credentials-dir").arg(credentials);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.code(), text)
}

fn manifest(folder: &Path, options: &SidecarOptions, admin_port: u16) -> PathBuf {
    let SidecarOptions { name, spec, .. } = options;
    let manifest = folder.join(format!("{name}.yaml"));
    let head = "apiVersion: lockstep.dev/v1alpha1\nkind: ConsumerGroup\nmetadata: {name: tests}\nspec:\n";
    let text = format!("{head}{}\n  sidecar: {{adminPort: {admin_port}}}\n", spec.trim_end());
    fs::write(&manifest, text).unwrap();
    manifest
}

/// The sidecar's program.
pub fn sidecar_program() -> PathBuf {
    std::env::var_os("LOCKSTEP_SIDECAR").map_or_else(|| program("lockstep-sidecar"), PathBuf::from)
}
