//! A scenario's group with queues of RabbitMQ, its history, and who has which queue.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use lockstep_contract::names::annotations;
use lockstep_history::{Anomaly, Event, Order, Rules, Verdict};
use lockstep_tests_support::{
    brokers::{RabbitMqOptions, RabbitMqServers},
    rabbitmq::{Node, ORDERED, Outgoing},
    time::{pause, wait_until},
};
use serde_json::{Value, json};

use crate::{
    api::paths,
    cluster::NODE,
    group::{Group, LOOK_EVERY, PATIENCE, Setting},
    site::Site,
};

/// Queues of a scenario.
pub const QUEUES: usize = 4;
/// How often the publisher gives each queue messages, and how many at a time: each time takes a connection a queue.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);
const AT_A_TIME: usize = 5;

/// The queues of each pod, by the pods' names; in the order of their names, and once for each time that a pod has it.
pub type Shares = BTreeMap<String, Vec<String>>;

/// A scenario's group, with servers and queues of its own.
#[derive(Debug)]
pub struct World<'a> {
    /// The group.
    pub group: Group<'a>,
    /// A client of the server.
    pub node: Node,
    /// The queues.
    pub queues: Vec<String>,
    /// How many messages each queue got.
    places: Arc<Mutex<Vec<u64>>>,
    servers: RabbitMqServers,
}

impl<'a> World<'a> {
    /// A new namespace, and a server with a user who may do what docs/rabbitmq.md says and no more, whose password a Secret
    /// holds.
    pub fn new(site: &'a Site, name: &str) -> Self {
        let servers = RabbitMqServers::start(RabbitMqOptions { bind: NODE, ..RabbitMqOptions::default() });
        let node = servers.node("r1");
        let queues: Vec<String> = (0..QUEUES).map(|number| format!("{name}-{number}")).collect();
        queues.iter().for_each(|queue| node.declare(queue, ORDERED));
        let may = json!({"configure": "^$", "write": "^amq\\.default$", "read": format!("^{name}-[0-9]+$")});
        for (path, body) in [
            ("/users/shop", json!({"password": "shop-secret", "tags": "management"})),
            ("/permissions/%2F/shop", may),
        ] {
            assert!(node.api("PUT", path, &body.to_string()).is_some(), "the server refuses {path}");
        }
        let group = Group::new(site, name, name.to_owned());
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "broker"},
            "stringData": {"username": "shop", "password": "shop-secret"},
        });
        site.api.create(&paths::core(name, "secrets"), &secret);
        Self { group, node, queues, places: Arc::new(Mutex::new(vec![0; QUEUES])), servers }
    }

    /// Applies the group.
    pub fn apply(&self, setting: &Setting) {
        let source = format!(
            "    rabbitmq:
      urls: [\"amqp://{}\"]
      queues: [{}]
      management: {{url: \"http://{}\"}}
{}    credentialsSecretRef: {{name: broker}}
",
            self.node.amqp(),
            self.queues.join(", "),
            self.node.management(),
            setting.source
        );
        self.apply_source(setting, &source);
    }

    /// Publishes to all queues until it is stopped.
    pub fn publish_on(&mut self) {
        let (node, queues, places, events) =
            (self.node.clone(), self.queues.clone(), Arc::clone(&self.places), self.events());
        self.publish_by(PUBLISH_EVERY, move || {
            for (index, queue) in queues.iter().enumerate() {
                publish(&node, queue, &mut places.lock().unwrap()[index], &events);
            }
        });
    }

    /// Waits until annotations, sidecars and the broker agree who has which queue, each queue has one pod, and no pod has
    /// more than one queue more than another.
    ///
    /// # Panics
    /// When it does not come to this; the sentence holds what each of them says.
    pub fn await_shared(&self) -> Shares {
        let since = Instant::now();
        loop {
            let pods = self.pods();
            let views = [assigned(&pods), self.owned(&pods), self.consumed(&pods)];
            let [assigned, owned, consumed] = &views;
            if assigned == owned && owned == consumed && self.is_even(owned) {
                return owned.clone();
            }
            assert!(
                since.elapsed() < PATIENCE,
                "the queues are not shared evenly; annotations, sidecars and the broker say: {views:#?}"
            );
            pause(LOOK_EVERY);
        }
    }

    fn is_even(&self, shares: &Shares) -> bool {
        let mut all: Vec<&String> = shares.values().flatten().collect();
        all.sort();
        let lengths = || shares.values().map(Vec::len);
        all.into_iter().eq(&self.queues) && lengths().max() <= lengths().min().map(|least| least + 1)
    }

    /// What the pods' sidecars own.
    fn owned(&self, pods: &[Value]) -> Shares {
        let of = |pod: &Value| {
            let queues = self.sidecar_status(pod)["queues"].as_array().cloned().unwrap_or_default();
            names(queues.iter().filter(|queue| queue["state"] == "Owned").map(|queue| &queue["name"]))
        };
        pods.iter().map(|pod| (name(pod), of(pod))).collect()
    }

    /// The server's consumers. One that is not the active one, or is at no pod, has a line of its own.
    fn consumed(&self, pods: &[Value]) -> Shares {
        let mut shares: Shares = pods.iter().map(|pod| (name(pod), Vec::new())).collect();
        let consumers = self.node.api("GET", "/consumers", "");
        for consumer in consumers.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let peer = &consumer["channel_details"]["peer_host"];
            let pod = pods.iter().find(|pod| pod["status"]["podIP"] == *peer);
            let who = pod.filter(|_| consumer["active"] == true).map_or_else(|| consumer.to_string(), name);
            shares.entry(who).or_default().extend(names([&consumer["queue"]["name"]]));
        }
        shares.values_mut().for_each(|queues| queues.sort());
        shares
    }

    /// How often what was done has been sent again so far.
    pub fn duplicates(&self) -> u64 {
        self.history(&rules()).1.counts.duplicates
    }

    /// Ends the scenario: all must be delivered and acknowledged, in order, and duplicates only where a fault was noted.
    ///
    /// # Panics
    /// When it is not so.
    pub fn judge(&mut self) -> Verdict {
        self.stop_publishing();
        wait_until("all is delivered", PATIENCE, || {
            pause(LOOK_EVERY);
            self.history(&rules()).1.count(Anomaly::Loss) == 0
        });
        wait_until("all is acknowledged", PATIENCE, || {
            pause(LOOK_EVERY);
            let nothing = |queue| {
                self.node.counts(queue).is_some_and(|counts| counts.ready + counts.unacknowledged == 0)
            };
            self.queues.iter().all(|queue| nothing(queue))
        });
        self.judge_history(&rules())
    }

    /// Waits until the server shows nothing of the group any more.
    ///
    /// # Panics
    /// When something is left over: a connection, a message, or the server's word that it was told of a delivery that it did
    /// not know.
    pub fn await_nobody(&self) {
        let since = Instant::now();
        loop {
            let (connections, channels, consumers) = self.node.sessions();
            if connections.is_empty() && channels == 0 && consumers == 0 {
                break;
            }
            assert!(
                since.elapsed() < PATIENCE,
                "left over: connections {connections:?}, {channels} channels, {consumers} consumers"
            );
            pause(LOOK_EVERY);
        }
        let ready: Vec<u64> = self.queues.iter().map(|queue| self.node.ready(queue)).collect();
        assert_eq!(ready, [0; QUEUES], "messages have gone back to their queues");
        let strays = self.servers.log("r1").matches("unknown delivery tag").count();
        assert_eq!(strays, 0, "the server was told of deliveries that it did not know");
    }
}

impl<'a> Deref for World<'a> {
    type Target = Group<'a>;

    fn deref(&self) -> &Group<'a> {
        &self.group
    }
}

