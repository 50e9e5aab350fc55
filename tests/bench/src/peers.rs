//! What is measured: the client loop, the sidecar, a plain Java consumer.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    Result,
    children::{self, Own, Process},
    measure,
};

/// What one measurement gave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Messages a second at the application.
    pub(crate) rate: f64,
    /// CPU time of the measured process for one message, in microseconds.
    pub(crate) cpu_micros: f64,
    /// Peak resident memory of the measured process in KiB.
    pub(crate) peak_kib: u64,
}

/// How long a measurement runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Requests before the clock starts.
    pub(crate) warm: u64,
    /// How long the clock runs.
    pub(crate) length: Duration,
}

/// Measures a started process between its first `warm` requests and the window's end.
pub(crate) async fn sample(process: &mut Process, app: &Own, window: Window) -> Result<Sample> {
    children::until_seen(app.port(), window.warm, process, Duration::from_secs(60)).await?;
    let (start, before, cpu_before) =
        (Instant::now(), children::seen(app.port()).await?.count, measure::cpu(process.pid())?);
    tokio::time::sleep(window.length).await;
    let (took, after, cpu_after) =
        (start.elapsed(), children::seen(app.port()).await?, measure::cpu(process.pid())?);
    process.still_runs()?;
    if after.disorder > 0 {
        return Err(format!("{} requests came out of order", after.disorder).into());
    }
    let messages = after.count.saturating_sub(before);
    if messages == 0 {
        return Err("no message in the whole window".into());
    }
    let messages = f64::from(u32::try_from(messages)?);
    Ok(Sample {
        rate: messages / took.as_secs_f64(),
        cpu_micros: (cpu_after.saturating_sub(cpu_before)).as_secs_f64() * 1e6 / messages,
        peak_kib: measure::peak_kib(process.pid())?,
    })
}

/// A folder for one run's manifests and logs.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Uses a folder that exists.
    pub(crate) fn new(path: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// A manifest's parts that differ between measurements.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Lines of `spec.source`, indented by four blanks.
    pub(crate) source: String,
    /// `PerQueue` or `PerKey`.
    pub(crate) mode: &'static str,
    /// `maxInFlight`.
    pub(crate) max_in_flight: u32,
}

/// Starts the sidecar against an application.
pub(crate) fn sidecar(program: &Path, folder: &Folder, group: &Group, app: u16) -> Result<Process> {
    let Group { source, mode, max_in_flight } = group;
    let admin = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let manifest = format!(
        "apiVersion: lockstep.dev/v1alpha1\nkind: ConsumerGroup\nmetadata: {{name: bench}}\nspec:\n  source:\n{source}  \
         ordering: {{mode: {mode}}}\n  delivery: {{maxInFlight: {max_in_flight}}}\n  \
         sidecar: {{adminPort: {admin}, logLevel: warn}}\n"
    );
    let file = folder.file("group.yaml");
    std::fs::write(&file, manifest)?;
    let mut command = Command::new(program);
    command.arg("run").arg("-f").arg(file).arg("--callback").arg(format!("http://127.0.0.1:{app}/messages"));
    Process::start(command, &folder.file("sidecar.log"))
}

/// Starts B0: the client loop.
pub(crate) fn client_loop(folder: &Folder, connections: u32, app: u16, more: &[String]) -> Result<Process> {
    let mut command = Command::new(children::own_program()?);
    command
        .arg("b0")
        .arg(format!("url=http://127.0.0.1:{app}/messages"))
        .arg(format!("connections={connections}"))
        .args(more);
    if !more.iter().any(|word| word.starts_with("count=")) {
        command.arg("count=100000000");
    }
    Process::start(command, &folder.file("b0.log"))
}

/// Starts a plain Java consumer that posts with java.net.http; `words` is what it is told of its broker.
pub(crate) fn java(class_path: &str, folder: &Folder, words: &[String], app: u16) -> Result<Process> {
    let mut command = Command::new("java");
    command
        .args(["-XX:+UseSerialGC", "-cp", class_path, "lockstep.peer.Post"])
        .args(words)
        .arg(format!("http://127.0.0.1:{app}/messages"));
    Process::start(command, &folder.file("java.log"))
}
