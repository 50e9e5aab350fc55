//! What the scenarios share: queues, and the stage with their application, sidecars and history.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::{Duration, Instant},
};

use lockstep_history::{Event, History, Order, Rules, Verdict};
use lockstep_tests_support::{
    activemq::{Counts, KEY, Node, Outgoing},
    overlaps,
    proxy::Proxy,
    stage::{LOOK_EVERY, Stage},
    time::{now_micros, pause, wait_for, wait_until},
};

use crate::site::IDLE;
pub use crate::site::Site;
pub use lockstep_tests_support::stage::Delivery;

/// How long the acknowledgement of the last message may take.
const SETTLED: Duration = Duration::from_secs(30);

/// What a scenario's sidecars are told.
#[derive(Debug, Clone)]
pub struct Setting {
    /// `spec.ordering.mode`.
    pub order: Order,
    /// How many queues there are.
    pub queues: usize,
    /// What their names begin with: the broker has rules for some.
    pub prefix: &'static str,
    /// Whether the ordering key is a property instead of the message group.
    pub by_property: bool,
    /// Further lines of `spec.source.activemq`, indented by six blanks.
    pub source: String,
    /// Further lines of `spec.source`, indented by four blanks, and then of `spec`, by two.
    pub more: String,
}

impl Default for Setting {
    fn default() -> Self {
        let (source, more) = (String::new(), String::new());
        let (order, queues, prefix) = (Order::PerQueue, 1, "");
        Self { order, queues, prefix, by_property: false, source, more }
    }
}

/// A scenario's queues, application and sidecars.
#[derive(Debug)]
pub struct World<'a> {
    /// The servers.
    pub site: &'a Site,
    /// The application, the sidecars and the history.
    pub stage: Stage,
    /// The queues.
    pub queues: Vec<String>,
    /// Who publishes.
    pub publisher: Node,
    /// The addresses that a sidecar is told, by its name, where they are not the first node's.
    pub addresses: BTreeMap<String, Vec<String>>,
    /// What its sidecars are told.
    pub setting: Setting,
    /// How many messages each queue got.
    places: BTreeMap<String, u64>,
    /// How many dead letters there were of each queue, or of all of them, before there was anything in it.
    dead: BTreeMap<String, u64>,
    /// What must be done by the end: queue and place.
    wanted: BTreeSet<(Arc<str>, u64)>,
}

impl<'a> World<'a> {
    /// Queues and an application that needs `work` for each message.
    pub fn new(site: &'a Site, name: &str, setting: Setting, work: Duration) -> Self {
        let prefix = setting.prefix;
        let mut world = Self {
            site,
            stage: Stage::new(name, work),
            queues: (0..setting.queues).map(|number| format!("{prefix}{name}-{number}")).collect(),
            publisher: site.node.clone(),
            addresses: BTreeMap::new(),
            setting,
            places: BTreeMap::new(),
            dead: BTreeMap::new(),
            wanted: BTreeSet::new(),
        };
        world.queues.iter().for_each(|queue| world.publisher.create(queue));
        world.dead = world.queues.iter().map(|queue| (queue.clone(), site.dead_letters(queue))).collect();
        world
    }

    /// How many dead letters of a queue have come since its beginning. Artemis has one place for those of all queues, and what
    /// an earlier scenario left there is still there.
    pub fn new_dead_letters(&self, queue: &str) -> u64 {
        self.site.dead_letters(queue) - self.dead.get(queue).copied().unwrap_or_default()
    }

    /// Publishes `count` messages of 1 KB over all queues, each key always to one queue.
    pub fn publish(&mut self, count: usize, keys: usize) {
        let queues = self.queues.clone();
        let mut batches: Vec<Vec<Outgoing>> = vec![Vec::new(); queues.len()];
        for index in 0..count {
            let key = index % keys.max(queues.len());
            let body = format!("{{\"index\":{index},\"filler\":\"{}\"}}", "x".repeat(980)).into_bytes();
            let key_text = Some(format!("key-{key}"));
            let outgoing = Outgoing::of(body);
            batches[key % queues.len()].push(if self.setting.by_property {
                Outgoing { key: key_text, ..outgoing }
            } else {
                Outgoing { group: key_text, ..outgoing }
            });
        }
        for (queue, batch) in queues.iter().zip(batches) {
            self.publish_to(queue, batch);
        }
    }