impl DerefMut for World<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.group
    }
}

/// What the pods' annotations say; a pod without one has nothing.
fn assigned(pods: &[Value]) -> Shares {
    let of = |pod: &Value| {
        let text = pod["metadata"]["annotations"][annotations::ASSIGNMENT].as_str().unwrap_or("[]");
        let queues: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        names(queues.as_array().unwrap_or_else(|| panic!("no list: {text}")))
    };
    pods.iter().map(|pod| (name(pod), of(pod))).collect()
}

/// Rewinds may leave out what is done.
fn rules() -> Rules {
    Rules { gaps: true, ..Rules::new(Order::PerQueue) }
}

/// A pod's name.
fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap().to_owned()
}

fn names<'a>(queues: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let mut names: Vec<String> =
        queues.into_iter().map(|queue| queue.as_str().unwrap_or_default().to_owned()).collect();
    names.sort();
    names
}

fn publish(node: &Node, queue: &str, place: &mut u64, events: &Mutex<Vec<Event>>) {
    let places: Vec<u64> = (*place..).take(AT_A_TIME).collect();
    let message = |place: &u64| Outgoing {
        place: Some(*place),
        id: Some(format!("{queue}-{place}")),
        ..Outgoing::of([b'x'; 200])
    };
    node.publish(queue, &places.iter().map(message).collect::<Vec<_>>());
    *place += AT_A_TIME as u64;
    let name: Arc<str> = queue.into();
    let published =
        places.into_iter().map(|position| Event::Published { queue: Arc::clone(&name), position, key: None });
    events.lock().unwrap().extend(published);
}
