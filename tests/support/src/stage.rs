//! What a scenario with real servers needs of its own: a folder, an application, sidecars, and the history of it all.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use lockstep_history::{Event, History, Rules, Verdict, check};

use crate::{
    behaviour::{Act, Rule},
    brokers::new_folder,
    process::Signal,
    recording::{Follower, RecordingApp},
    sidecar::{self, Sidecar, SidecarOptions},
    time::{now_micros, pause, wait_until},
};

/// How often what is dear to look at is looked at.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long `check --connect` may see the servers as they were before a change.
const CHECK: Duration = Duration::from_secs(30);

/// A scenario's application and sidecars.
#[derive(Debug)]
pub struct Stage {
    /// The scenario's files.
    pub folder: PathBuf,
    /// The application.
    pub app: RecordingApp,
    /// The sidecars that were started and not ended, by name.
    pub sidecars: BTreeMap<String, Sidecar>,
    /// Where sidecars POST to instead of the application.
    pub callback: Option<String>,
    /// The client id of all sidecars instead of their names.
    pub client_id: Option<String>,
    /// The files that name a sidecar's queues, by its name.
    pub assignments: BTreeMap<String, PathBuf>,
    history: History,
    /// When each fault began and ended.
    struck: Vec<(u64, u64)>,
    log: RefCell<Log>,
}

impl Stage {
    /// An application that needs `work` for each message, and no sidecar yet.
    pub fn new(name: &str, work: Duration) -> Self {
        let folder = new_folder(name);
        let mut app = RecordingApp::start(&folder, "app");
        app.set_rules(vec![Rule::always(Act::Answer(200)).after(work)]);
        let log = Log { follower: Follower::new(app.log()), deliveries: Vec::new(), open: BTreeMap::new() };
        Self {
            folder,
            app,
            sidecars: BTreeMap::new(),
            callback: None,
            client_id: None,
            assignments: BTreeMap::new(),
            history: History::default(),
            struck: Vec::new(),
            log: RefCell::new(log),
        }
    }

    /// Writes the file that names a sidecar's queues, as the operator does: a new file takes the old one's place.
    pub fn assign(&mut self, name: &str, queues: &[&str]) {
        let file = self.folder.join(format!("{name}.assignment"));
        let new = file.with_extension("new");
        fs::write(&new, serde_json::to_string(queues).unwrap()).unwrap();
        fs::rename(&new, &file).unwrap();
        self.assignments.insert(name.to_owned(), file);
    }

    fn options(&self, name: &str, spec: String) -> SidecarOptions {
        let secrets = self.folder.join("secrets");
        SidecarOptions {
            name: name.to_owned(),
            spec,
            client_id: self.client_id.clone().unwrap_or_else(|| name.to_owned()),
            callback: self.callback.clone().unwrap_or_else(|| self.app.url(name)),
            state: None,
            credentials: secrets.is_dir().then_some(secrets),
            assignment: self.assignments.get(name).cloned(),
        }
    }

    /// Starts a sidecar with this `spec`, and with the secrets in `folder/secrets` if there are any.
    pub fn start_sidecar(&mut self, name: &str, spec: String) {
        let sidecar = Sidecar::start(&self.folder, &self.options(name, spec));
        self.sidecars.insert(name.to_owned(), sidecar);
    }

    /// Waits until a sidecar is ready.
    pub fn await_ready(&mut self, name: &str) {
        let sidecar = self.sidecars.get_mut(name).unwrap();
        wait_until(&format!("{name} is ready"), Duration::from_secs(30), || {
            assert!(sidecar.process.is_running(), "{name} ended: {}", tail(&sidecar.process.output()));
            sidecar.is_ready()
        });
    }

    /// Waits until `check --connect` ends as wanted for such a sidecar: servers learn of a change a moment later.
    ///
    /// # Panics
    /// When it does not.
    pub fn await_checked(&self, name: &str, spec: String, wanted: impl Fn(Option<i32>, &str) -> bool) {
        let options = self.options(name, spec);
        let start = Instant::now();
        loop {
            let (code, said) = sidecar::check(&self.folder, &options);
            if wanted(code, &said) {
                return;
            }
            assert!(start.elapsed() < CHECK, "check --connect ended with {code:?}: {said}");
            pause(LOOK_EVERY);
        }
    }

    /// SIGTERM, and waits until the sidecar has ended with 0.
    pub fn leave(&mut self, name: &str) {
        self.sidecars[name].process.signal(Signal::Term);
        self.await_exit(name);
    }

    /// Waits until a sidecar that was told to end has ended with 0.
    ///
    /// # Panics
    /// When it does not.
    pub fn await_exit(&mut self, name: &str) {
        let mut sidecar = self.sidecars.remove(name).unwrap();
        let status = sidecar.process.wait(Duration::from_secs(60));
        assert!(status.success(), "{name} ended with {status}: {}", tail(&sidecar.process.output()));
    }

    /// SIGKILL, noted as a fault that may cost so many duplicates in each queue.
    pub fn kill_sidecar(&mut self, name: &str, duplicates: u64) {
        let sidecar = self.sidecars.remove(name).unwrap();
        self.strike(&format!("kill of {name}"), duplicates, 1, || drop(sidecar));
    }

    /// Notes a fault and what it may cost in each queue.
    pub fn fault(&mut self, name: &str, duplicates: u64, overlaps: u64) {
        self.strike(name, duplicates, overlaps, || ());
    }