    /// Publishes to one queue, and notes what must be delivered. Their places.
    pub fn publish_to(&mut self, queue: &str, messages: Vec<Outgoing>) -> Vec<u64> {
        let next = self.places.entry(queue.to_owned()).or_default();
        let (mut places, mut outgoing) = (Vec::new(), Vec::new());
        for message in messages {
            outgoing.push(Outgoing { place: Some(*next), ..message });
            places.push(*next);
            *next += 1;
        }
        self.publisher.publish(queue, &outgoing);
        let name: Arc<str> = queue.into();
        for (message, place) in outgoing.iter().zip(&places) {
            self.wanted.insert((Arc::clone(&name), *place));
            let key = message.key.as_deref().or(message.group.as_deref()).map(Arc::from);
            self.note(Event::Published { queue: Arc::clone(&name), position: *place, key });
        }
        places
    }

    /// Publishes bodies to the first queue.
    pub fn publish_bodies<const N: usize>(&mut self, bodies: [&str; N]) -> Vec<u64> {
        let queue = self.queues[0].clone();
        self.publish_to(&queue, bodies.map(Outgoing::of).into())
    }

    /// A message got a final verdict other than a 2xx.
    pub fn excuse(&mut self, queue: &str, place: u64, how: lockstep_history::How) {
        let queue: Arc<str> = queue.into();
        self.wanted.remove(&(Arc::clone(&queue), place));
        self.note(Event::Final { at: now_micros(), queue, position: place, how });
    }

