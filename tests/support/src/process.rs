//! Processes that can be killed, frozen and awaited, and that never outlive their handle.

use std::{
    fs::File,
    io,
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    time::Duration,
};

use crate::time::wait_for;

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Please end.
    Term,
    /// Freeze.
    Stop,
    /// Go on.
    Cont,
}

/// A running child process; killed when dropped.
///
/// The child is not reaped before it is waited for here, so its pid can't belong to somebody else meanwhile.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    output: PathBuf,
}

impl Process {
    /// Starts a process whose output goes to the file `output`, and whose input stays open as long as the handle.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn spawn(name: &str, command: &mut Command, output: impl Into<PathBuf>) -> Self {
        let output = output.into();
        let start = || -> io::Result<Child> {
            let log = File::options().create(true).append(true).open(&output)?;
            command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).spawn()
        };
        let mut start = start;
        let child = start().unwrap_or_else(|error| panic!("{name} can't be started: {error}"));
        Self { child, name: name.to_owned(), output }
    }

    /// The pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Its standard input; dropping it tells many programs to end.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) {
        let signal = match signal {
            Signal::Term => "-TERM",
            Signal::Stop => "-STOP",
            Signal::Cont => "-CONT",
        };
        let sent = Command::new("kill").args([signal, &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "{} can't be sent {signal}", self.name);
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        // An error means that it is gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// How it ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// When it does not within `limit`.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let what = format!("{} ends", self.name);
        wait_for(&what, limit, || self.ended())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
