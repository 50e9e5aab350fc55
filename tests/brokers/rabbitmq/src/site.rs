//! Running servers, and what is asked of them as a whole.

use std::time::{Duration, Instant};

use lockstep_tests_support::{
    brokers::{RabbitMqOptions, RabbitMqServers},
    rabbitmq::{
        Argument::{self, Flag, Number, Text},
        Declaration, Node, ORDERED, ORDERED_WITHOUT_LIMIT,
    },
    stage::LOOK_EVERY,
    time::pause,
};

/// How long the broker may show what has ended.
pub const IDLE: Duration = Duration::from_secs(30);
/// Quorum queues that any number of members may consume.
const SHARED: &Declaration = &[("x-queue-type", Text("quorum"))];
const SHARED_WITHOUT_LIMIT: &Declaration =
    &[("x-queue-type", Text("quorum")), ("x-delivery-limit", Number(-1))];

/// An ordered queue that gives up what came more often than so many times, to that queue.
pub const fn limited(times: i64, dead: &'static str) -> [(&'static str, Argument); 5] {
    [
        ("x-queue-type", Text("quorum")),
        ("x-single-active-consumer", Flag(true)),
        ("x-delivery-limit", Number(times)),
        ("x-dead-letter-exchange", Text("")),
        ("x-dead-letter-routing-key", Text(dead)),
    ]
}

/// Which servers a scenario wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Servers {
    version: &'static str,
    nodes: &'static [&'static str],
    tls: bool,
}

impl Servers {
    /// One node of 3.10.
    pub const OLD: Self = Self { version: "3.10", nodes: &["r1"], tls: false };
    /// One node of 4.0.
    pub const NEW: Self = Self { version: "4.0", nodes: &["r1"], tls: false };
    /// Three nodes of 3.10.
    pub const CLUSTER: Self = Self { version: "3.10", nodes: &["r1", "r2", "r3"], tls: false };
    /// One node of 3.10 with TLS beside plain AMQP.
    pub const TLS: Self = Self { version: "3.10", nodes: &["r1"], tls: true };

    /// Starts them.
    pub fn start(self) -> Site {
        let Self { version, nodes, tls } = self;
        let options = RabbitMqOptions { version, nodes, tls, ..RabbitMqOptions::default() };
        let servers = RabbitMqServers::start(options);
        let node = servers.node(nodes[0]);
        let old = version == "3.10";
        let (ordered, shared) =
            if old { (ORDERED, SHARED) } else { (ORDERED_WITHOUT_LIMIT, SHARED_WITHOUT_LIMIT) };
        Site { servers, nodes, node, old, ordered, shared }
    }
}

/// Running servers.
#[derive(Debug)]
pub struct Site {
    /// The servers.
    pub servers: RabbitMqServers,
    /// A client of the first node.
    pub node: Node,
    /// Whether there is no delivery limit unless one is set, as before 4.0.
    pub old: bool,
    /// The right declaration of an ordered queue.
    pub ordered: &'static Declaration,
    /// That of a quorum queue for unordered groups.
    pub shared: &'static Declaration,
    nodes: &'static [&'static str],
}

/// What clients hold open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Connections.
    pub connections: usize,
    /// Channels.
    pub channels: usize,
    /// Consumers, also those that wait behind an active one.
    pub consumers: usize,
}

impl Site {
    /// Sets the broker's acknowledgement timeout for channels that are opened from now on.
    pub fn set_acknowledgement_timeout(&self, timeout: Duration) {
        let set = format!("application:set_env(rabbit, consumer_timeout, {}).", timeout.as_millis());
        self.servers.ctl(&["eval", &set]);
    }

    /// How often the broker has closed a channel since a message was not acknowledged in time.
    pub fn acknowledgement_timeouts(&self) -> usize {
        self.servers.log("r1").matches("delivery acknowledgement on channel").count()
    }

    /// How often a broker was told of a delivery that it did not know: one of another channel, or acknowledged before.
    pub fn strays(&self) -> usize {
        let of = |node: &&str| self.servers.log(node).matches("unknown delivery tag").count();
        self.nodes.iter().map(of).sum()
    }

    /// Creates or changes something by the management API.
    ///
    /// # Panics
    /// When it is refused.
    pub fn put(&self, path: &str, body: &str) {
        assert!(self.node.api("PUT", path, body).is_some(), "PUT {path} was refused");
    }

    /// What is open at this moment; the management API would tell it some seconds late.
    pub fn held(&self) -> Held {
        let lists = [
            "rabbit_networking:connections()",
            "rabbit_channel:list()",
            "[Some || Vhost <- rabbit_vhost:list_names(), Some <- rabbit_amqqueue:consumers_all(Vhost)]",
        ];
        let lengths = lists.map(|list| format!("length({list})")).join(", ");
        let said = self.servers.ctl(&["eval", &format!("{{{lengths}}}.")]);
        let tuple = said.lines().find(|line| line.starts_with('{')).unwrap_or_default();
        let numbers = tuple.split(|letter: char| !letter.is_ascii_digit());
        let numbers: Vec<usize> = numbers.filter_map(|part| part.parse().ok()).collect();
        let [connections, channels, consumers] = numbers[..] else {
            panic!("rabbitmqctl must tell three numbers: {said}");
        };
        Held { connections, channels, consumers }
    }

    /// Waits until just this is open.
    ///
    /// # Panics
    /// When it is not in time; what the broker has killed itself and still lists counts too.
    pub fn await_held(&self, wanted: Held) {
        let start = Instant::now();
        loop {
            let held = self.held();
            if held == wanted {
                return;
            }
            let names = || self.node.sessions().0;
            assert!(start.elapsed() < IDLE, "there should be {wanted:?}, not {held:?}: {:?}", names());
        }
    }

    /// Waits until nobody has anything open.
    pub fn await_nobody(&self) {
        let start = Instant::now();
        loop {
            let (connections, channels, consumers) = self.node.sessions();
            if connections.is_empty() && channels == 0 && consumers == 0 {
                return;
            }
            assert!(
                start.elapsed() < IDLE,
                "left over: connections {connections:?}, {channels} channels, {consumers} consumers"
            );
            pause(LOOK_EVERY);
        }
    }
}