    /// Puts a proxy between a sidecar and the first node.
    pub fn through_proxy(&mut self, name: &str) -> Proxy {
        let proxy = Proxy::start(self.site.node.openwire(), 1);
        self.addresses.insert(name.to_owned(), vec![proxy.address().to_owned()]);
        proxy
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

    /// Waits until `check --connect` ends as wanted for such a sidecar.
    pub fn await_check(&self, name: &str, wanted: impl Fn(Option<i32>, &str) -> bool) {
        self.await_checked(name, self.spec(name), wanted);
    }

    fn spec(&self, name: &str) -> String {
        let node = vec![self.site.node.openwire().to_owned()];
        let addresses = self.addresses.get(name).unwrap_or(&node);
        let urls: Vec<String> = addresses.iter().map(|address| format!("\"tcp://{address}\"")).collect();
        let mode = match self.setting.order {
            Order::PerQueue => "PerQueue",
            Order::PerKey => "PerKey",
            Order::Unordered => "Unordered",
        };
        let mut spec = String::from("  source:\n    activemq:\n");
        writeln!(spec, "      urls: [{}]", urls.join(", ")).unwrap();
        writeln!(spec, "      queues: [{}]", self.queues.join(", ")).unwrap();
        let property = format!("{{from: Header, header: {KEY}}}");
        let key = if self.setting.by_property { &property } else { "{from: Native}" };
        spec + &self.setting.source
            + &self.setting.more
            + &format!("  ordering: {{mode: {mode}, key: {key}}}\n")
    }

    /// A sidecar's word on its source: `reason`, `remedy` and all.
    pub fn source_of(&self, name: &str) -> serde_json::Value {
        self.sidecars[name].status()["source"].take()
    }

    /// Waits until a sidecar gives this reason for its source, and gives all that it says.
    pub fn await_reason(&self, name: &str, reason: &str) -> String {
        let mut source = serde_json::Value::Null;
        let start = Instant::now();
        while source["reason"] != reason {
            assert!(start.elapsed() < IDLE, "waited for {reason}: {source}\n{}", self.state());
            pause(LOOK_EVERY);
            source = self.source_of(name);
        }
        source.to_string().replace('\\', "")
    }

    /// What the broker counts of the queues together.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for queue in &self.queues {
            let counts = wait_for("the broker counts a queue", IDLE, || self.publisher.counts(queue));
            sum.unsettled += counts.unsettled;
            sum.in_flight += counts.in_flight;
            sum.consumers += counts.consumers;
        }
        sum
    }

    /// What is neither done nor has another final verdict.
    fn left(&self) -> BTreeSet<(Arc<str>, u64)> {
        let mut left = self.wanted.clone();
        for one in self.deliveries().iter().filter(|one| one.done) {
            left.remove(&(Arc::clone(&one.queue), one.position));
        }
        left
    }

    /// Waits until all is done, and acknowledged as the broker sees it.
    pub fn await_end(&self, limit: Duration) {
        let start = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                break;
            }
            let some: Vec<_> = left.iter().take(3).collect();
            assert!(
                start.elapsed() < limit,
                "not done within {limit:?}: {} messages, {some:?}\n{:?}\n{}",
                left.len(),
                self.counts(),
                self.state()
            );
            // The more there is to do, the dearer is a look and the longer it takes anyway.
            let thousands = u32::try_from(left.len() / 1_000).unwrap().min(100);
            pause(LOOK_EVERY * (1 + thousands));
        }
        wait_until("all is acknowledged", SETTLED, || self.counts().unsettled == 0);
    }

    /// Waits until all is done, and until the broker has nothing of the sidecars twice: of each one connection, and of each
    /// queue one consumer.
    pub fn await_quiet(&self, limit: Duration) {
        self.await_end(limit);
        self.site.await_connections(self.sidecars.len());
        let wanted = u64::try_from(self.queues.len()).unwrap();
        wait_until("each queue has one consumer", IDLE, || self.counts().consumers == wanted);
    }

    /// Lets all sidecars leave, and waits until the broker shows nothing of them any more.
    pub fn leave_all(&mut self) {
        let names: Vec<String> = self.sidecars.keys().cloned().collect();
        names.iter().for_each(|name| self.leave(name));
        self.site.await_connections(0);
        let counts = self.counts();
        assert_eq!(counts, Counts::default(), "messages have gone back to their queue at the end");
    }

    /// Ends a scenario: all is done and acknowledged, all have left, and the history is clean.
    pub fn finish(&mut self, limit: Duration) -> Verdict {
        self.await_end(limit);
        self.leave_all();
        self.judge()
    }

    /// Judges the history and says what it amounts to.
    pub fn judge(&mut self) -> Verdict {
        let history: History = self.stage.take_history([]);
        let order = self.setting.order;
        let rules = Rules { gaps: true, ..Rules::new(order) };
        let verdict = self.stage.judge_history(&history, &rules);
        let beside = overlaps::unexplained(&history, order, self.struck());
        assert!(beside.is_empty(), "without being under way at a fault: {beside:#?}\n{}", self.state());
        verdict
    }

    /// The newest ownership of each queue under which something was delivered.
    pub fn epochs(&self) -> BTreeMap<Arc<str>, u64> {
        let mut newest: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for one in self.deliveries() {
            let newest = newest.entry(one.queue).or_default();
            *newest = (*newest).max(one.epoch.unwrap_or_default());
        }
        newest
    }

    /// When each queue was first delivered from, of those deliveries that count, at the latest; in microseconds after
    /// `since`.
    pub fn await_resumption(&self, since: u64, counts: impl Fn(&Delivery) -> bool) -> u64 {
        let queues = self.queues.len();
        let first = |log: &[Delivery]| -> BTreeMap<Arc<str>, u64> {
            let mut first = BTreeMap::new();
            for one in log.iter().filter(|one| counts(one)) {
                let after = one.start.saturating_sub(since);
                first.entry(Arc::clone(&one.queue)).or_insert(after);
            }
            first
        };
        self.await_log("all queues go on", Duration::from_secs(60), |log| first(log).len() == queues);
        first(&self.deliveries()).into_values().max().unwrap_or_default()
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
