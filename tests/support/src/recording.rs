//! The recording application as a process: start, program, kill, read what it wrote.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use lockstep_history::{Event, History, Outcome};

use crate::{
    behaviour::Rule,
    http,
    ports::free_port,
    process::Process,
    time::{now_micros, wait_until},
};

/// A recording application that may be killed and started again; its port and its log stay.
#[derive(Debug)]
pub struct RecordingApp {
    port: u16,
    log: PathBuf,
    process: Option<Process>,
    rules: Vec<Rule>,
}

impl RecordingApp {
    /// Starts one whose log is `folder/name.log`.
    pub fn start(folder: &Path, name: &str) -> Self {
        let log = folder.join(format!("{name}.log"));
        let mut app = Self { port: free_port(), log, process: None, rules: Vec::new() };
        app.restart();
        app
    }

    /// Where consumers POST to; the path tells them apart in the history.
    pub fn url(&self, consumer: &str) -> String {
        format!("http://127.0.0.1:{}/{consumer}", self.port)
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Replaces its rules; they hold over restarts too.
    ///
    /// # Panics
    /// When it does not take them.
    pub fn set_rules(&mut self, rules: Vec<Rule>) {
        self.rules = rules;
        let answer = http::call(&self.address(), "PUT", "/rules", self.rules_text().as_bytes());
        assert!(matches!(answer, Ok((200, _))), "the application takes no rules: {answer:?}");
    }

    /// SIGKILL. Requests that were running are recorded as broken.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
            self.close_open(process.pid());
        }
    }

    /// Whether it runs; false after it crashed.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_running)
    }

    /// The process, to freeze it.
    pub const fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// Starts it again on its port, after a kill or a crash. It may have crashed anew when this returns, as its rules say.
    ///
    /// # Panics
    /// When it ends of itself, or does not listen in time.
    pub fn restart(&mut self) {
        self.kill();
        // They hold from the first request on, which may come before anybody could tell them.
        let rules = self.log.with_extension("rules");
        fs::write(&rules, self.rules_text()).unwrap();
        let mut command = Command::new(program("recording-app"));
        command.arg(self.port.to_string()).arg(&self.log).arg(rules);
        let mut process = Process::spawn("recording-app", &mut command, self.log.with_extension("out"));
        let address = self.address();
        wait_until("the application listens", Duration::from_secs(10), || match process.ended() {
            // A consumer's request may come before ours.
            Some(status) if status.code().is_none() => true,
            Some(status) => panic!("the application ended with {status}: {}", process.output()),
            None => http::call(&address, "GET", "/health", b"").is_ok(),
        });
        self.process = Some(process);
    }

    /// What it wrote so far.
    pub fn history(&self) -> History {
        read_history(&self.log)
    }

    /// The log file: other processes may append to it.
    pub fn log(&self) -> &Path {
        &self.log
    }

    fn rules_text(&self) -> String {
        self.rules.iter().map(|rule| format!("{rule}\n")).collect()
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn close_open(&self, pid: u32) {
        let prefix = format!("{pid}-");
        let mut open: BTreeSet<Arc<str>> = BTreeSet::new();
        for event in self.history().events() {
            if let Event::Start { post, .. } = event {
                open.insert(Arc::clone(post));
            } else if let Event::End { post, .. } = event {
                open.remove(post);
            }
        }
        let mut log = fs::File::options().append(true).open(&self.log).unwrap();
        for post in open.into_iter().filter(|post| post.starts_with(&prefix)) {
            let event = Event::End { at: now_micros(), post, outcome: Outcome::Broken };
            log.write_all(format!("{event}\n").as_bytes()).unwrap();
        }
    }
}

/// Reads a history file that grows, each event once.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    offset: u64,
}

impl Follower {
    /// Begins at the file's start.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), offset: 0 }
    }

    /// What was written since the last call.
    ///
    /// # Panics
    /// When a line is no event.
    pub fn read(&mut self) -> History {
        let mut text = String::new();
        let Ok(mut file) = fs::File::open(&self.path) else { return History::default() };
        file.seek(SeekFrom::Start(self.offset)).and_then(|_| file.read_to_string(&mut text)).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        self.offset += u64::try_from(whole.len()).unwrap();
        whole.parse().unwrap_or_else(|error| panic!("{}: {error}", self.path.display()))
    }
}

/// Reads a history file that may still be written to: a last line without an end is left out.
///
/// # Panics
/// When a line is no event.
pub fn read_history(path: &Path) -> History {
    Follower::new(path).read()
}

/// A program of this workspace, beside the running test's folder.
///
/// # Panics
/// When it was not built.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let found = test.ancestors().map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("{name} is not built: run `cargo build --workspace --bins`, as tests/run.sh does")
    })
}
