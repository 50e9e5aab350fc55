//! The health gate: asks the application again and again whether it is well, on a connection of its own each time.
//!
//! One success makes it healthy, so many failures in a row as the threshold says make it unhealthy. It starts
//! unhealthy: nothing registers or locks anything at a broker before the first success.

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Notify, watch},
    time::{Instant, sleep_until, timeout},
};

use crate::deliver::Endpoint;

/// How often is asked while somebody waits for a change.
const FAST: Duration = Duration::from_millis(200);

/// Bounds of one check's timeout; within them it is the period.
const TIMEOUT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(1));

/// As much of an answer is read to find its status line.
const HEAD_LIMIT: usize = 256;

/// What is checked and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthSettings {
    /// The application's host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path of a GET that must answer 2xx; `None` = a TCP connection is enough.
    pub path: Option<String>,
    /// The time between two checks.
    pub period: Duration,
    /// Failures in a row that make the application unhealthy, at least 1.
    pub failure_threshold: u32,
}

/// What the gate knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// Whether the application is healthy.
    pub healthy: bool,
    /// Checks that failed, ever.
    pub failures: u64,
    /// Checks that passed, ever.
    pub successes: u64,
    /// Why the last check failed; `None` when it passed or none was made yet.
    pub problem: Option<Arc<str>>,
}

/// Runs the checks. Made once; [`HealthGate::run`] belongs into one task.
#[derive(Debug)]
pub struct HealthGate {
    settings: RwLock<Arc<HealthSettings>>,
    state: watch::Sender<Health>,
    fast: watch::Sender<usize>,
    changed: Notify,
}

/// While it lives, the application is asked every 200 ms.
#[derive(Debug)]
pub struct FastPoll {
    fast: watch::Sender<usize>,
}

impl HealthSettings {
    /// Settings for an endpoint.
    pub fn new(endpoint: &Endpoint, path: Option<String>, period: Duration, failure_threshold: u32) -> Self {
        Self { host: endpoint.host.clone(), port: endpoint.port, path, period, failure_threshold }
    }
}

impl HealthGate {
    /// A gate that has asked nothing yet: unhealthy.
    pub fn new(settings: HealthSettings) -> Self {
        Self {
            settings: RwLock::new(Arc::new(settings)),
            state: watch::Sender::new(Health::default()),
            fast: watch::Sender::new(0),
            changed: Notify::new(),
        }
    }

    /// What is known, and to wait on: a new value comes with every check, so compare `healthy` for changes.
    pub fn watch(&self) -> watch::Receiver<Health> {
        self.state.subscribe()
    }

    /// Replaces the settings and checks at once.
    pub fn set_settings(&self, settings: HealthSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self.changed.notify_one();
    }

    /// Asks every 200 ms, beginning now, until the returned value is dropped.
    pub fn poll_fast(&self) -> FastPoll {
        self.fast.send_modify(|users| *users += 1);
        FastPoll { fast: self.fast.clone() }
    }

    /// Checks for ever. Cancel safe: dropping it ends the check under way.
    pub async fn run(&self) {
        let mut fast = self.fast.subscribe();
        let mut failures_in_a_row = 0_u32;
        loop {
            let settings = Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner));
            let started = Instant::now();
            let outcome = check(&settings).await;
            failures_in_a_row = if outcome.is_ok() { 0 } else { failures_in_a_row.saturating_add(1) };
            let unhealthy = failures_in_a_row >= settings.failure_threshold.max(1);
            self.state.send_modify(|health| health.note(outcome, unhealthy));
            loop {
                let quick = *fast.borrow_and_update() > 0;
                let period = if quick { FAST.min(settings.period) } else { settings.period };
                tokio::select! {
                    () = sleep_until(started + period) => break,
                    () = self.changed.notified() => break,
                    // A shorter period counts at once; the sender lives as long as the gate.
                    _ = fast.changed() => {}
                }
            }
        }
    }
}

impl Health {
    fn note(&mut self, outcome: Result<(), String>, unhealthy: bool) {
        match outcome {
            Ok(()) => {
                self.successes += 1;
                self.healthy = true;
                self.problem = None;
            }
            Err(problem) => {
                self.failures += 1;
                self.healthy &= !unhealthy;
                self.problem = Some(problem.into());
            }
        }
    }
}

impl Drop for FastPoll {
    fn drop(&mut self) {
        self.fast.send_modify(|users| *users = users.saturating_sub(1));
    }
}

/// One check. The text of a failure names what was tried, for the condition.
async fn check(settings: &HealthSettings) -> Result<(), String> {
    let limit = settings.period.clamp(TIMEOUT.0, TIMEOUT.1);
    let what = match &settings.path {
        Some(path) => format!("GET {path} on port {}", settings.port),
        None => format!("a connection to port {}", settings.port),
    };
    match timeout(limit, attempt(settings)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(problem)) => Err(format!("{what} failed: {problem}")),
        Err(_) => Err(format!("{what} failed: no answer within {} ms", limit.as_millis())),
    }
}

async fn attempt(settings: &HealthSettings) -> Result<(), String> {
    let mut stream = connect(&settings.host, settings.port).await.map_err(|error| error.to_string())?;
    let Some(path) = &settings.path else { return Ok(()) };
    let bracketed = settings.host.contains(':') && !settings.host.starts_with('[');
    let host = if bracketed { format!("[{}]", settings.host) } else { settings.host.clone() };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}:{}\r\nUser-Agent: lockstep-health\r\nConnection: close\r\n\r\n",
        settings.port
    );
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    match read_status(&mut stream).await? {
        200..=299 => Ok(()),
        status => Err(format!("it answered {status}, not 2xx")),
    }
}

/// Reads a final status line; interim answers are passed over.
async fn read_status(stream: &mut TcpStream) -> Result<u16, String> {
    let mut head = Vec::with_capacity(HEAD_LIMIT);
    loop {
        let mut lines = head.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        if let Some(line) = lines.next() {
            let status = status_of(line).ok_or("it answered something that is not HTTP")?;
            if !(100..200).contains(&status) || status == 101 {
                return Ok(status);
            }
            let rest = head.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
            if let Some(rest) = rest {
                head.drain(..rest);
                continue;
            }
        }
        if head.len() >= HEAD_LIMIT {
            return Err("it answered something that is not HTTP".to_owned());
        }
        let mut chunk = [0; HEAD_LIMIT];
        let room = chunk.len().min(HEAD_LIMIT - head.len());
        let read = stream.read(chunk.get_mut(..room).unwrap_or_default()).await;
        match read.map_err(|error| error.to_string())? {
            0 => return Err("it closed the connection without an answer".to_owned()),
            read => head.extend_from_slice(chunk.get(..read).unwrap_or_default()),
        }
    }
}

fn status_of(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line.get(..12)?).ok()?;
    let status = line.strip_prefix("HTTP/1.0 ").or_else(|| line.strip_prefix("HTTP/1.1 "))?;
    status.parse().ok().filter(|status| (100..1000).contains(status))
}

/// Connects; of `localhost` both address families are tried, whatever the name resolves to.
async fn connect(host: &str, port: u16) -> std::io::Result<TcpStream> {
    if host.eq_ignore_ascii_case("localhost") {
        match TcpStream::connect(("127.0.0.1", port)).await {
            Ok(stream) => Ok(stream),
            Err(error) => TcpStream::connect(("::1", port)).await.map_err(|_| error),
        }
    } else {
        TcpStream::connect((host.trim_matches(['[', ']']), port)).await
    }
}
