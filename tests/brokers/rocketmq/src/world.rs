//! What the scenarios share: servers, an application, sidecars, and the history of it all.

use std::{
    collections::BTreeMap,
    fmt::Write,
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use lockstep_history::{Event, History, Order, Rules, Verdict};
use lockstep_tests_support::{
    brokers::{RocketMqOptions, RocketMqServers},
    rocketmq::{Cluster, Outgoing, queue_name},
    stage::{LOOK_EVERY, Stage},
    time::{now_micros, pause},
};

pub use lockstep_tests_support::stage::Delivery;

/// Queues of a topic on each of the two brokers.
pub const QUEUES: u32 = 4;
/// The brokers.
pub const BROKERS: [&str; 2] = ["broker-a", "broker-b"];
/// How often the committed positions are looked at.
const COMMITS_EVERY: Duration = Duration::from_millis(200);
/// How long mqadmin may see a difference where all is committed.
const PROGRESS: Duration = Duration::from_secs(60);
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
    /// The application, the sidecars and the history.
    pub stage: Stage,
    /// The topic.
    pub topic: String,
    /// The consumer group.
    pub group: String,
    /// Replacements of broker addresses by name of the sidecar, for proxies.
    pub overrides: BTreeMap<String, BTreeMap<String, String>>,
    /// The name servers, in the order in which sidecars are told of them.
    pub name_servers: Vec<String>,
    setting: Setting,
    /// The end of what was published to each queue, by broker and number: the broker's own figure may lag behind.
    ends: BTreeMap<(String, u32), u64>,
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
        Self {
            site,
            stage: Stage::new(name, work),
            topic: format!("{name}-topic"),
            group: format!("{name}-group"),
            overrides: BTreeMap::new(),
            name_servers: vec![site.servers.namesrv()],
            setting,
            ends: BTreeMap::new(),
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
                self.note(Event::Published { queue, position: *position, key });
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
        let spec = self.spec(name);
        self.start_sidecar(name, spec);
    }

    /// Waits until `check --connect` ends as wanted for such a sidecar: servers learn of a change a moment later.
    pub fn await_check(&self, name: &str, wanted: impl Fn(Option<i32>, &str) -> bool) {
        self.await_checked(name, self.spec(name), wanted);
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

    /// SIGKILL, noted as a fault.
    pub fn kill(&mut self, name: &str) {
        self.kill_sidecar(name, CRASH_BOUND);
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
            pause(LOOK_EVERY);
        }
        panic!("not all was committed within {limit:?}: {open}\n{}", self.state());
    }

    /// Ends the watch, judges the scenario's history and says what it amounts to; `others` are logs of other consumers.
    pub fn judge(&mut self, rules: &Rules, others: impl IntoIterator<Item = History>) -> Verdict {
        let mut history = self.stage.take_history(others);
        history.extend(History::from(self.watch.stop()));
        self.stage.judge_history(&history, rules)
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
            pause(LOOK_EVERY);
        }
    }
}

impl Deref for World<'_> {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl DerefMut for World<'_> {
    fn deref_mut(&mut self) -> &mut Stage {
        &mut self.stage
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        self.watch.stop();
    }
}
