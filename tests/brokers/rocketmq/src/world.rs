//! What the scenarios share: servers, an application, sidecars, and the history of it all.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use lockstep_history::{Event, History, Order, Rules, Verdict, check};
use lockstep_tests_support::{
    behaviour::{Act, Rule},
    brokers::{RocketMqOptions, RocketMqServers, new_folder},
    process::Signal,
    recording::{Follower, RecordingApp},
    rocketmq::{Cluster, Outgoing, queue_name},
    sidecar::{self, Sidecar, SidecarOptions},
    time::{now_micros, pause, wait_until},
};

/// Queues of a topic on each of the two brokers.
pub const QUEUES: u32 = 4;
/// The brokers.
pub const BROKERS: [&str; 2] = ["broker-a", "broker-b"];
/// How often the committed positions are looked at.
const COMMITS_EVERY: Duration = Duration::from_millis(200);
/// How often the application's log is looked at.
const LOG_EVERY: Duration = Duration::from_millis(50);
/// How long mqadmin may see a difference where all is committed.
const PROGRESS: Duration = Duration::from_secs(60);
/// How long `check --connect` may see the servers as they were before a change.
const CHECK: Duration = Duration::from_secs(30);
/// What a crash may cost in duplicates in a queue, as documented for `PerQueue`.
pub const CRASH_BOUND: u64 = 32;

/// Which servers a scenario wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Servers {
    version: &'static str,
    lock_seconds: u64,
    signed: bool,
    tls: bool,
}

impl Servers {
    /// 5.5.0 with locks that live long enough for Java members, who renew each 20 s.
    pub const JAVA: Self = Self { version: "5.5.0", lock_seconds: 24, signed: false, tls: false };
    /// 5.5.0 with locks that expire soon.
    pub const QUICK: Self = Self { version: "5.5.0", lock_seconds: 10, signed: false, tls: false };
    /// 4.9.7.
    pub const OLD: Self = Self { version: "4.9.7", lock_seconds: 10, signed: false, tls: false };
    /// 5.5.0 with access keys.
    pub const SIGNED: Self = Self { version: "5.5.0", lock_seconds: 10, signed: true, tls: false };
    /// 5.5.0 with TLS.
    pub const TLS: Self = Self { version: "5.5.0", lock_seconds: 10, signed: false, tls: true };

    /// Starts them.
    pub fn start(self) -> Site {
        let Self { version, lock_seconds, signed, tls } = self;
        let options = RocketMqOptions { version, lock_seconds, signed, tls, ..RocketMqOptions::default() };
        let servers = RocketMqServers::start(options);
        let cluster = Cluster::new(BROKERS.map(|name| (name.to_owned(), servers.broker(name))));
        Site { servers, cluster, lock_seconds }
    }
}

/// Running servers.
#[derive(Debug)]
pub struct Site {
    /// The servers.
    pub servers: RocketMqServers,
    /// A client of them.
    pub cluster: Cluster,
    /// How long a lock lives.
    pub lock_seconds: u64,
}

/// What a scenario's sidecars are told.
#[derive(Debug, Clone)]
pub struct Setting {
    /// `spec.ordering.mode`.
    pub order: Order,
    /// The subscription's tags; `None` means all messages.
    pub tags: Option<&'static str>,
    /// Further lines of `spec`, indented by two blanks.
    pub more: String,
}

impl Default for Setting {
    fn default() -> Self {
        Self { order: Order::PerQueue, tags: None, more: String::new() }
    }
}

/// A scenario's topic, group, application and sidecars.
#[derive(Debug)]
pub struct World<'a> {
    /// The servers.
    pub site: &'a Site,
    /// The scenario's files.
    pub folder: PathBuf,
    /// The topic.
    pub topic: String,
    /// The consumer group.
    pub group: String,
    /// The application.
    pub app: RecordingApp,
    /// The sidecars that were started and not ended, by name.
    pub sidecars: BTreeMap<String, Sidecar>,
    /// Replacements of broker addresses by name of the sidecar, for proxies.
    pub overrides: BTreeMap<String, BTreeMap<String, String>>,
    /// The name servers, in the order in which sidecars are told of them.
    pub name_servers: Vec<String>,
    /// Where sidecars POST to instead of the application.
    pub callback: Option<String>,
    /// The client id of all sidecars instead of their names.
    pub client_id: Option<String>,
    setting: Setting,
    history: History,
    /// The end of what was published to each queue, by broker and number: the broker's own figure may lag behind.
    ends: BTreeMap<(String, u32), u64>,
    log: RefCell<Log>,
    watch: Watch,
}