    /// Breaks something, noted as a fault that lasts as long as that takes.
    pub fn strike<T>(&mut self, name: &str, duplicates: u64, overlaps: u64, breaks: impl FnOnce() -> T) -> T {
        let at = now_micros();
        self.note(Event::Fault { at, name: name.into(), queue: None, duplicates, overlaps });
        let broken = breaks();
        self.struck.push((at, now_micros()));
        broken
    }

    /// When each fault began and ended, in microseconds.
    pub fn struck(&self) -> &[(u64, u64)] {
        &self.struck
    }

    /// Notes another event.
    pub fn note(&mut self, event: Event) {
        self.history.push(event);
    }

    /// What the application saw so far.
    pub fn deliveries(&self) -> Vec<Delivery> {
        let mut log = self.log.borrow_mut();
        log.read();
        log.deliveries.clone()
    }

    /// Waits until a consumer has started so many requests after a moment.
    pub fn await_deliveries(&self, consumer: &str, since: u64, count: usize, limit: Duration) {
        let what = format!("{consumer} has delivered {count} messages");
        self.await_log(&what, limit, |deliveries| {
            deliveries.iter().filter(|one| &*one.consumer == consumer && one.start > since).count() >= count
        });
    }

    /// Waits until what the application saw satisfies a condition.
    pub fn await_log(&self, what: &str, limit: Duration, condition: impl Fn(&[Delivery]) -> bool) {
        wait_until(what, limit, || {
            pause(LOOK_EVERY);
            self.log.borrow_mut().read();
            condition(&self.log.borrow().deliveries)
        });
    }

    /// What the running sidecars say of themselves, and where the scenario's files lie: for a failure's words.
    pub fn state(&self) -> String {
        let states: Vec<String> =
            self.sidecars.values().map(|sidecar| sidecar.status().to_string()).collect();
        format!("{}\nlogs in {}", states.join("\n"), self.folder.display())
    }

    /// The whole history, with `others`, which are logs of other consumers and of the broker.
    pub fn take_history(&mut self, others: impl IntoIterator<Item = History>) -> History {
        let mut history = std::mem::take(&mut self.history);
        history.extend(self.app.history());
        others.into_iter().for_each(|other| history.extend(other));
        history
    }

    /// Judges a history and says what it amounts to.
    ///
    /// # Panics
    /// When a promise was broken.
    pub fn judge_history(&self, history: &History, rules: &Rules) -> Verdict {
        let verdict = check(history, rules);
        let file = self.folder.join("history.txt");
        fs::write(&file, history.to_string()).unwrap();
        assert!(verdict.is_clean(), "{verdict}\nthe history is in {}", file.display());
        verdict
    }
}

/// One request as the application saw it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The queue.
    pub queue: Arc<str>,
    /// The position.
    pub position: u64,
    /// Who sent it.
    pub consumer: Arc<str>,
    /// The attempt.
    pub attempt: u32,
    /// The ownership under which it was sent.
    pub epoch: Option<u64>,
    /// When it came.
    pub start: u64,
    /// When it ended.
    pub end: Option<u64>,
    /// Whether it was answered 2xx.
    pub done: bool,
}

/// The application's log as far as it was read, by start.
#[derive(Debug)]
struct Log {
    follower: Follower,
    deliveries: Vec<Delivery>,
    /// The index of each request that has not ended.
    open: BTreeMap<Arc<str>, usize>,
}

impl Log {
    fn read(&mut self) {
        for event in self.follower.read().events() {
            if let Event::Start { at, post, queue, position, attempt, consumer, epoch } = event {
                let one = Delivery {
                    queue: Arc::clone(queue),
                    position: *position,
                    consumer: Arc::clone(consumer),
                    attempt: *attempt,
                    epoch: *epoch,
                    start: *at,
                    end: None,
                    done: false,
                };
                self.open.insert(Arc::clone(post), self.deliveries.len());
                self.deliveries.push(one);
            } else if let Event::End { at, post, outcome } = event
                && let Some(index) = self.open.remove(post)
            {
                self.deliveries[index].end = Some(*at);
                self.deliveries[index].done = outcome.is_done();
            }
        }
    }
}

/// The queues from which a consumer has delivered.
pub fn owned<'a>(log: &'a [Delivery], consumer: &str) -> BTreeSet<&'a str> {
    log.iter().filter(|one| &*one.consumer == consumer).map(|one| &*one.queue).collect()
}

/// The longest time to the new owner's first request: from the signal for idle queues, and from the old owner's last
/// answer for busy ones. In microseconds.
///
/// # Panics
/// When a queue of the old owner was not delivered by the new one.
pub fn slowest_hand_over(log: &[Delivery], old: &str, new: &str, signal: u64) -> (u64, u64) {
    let mut last: BTreeMap<&str, &Delivery> = BTreeMap::new();
    for one in log.iter().filter(|one| one.start <= signal || &*one.consumer == old) {
        last.insert(&one.queue, one);
    }
    let (mut idle, mut busy) = (0, 0);
    for (queue, before) in last.into_iter().filter(|(_, one)| &*one.consumer == old) {
        let end = before.end.unwrap_or(before.start);
        let next = log.iter().find(|one| &*one.queue == queue && &*one.consumer == new && one.start >= end);
        let next = next.unwrap_or_else(|| panic!("{queue} was not delivered by {new}")).start;
        if end <= signal {
            idle = idle.max(next.saturating_sub(signal));
        } else {
            busy = busy.max(next - end);
        }
    }
    (idle, busy)
}

/// The last lines of an output.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
