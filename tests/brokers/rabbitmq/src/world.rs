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
    overlaps,
    proxy::Proxy,
    rabbitmq::{Counts, Declaration, KEY, Node, Outgoing},
    stage::{LOOK_EVERY, Stage},
    time::{now_micros, pause, wait_for, wait_until},
};

use crate::site::{Held, IDLE};
pub use crate::site::{Servers, Site};
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
    /// How they are declared; `None` as is right for the order.
    pub declaration: Option<&'static Declaration>,
    /// Whether the ordering key is the routing key instead of a header.
    pub native: bool,
    /// The virtual host instead of `/`.
    pub vhost: Option<&'static str>,
    /// Whether sidecars may ask the management API.
    pub management: bool,
    /// Further lines of `spec.source.rabbitmq`, indented by six blanks.
    pub source: String,
    /// Further lines of `spec.source`, indented by four blanks, and then of `spec`, by two.
    pub more: String,
}

impl Default for Setting {
    fn default() -> Self {
        let (source, more) = (String::new(), String::new());
        let (order, queues, declaration) = (Order::PerQueue, 1, None);
        Self { order, queues, declaration, native: false, vhost: None, management: true, source, more }
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
    /// What must be done by the end: queue and place.
    wanted: BTreeSet<(Arc<str>, u64)>,
}

impl<'a> World<'a> {
    /// Queues and an application that needs `work` for each message.
    pub fn new(site: &'a Site, name: &str, setting: Setting, work: Duration) -> Self {
        let world = Self::without_queues(site, name, setting, work);
        for queue in &world.queues {
            world.publisher.declare(queue, world.declaration());
            if world.setting.native {
                world.publisher.bind(queue, &format!("{queue}.#"));
            }
        }
        world
    }

    /// The same with queues that are not there yet.
    pub fn without_queues(site: &'a Site, name: &str, setting: Setting, work: Duration) -> Self {
        Self {
            site,
            stage: Stage::new(name, work),
            queues: (0..setting.queues).map(|number| format!("{name}-{number}")).collect(),
            publisher: site.node.clone().with_vhost(setting.vhost.unwrap_or("/")),
            addresses: BTreeMap::new(),
            setting,
            places: BTreeMap::new(),
            wanted: BTreeSet::new(),
        }
    }

    /// How the queues are declared.
    pub fn declaration(&self) -> &'static Declaration {
        let unordered: &Declaration = &[];
        let right = if self.setting.order == Order::Unordered { unordered } else { self.site.ordered };
        self.setting.declaration.unwrap_or(right)
    }

    /// Publishes `count` messages of 1 KB over all queues, each key always to one queue.
    pub fn publish(&mut self, count: usize, keys: usize) {
        let queues = self.queues.clone();
        let mut batches: Vec<Vec<Outgoing>> = vec![Vec::new(); queues.len()];
        for index in 0..count {
            let key = index % keys.max(queues.len());
            let body = format!("{{\"index\":{index},\"filler\":\"{}\"}}", "x".repeat(980)).into_bytes();
            batches[key % queues.len()]
                .push(Outgoing { key: Some(format!("key-{key}")), ..Outgoing::of(body) });
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
            let id = message.id.clone().or_else(|| Some(format!("{queue}-{next}")));
            let route =
                message.key.as_ref().filter(|_| self.setting.native).map(|key| format!("{queue}.{key}"));
            outgoing.push(Outgoing { place: Some(*next), id, route, ..message });
            places.push(*next);
            *next += 1;
        }
        self.publisher.publish(queue, &outgoing);
        let name: Arc<str> = queue.into();
        for (message, place) in outgoing.iter().zip(&places) {
            self.wanted.insert((Arc::clone(&name), *place));
            let key = message.key.as_deref().map(Arc::from);
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
        let proxy = Proxy::start(self.site.node.amqp(), 1);
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
        let node = vec![self.site.node.amqp().to_owned()];
        let addresses = self.addresses.get(name).unwrap_or(&node);
        let scheme = if self.setting.more.contains("tls:") { "amqps" } else { "amqp" };
        let urls: Vec<String> = addresses.iter().map(|address| format!("\"{scheme}://{address}\"")).collect();
        let mode = match self.setting.order {
            Order::PerQueue => "PerQueue",
            Order::PerKey => "PerKey",
            Order::Unordered => "Unordered",
        };
        let mut spec = String::from("  source:\n    rabbitmq:\n");
        writeln!(spec, "      urls: [{}]", urls.join(", ")).unwrap();
        writeln!(spec, "      queues: [{}]", self.queues.join(", ")).unwrap();
        if let Some(vhost) = self.setting.vhost {
            writeln!(spec, "      vhost: {vhost}").unwrap();
        }
        if self.setting.management {
            writeln!(spec, "      management: {{url: \"http://{}\"}}", self.site.node.management()).unwrap();
        }
        let header = format!("{{from: Header, header: {KEY}}}");
        let key = if self.setting.native { "{from: Native}" } else { &header };
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

    /// What the broker counts of the queues together, some moments ago. It counts a new queue some moments later.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for queue in &self.queues {
            let counts = wait_for("the broker counts a queue", IDLE, || self.publisher.counts(queue));
            sum.ready += counts.ready;
            sum.unacknowledged += counts.unacknowledged;
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
        let mut counts = Counts::default();
        wait_until("all is acknowledged", SETTLED, || {
            counts = self.counts();
            counts.ready == 0 && counts.unacknowledged == 0
        });
    }

    /// Waits until all is done, and until the broker has nothing of the sidecars twice: of each one connection, and of each
    /// queue one channel that consumes, or one of each sidecar where there is no order.
    pub fn await_quiet(&self, limit: Duration) {
        self.await_end(limit);
        let members = self.sidecars.len();
        let owners = if self.setting.order == Order::Unordered { members } else { 1 };
        let consumers = self.queues.len() * owners;
        self.site.await_held(Held { connections: members, channels: consumers, consumers });
    }

    /// Lets all sidecars leave, and waits until the broker shows nothing of them any more.
    pub fn leave_all(&mut self) {
        let names: Vec<String> = self.sidecars.keys().cloned().collect();
        names.iter().for_each(|name| self.leave(name));
        self.site.await_nobody();
        let ready: u64 = self.queues.iter().map(|queue| self.publisher.ready(queue)).sum();
        assert_eq!(ready, 0, "messages have gone back to their queue at the end");
        assert_eq!(self.site.strays(), 0, "the broker was told of deliveries that it did not know");
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
        // The broker shares an unordered queue out among its consumers.
        let order = self.setting.order;
        let rules = Rules { shared: order == Order::Unordered, gaps: true, ..Rules::new(order) };
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