/// Looks at the committed positions all the time.
#[derive(Debug)]
struct Watch {
    seen: Arc<Mutex<Vec<Event>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(cluster: Cluster, group: String, topic: String) -> Self {
        let (seen, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (into, until) = (Arc::clone(&seen), Arc::clone(&over));
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                into.lock().unwrap().extend(cluster.commits(&group, &topic, QUEUES));
                thread::park_timeout(COMMITS_EVERY);
            }
        });
        Self { seen, over, thread: Some(thread) }
    }

    fn stop(&mut self) -> Vec<Event> {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().unwrap();
        }
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl<'a> World<'a> {
    /// A topic of 4 + 4 queues, a group and an application that needs `work` for each message.
    pub fn new(site: &'a Site, name: &str, setting: Setting, work: Duration) -> Self {
        let mut world = Self::without_topic(site, name, setting, work);
        site.cluster.create_topic(&world.topic, QUEUES);
        site.cluster.create_group(&world.group);
        world.watch = Watch::start(site.cluster.clone(), world.group.clone(), world.topic.clone());
        world
    }

    /// The same for servers that the plain client can't talk to.
    pub fn without_topic(site: &'a Site, name: &str, setting: Setting, work: Duration) -> Self {
        let folder = new_folder(name);
        let mut app = RecordingApp::start(&folder, "app");
        app.set_rules(vec![Rule::always(Act::Answer(200)).after(work)]);
        let log = Log { follower: Follower::new(app.log()), deliveries: Vec::new(), open: BTreeMap::new() };
        Self {
            site,
            folder,
            topic: format!("{name}-topic"),
            group: format!("{name}-group"),
            app,
            sidecars: BTreeMap::new(),
            overrides: BTreeMap::new(),
            name_servers: vec![site.servers.namesrv()],
            callback: None,
            client_id: None,
            setting,
            history: History::default(),
            ends: BTreeMap::new(),
            log: RefCell::new(log),
            watch: Watch { seen: Arc::default(), over: Arc::default(), thread: None },
        }
    }

    /// Publishes `count` messages of 1 KB over all queues, each key always to one queue. Messages with a tag other
    /// than `a` are no part of what must be delivered.
    pub fn publish(&mut self, count: usize, keys: usize, tag_of: fn(usize) -> &'static str) {
        self.publish_except(&[], count, keys, tag_of);
    }

    /// The same without some of the queues.
    pub fn publish_except(
        &mut self,
        without: &[(&str, u32)],
        count: usize,
        keys: usize,
        tag_of: fn(usize) -> &'static str,
    ) {
        let queues = BROKERS.iter().flat_map(|broker| (0..QUEUES).map(move |queue| (*broker, queue)));
        let queues: Vec<(&str, u32)> = queues.filter(|queue| !without.contains(queue)).collect();
        let mut batches: Vec<Vec<Outgoing>> = vec![Vec::new(); queues.len()];
        for index in 0..count {
            let key = index % keys.max(queues.len());
            let body = format!("{{\"index\":{index},\"filler\":\"{}\"}}", "x".repeat(980)).into_bytes();
            let message = Outgoing {
                body,
                key: Some(format!("key-{key}")),
                tag: Some(tag_of(index).to_owned()),
                ..Outgoing::default()
            };
            batches[key % queues.len()].push(message);
        }
        for ((broker, queue), batch) in queues.into_iter().zip(batches) {
            self.publish_to(broker, queue, &batch);
        }
    }

    /// Publishes to one queue, and notes what must be delivered.
    pub fn publish_to(&mut self, broker: &str, queue: u32, messages: &[Outgoing]) -> Vec<u64> {
        let positions = self.site.cluster.publish(&self.topic, broker, queue, messages);
        if let Some(last) = positions.iter().max() {
            let end = self.ends.entry((broker.to_owned(), queue)).or_default();
            *end = (*end).max(last + 1);
        }
        for (message, position) in messages.iter().zip(&positions) {
            let wanted = self.setting.tags.is_none_or(|tags| message.tag.as_deref() == Some(tags));
            if wanted {
                let queue = queue_name(&self.topic, broker, queue).into();
                let key = message.key.as_deref().map(Arc::from);
                self.history.push(Event::Published { queue, position: *position, key });
            }
        }
        positions
    }

    /// Starts a sidecar and waits until it is ready.
    pub fn join(&mut self, name: &str) {
        self.start(name);
        self.await_ready(name);
    }

    /// Starts a sidecar.
    pub fn start(&mut self, name: &str) {
        let sidecar = Sidecar::start(&self.folder, &self.options(name));
        self.sidecars.insert(name.to_owned(), sidecar);
    }

    /// Waits until `check --connect` ends as wanted for such a sidecar: servers learn of a change a moment later.
    pub fn await_check(&self, name: &str, wanted: impl Fn(Option<i32>, &str) -> bool) {
        let start = Instant::now();
        loop {
            let (code, said) = sidecar::check(&self.folder, &self.options(name));
            if wanted(code, &said) {
                return;
            }
            assert!(start.elapsed() < CHECK, "check --connect ended with {code:?}: {said}");
            pause(LOG_EVERY);
        }
    }

    fn options(&self, name: &str) -> SidecarOptions {
        SidecarOptions {
            name: name.to_owned(),
            spec: self.spec(name),
            client_id: self.client_id.clone().unwrap_or_else(|| name.to_owned()),
            callback: self.callback.clone().unwrap_or_else(|| self.app.url(name)),
            state: None,
            credentials: self.credentials(),
        }
    }

    /// Waits until a sidecar is ready.
    pub fn await_ready(&mut self, name: &str) {
        let sidecar = self.sidecars.get_mut(name).unwrap();
        wait_until(&format!("{name} is ready"), Duration::from_secs(30), || {
            assert!(sidecar.process.is_running(), "{name} ended: {}", tail(&sidecar.process.output()));
            sidecar.is_ready()
        });
    }

    /// The folder with secrets, where the servers want some.
    fn credentials(&self) -> Option<PathBuf> {
        let folder = self.folder.join("secrets");
        folder.is_dir().then_some(folder)
    }

    fn spec(&self, name: &str) -> String {
        let mut spec = String::from("  source:\n    rocketmq:\n");
        let order = match self.setting.order {
            Order::PerQueue => "PerQueue",
            Order::PerKey => "PerKey",
            Order::Unordered => "Unordered",
        };
        let tags = self.setting.tags.map_or(String::new(), |tags| format!(", tags: \"{tags}\""));
        let (topic, group, name_servers) = (&self.topic, &self.group, self.name_servers.join("\", \""));
        let lock = self.site.lock_seconds;
        writeln!(spec, "      nameServers: [\"{name_servers}\"]").unwrap();
        writeln!(spec, "      consumerGroup: \"{group}\"").unwrap();
        writeln!(spec, "      subscriptions: [{{topic: \"{topic}\"{tags}}}]").unwrap();
        writeln!(spec, "      startPosition: {{type: Earliest}}").unwrap();
        writeln!(spec, "      lockLifetimeSeconds: {lock}").unwrap();
        if let Some(overrides) = self.overrides.get(name) {
            let pairs: Vec<String> =
                overrides.iter().map(|(from, to)| format!("\"{from}\": \"{to}\"")).collect();
            writeln!(spec, "      addressOverrides: {{{}}}", pairs.join(", ")).unwrap();
        }
        spec + &self.setting.more + &format!("  ordering: {{mode: {order}}}\n")
    }

    /// SIGTERM, and waits until the sidecar has ended with 0.
    pub fn leave(&mut self, name: &str) {
        self.sidecars[name].process.signal(Signal::Term);
        self.await_exit(name);
    }

    /// Waits until a sidecar that was told to end has ended with 0.
    pub fn await_exit(&mut self, name: &str) {
        let mut sidecar = self.sidecars.remove(name).unwrap();
        let status = sidecar.process.wait(Duration::from_secs(60));
        assert!(status.success(), "{name} ended with {status}: {}", tail(&sidecar.process.output()));
    }

    /// SIGKILL, noted as a fault.
    pub fn kill(&mut self, name: &str) {
        self.fault(&format!("kill of {name}"), CRASH_BOUND, 1);
        drop(self.sidecars.remove(name).unwrap());
    }

    /// Notes a fault and what it may cost in each queue.
    pub fn fault(&mut self, name: &str, duplicates: u64, overlaps: u64) {
        self.history.push(Event::Fault {
            at: now_micros(),
            name: name.into(),
            queue: None,
            duplicates,
            overlaps,
        });
    }

    /// Notes a fault that takes back commits at a moment that nobody knows, and looks at none while it happens.
    pub fn unwatched_fault<T>(
        &mut self,
        name: &str,
        (duplicates, overlaps): (u64, u64),
        happens: impl FnOnce() -> T,
    ) -> T {
        let seen = Arc::clone(&self.watch.seen);
        let held = seen.lock().unwrap();
        self.fault(name, duplicates, overlaps);
        let outcome = happens();
        drop(held);
        outcome
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
            pause(LOG_EVERY);
            self.log.borrow_mut().read();
            condition(&self.log.borrow().deliveries)
        });
    }

    /// Waits until all is committed.
    pub fn await_end(&self, limit: Duration) {
        let cluster = &self.site.cluster;
        let mut open = String::new();
        let start = now_micros();
        let done = |broker: &&str, queue: u32| {
            let published = self.ends.get(&((*broker).to_owned(), queue)).copied().unwrap_or_default();
            let end = cluster.end_of(&self.topic, broker, queue).max(published);
            end == 0 || cluster.committed(&self.group, &self.topic, broker, queue) == Some(end)
        };
        while now_micros() - start < u64::try_from(limit.as_micros()).unwrap() {
            let queues = BROKERS.iter().flat_map(|broker| (0..QUEUES).map(move |queue| (broker, queue)));
            let left: Vec<_> = queues.filter(|(broker, queue)| !done(broker, *queue)).collect();
            if left.is_empty() {
                return;
            }
            open = format!("{left:?}");
            pause(LOG_EVERY);
        }
        let state: Vec<String> = self.sidecars.values().map(|sidecar| sidecar.status().to_string()).collect();
        panic!(
            "not all was committed within {limit:?}: {open}\n{}\nlogs in {}",
            state.join("\n"),
            self.folder.display()
        );
    }

    /// Ends the watch and gives the whole history; `others` are logs of other consumers.
    pub fn finish(&mut self, others: impl IntoIterator<Item = History>) -> History {
        let mut history = std::mem::take(&mut self.history);
        history.extend(self.app.history());
        history.extend(History::from(self.watch.stop()));
        others.into_iter().for_each(|other| history.extend(other));
        history
    }

    /// Judges the scenario's history and says what it amounts to.
    pub fn judge(&mut self, rules: &Rules, others: impl IntoIterator<Item = History>) -> Verdict {
        let history = self.finish(others);
        let verdict = check(&history, rules);
        let file = self.folder.join("history.txt");
        fs::write(&file, history.to_string()).unwrap();
        assert!(verdict.is_clean(), "{verdict}\nthe history is in {}", file.display());
        verdict
    }

    /// Waits until mqadmin sees no difference between what is there and what is committed, and gives its words.
    pub fn await_no_difference(&self) -> String {
        let start = Instant::now();
        loop {
            let said = self.site.servers.admin(&format!("consumerProgress -g {}\n", self.group));
            let line = said.lines().map(str::trim).find(|line| line.ends_with("Diff Total: 0"));
            if let Some(line) = line {
                return line.to_owned();
            }
            assert!(start.elapsed() < PROGRESS, "mqadmin sees a difference or nothing: {said}");
            pause(LOG_EVERY);
        }
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        self.watch.stop();
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
    /// When it came.
    pub start: u64,
    /// When it ended.
    pub end: Option<u64>,
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
            if let Event::Start { at, post, queue, position, attempt, consumer, .. } = event {
                let (queue, consumer) = (Arc::clone(queue), Arc::clone(consumer));
                let one = Delivery {
                    queue,
                    position: *position,
                    consumer,
                    attempt: *attempt,
                    start: *at,
                    end: None,
                };
                self.open.insert(Arc::clone(post), self.deliveries.len());
                self.deliveries.push(one);
            } else if let Event::End { at, post, .. } = event
                && let Some(index) = self.open.remove(post)
            {
                self.deliveries[index].end = Some(*at);
            }
        }
    }
}

/// The last lines of an output.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
