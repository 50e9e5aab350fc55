//! RabbitMQ as the conformance suite needs it: queues of their own for each check, on running servers.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use lockstep_broker::{
    Clock,
    conformance::{Harness, Source},
};
use lockstep_model::{Epoch, Message};
use lockstep_rabbitmq::{
    Config, CredentialsSource, DeadLetter, KeySource, Ordering as Order, PrefetchPlan, RabbitMq,
    amqp::{Credentials, Endpoint},
};
use lockstep_tests_support::{
    brokers::RabbitMqServers,
    proxy::Proxy,
    rabbitmq::{Declaration, KEY, Node, Outgoing, nested},
};
use tokio::{sync::watch, task::spawn_blocking};

use crate::world::Site;

/// As the servers ask for it too.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Deeper than anybody nests, and than any stack would bear that follows it by calls.
const DEEP: usize = 5_000;

/// Running servers.
#[derive(Debug)]
pub struct Servers<'a> {
    servers: &'a RabbitMqServers,
    node: &'a Node,
    declaration: &'static Declaration,
    made: AtomicU32,
}

impl<'a> Servers<'a> {
    /// The servers of a site.
    pub fn new(site: &'a Site) -> Self {
        let made = AtomicU32::new(0);
        Self { servers: &site.servers, node: &site.node, declaration: site.ordered, made }
    }
}

/// The queues of one check, with one for its dead letters.
#[derive(Debug)]
pub struct Queues<'a> {
    servers: &'a RabbitMqServers,
    node: Node,
    names: Vec<String>,
    dead_letters: String,
    clock: Clock,
    wires: Mutex<BTreeMap<String, Proxy>>,
    /// Nobody says which queues are whose: the broker does.
    hint: watch::Sender<Option<Vec<String>>>,
}

impl<'a> Harness for Servers<'a> {
    type Source = Queues<'a>;

    async fn source(&self, queues: usize) -> Queues<'a> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let source = Queues {
            servers: self.servers,
            node: self.node.clone(),
            names: (0..queues).map(|queue| format!("conformance-{number}-{queue}")).collect(),
            dead_letters: format!("conformance-{number}-dead"),
            clock: Clock::new(),
            wires: Mutex::default(),
            hint: watch::Sender::new(None),
        };
        let (node, names, dead) = (source.node.clone(), source.names.clone(), source.dead_letters.clone());
        let declaration = self.declaration;
        blocking(move || {
            names.iter().for_each(|name| node.declare(name, declaration));
            node.declare(&dead, &[]);
        })
        .await;
        source
    }
}

/// Runs what blocks beside what does not.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(work).await.expect("the test's own client must not fail")
}

impl Queues<'_> {
    fn with_wire(&self, client_id: &str, act: impl FnOnce(&Proxy)) -> bool {
        let wires = self.wires.lock().expect("no test panics meanwhile");
        wires.get(client_id).map(act).is_some()
    }

    fn config(&self, client_id: &str, address: &str) -> Config {
        let (host, port) = address.rsplit_once(':').expect("an address must have a port");
        let port = port.parse().expect("a port must be a number");
        Config {
            nodes: vec![Endpoint { host: host.to_owned(), port }],
            vhost: "/".to_owned(),
            queues: self.names.clone(),
            management: Some(format!("http://{}", self.node.management())),
            heartbeat: HEARTBEAT,
            acknowledgement_timeout: Duration::from_secs(1_800),
            assumed: false,
            ordering: Order::PerKey,
            prefetch: PrefetchPlan { buffer: 2_048, in_flight: 32, timeout: Duration::from_secs(5) },
            dead_letter: DeadLetter::Queue(self.dead_letters.clone()),
            block: true,
            key: KeySource::Header(KEY.into()),
            credentials: CredentialsSource::Fixed(Credentials::default()),
            tls: None,
            group: "conformance".to_owned(),
            name: format!("conformance {client_id}"),
            hint: self.hint.subscribe(),
            epoch_floor: Epoch(0),
            clock: self.clock,
            bytes: 64 << 20,
        }
    }

    async fn store(&self, queue: usize, message: Outgoing) {
        let (node, name) = (self.node.clone(), self.names[queue].clone());
        blocking(move || node.publish(&name, &[message])).await;
    }
}

impl Source for Queues<'_> {
    type Broker = RabbitMq;

    fn clock(&self) -> Clock {
        self.clock
    }

    async fn member(&self, client_id: &str) -> RabbitMq {
        let proxy = Proxy::start(self.node.amqp(), 1);
        let config = self.config(client_id, proxy.address());
        self.wires.lock().expect("no test panics meanwhile").insert(client_id.to_owned(), proxy);
        RabbitMq::new(config)
    }

    async fn cut(&self, client_id: &str) -> bool {
        self.with_wire(client_id, |proxy| proxy.cut(true))
    }

    async fn restore(&self, client_id: &str) {
        self.with_wire(client_id, Proxy::heal);
    }

    fn queue_name(&self, queue: usize) -> String {
        self.names[queue].clone()
    }

    async fn publish(&self, queue: usize, message: Message) {
        let headers = message.properties.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
        let key = message.key.as_deref().map(str::to_owned);
        let body = message.body.to_vec();
        self.store(queue, Outgoing { key, headers: headers.collect(), ..Outgoing::of(body) }).await;
    }

    async fn unsettled(&self, queue: usize) -> u64 {
        // What list_queues tells of a quorum queue is as old as its last tick; this asks the queue itself.
        let name = &self.names[queue];
        let expression = format!(
            "{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"{name}\">>)), \
             {{ok, N, _}} = ra:consistent_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_total/1), N."
        );
        let mut command = self.servers.ctl_command(&["eval", &expression]);
        let output = blocking(move || command.output()).await.expect("rabbitmqctl must run");
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        said.parse().unwrap_or_else(|_| panic!("rabbitmqctl must tell a number: {said}"))
    }

    async fn dead_letters(&self) -> Vec<Bytes> {
        let (node, name) = (self.node.clone(), self.dead_letters.clone());
        let taken = blocking(move || node.peek(&name, usize::MAX)).await;
        taken.into_iter().map(|one| one.body.into()).collect()
    }

    async fn publish_undecodable(&self, queue: usize, raw: Bytes) -> bool {
        let raw_headers = nested("deep", DEEP);
        self.store(queue, Outgoing { raw_headers, ..Outgoing::of(raw) }).await;
        true
    }

    async fn kill(&self, client_id: &str) {
        self.with_wire(client_id, |proxy| proxy.cut(true));
    }

    fn lease_life(&self) -> Option<Duration> {
        Some(HEARTBEAT * 2)
    }

    fn divides(&self) -> bool {
        false
    }
}
