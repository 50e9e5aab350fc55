//! Child processes of a measurement, ended when dropped.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{Result, app::Seen};

/// A running child; killed and reaped on drop.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts a command whose input stays open and empty (the Java peer ends with it), its output going to a file.
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<Self> {
        let log = std::fs::File::options().create(true).append(true).open(log)?;
        let child =
            command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).spawn().map_err(|error| {
                format!("failed to start {}: {error}", command.get_program().to_string_lossy())
            })?;
        Ok(Self(child))
    }

    /// The process's id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Fails when it ended already.
    pub(crate) fn still_runs(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("a measured process ended early: {status}").into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; reaping is all that matters then.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// One of this program's own words as a process, with the port that it printed first.
#[derive(Debug)]
pub(crate) struct Own {
    _process: Process,
    port: u16,
}

impl Own {
    /// Starts `lockstep-bench WORD ARGS`.
    pub(crate) async fn start(word: &str, args: &[String]) -> Result<Self> {
        let mut child = Command::new(own_program()?)
            .arg(word)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = child.stdout.take().ok_or("no output to read the port from")?;
        let process = Process(child);
        // The port is the first line; a child prints nothing else.
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(&mut output), &mut line).map(|_| line)
        })
        .await??;
        Ok(Self { _process: process, port: line.trim().parse()? })
    }

    /// Where it listens on the loopback address.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// The path of this program.
pub(crate) fn own_program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?)
}

/// Asks the application what it saw.
pub(crate) async fn seen(port: u16) -> Result<Seen> {
    Ok(serde_json::from_slice(&get(port, "/seen").await?)?)
}

async fn get(port: u16, path: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    loop {
        let read = stream.read_buf(&mut answer).await?;
        if let Some(body) = body_of(&answer) {
            return Ok(body.to_vec());
        }
        if read == 0 {
            return Err("the application closed the connection".into());
        }
    }
}

fn body_of(answer: &[u8]) -> Option<&[u8]> {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    let length: usize = head.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
    answer.get(end..end + length)
}

/// Waits until the application saw so many requests.
pub(crate) async fn until_seen(port: u16, count: u64, process: &mut Process, limit: Duration) -> Result<()> {
    let start = Instant::now();
    loop {
        let now = seen(port).await?.count;
        if now >= count {
            return Ok(());
        }
        process.still_runs()?;
        if start.elapsed() > limit {
            return Err(format!("only {now} of {count} requests within {limit:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
