//! ActiveMQ as the conformance suite needs it: queues of their own for each check, on a running broker.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use lockstep_activemq::{
    ActiveMq, Config, CredentialsSource, Endpoint, KeySource, Mode, Ordering as Order, PrefetchPlan, Queue,
};
use lockstep_broker::{
    Clock,
    conformance::{Harness, Source},
};
use lockstep_model::{Epoch, Message};
use lockstep_tests_support::{
    activemq::{Node, Outgoing, Taken},
    proxy::Proxy,
};
use tokio::{sync::watch, task::spawn_blocking};

use crate::site::Site;

/// The property that says which check a message is of: where all dead letters of a broker are in one queue.
const CHECK: &str = "check";

/// A running broker.
#[derive(Debug)]
pub struct Servers<'a> {
    site: &'a Site,
    made: AtomicU32,
}

impl<'a> Servers<'a> {
    /// The broker of a site.
    pub fn new(site: &'a Site) -> Self {
        Self { site, made: AtomicU32::new(0) }
    }
}

/// The queues of one check.
#[derive(Debug)]
pub struct Queues<'a> {
    site: &'a Site,
    number: u32,
    names: Vec<String>,
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
            site: self.site,
            number,
            // What comes back gets its place again.
            names: (0..queues).map(|queue| format!("strict.conformance-{number}-{queue}")).collect(),
            clock: Clock::new(),
            wires: Mutex::default(),
            hint: watch::Sender::new(None),
        };
        let (node, names) = (self.site.node.clone(), source.names.clone());
        blocking(move || names.iter().for_each(|name| node.create(name))).await;
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
        let queue = |name: &String| Queue { name: name.clone(), selector: None };
        Config {
            nodes: vec![Endpoint { host: host.to_owned(), port, tls: false }],
            queues: self.names.iter().map(queue).collect(),
            mode: Mode::Pull,
            ordering: Order::PerKey,
            prefetch: PrefetchPlan { buffer: 2_048, in_flight: 32, timeout: Duration::from_secs(5) },
            block: true,
            key: KeySource::Native,
            credentials: CredentialsSource::None,
            tls: None,
            group: "conformance".to_owned(),
            name: format!("conformance {client_id}"),
            hint: self.hint.subscribe(),
            epoch_floor: Epoch(0),
            clock: self.clock,
            inactivity: self.site.inactivity,
            max_frame: 100 << 20,
            bytes: 64 << 20,
        }
    }

    async fn store(&self, queue: usize, mut message: Outgoing) {
        message.properties.push((CHECK.to_owned(), self.number.to_string()));
        let (node, name) = (self.site.node.clone(), self.names[queue].clone());
        blocking(move || node.publish(&name, &[message])).await;
    }

    /// Does something with a client that blocks.
    async fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&Node) -> T + Send + 'static) -> T {
        let node = self.site.node.clone();
        blocking(move || ask(&node)).await
    }
}

impl Source for Queues<'_> {
    type Broker = ActiveMq;

    fn clock(&self) -> Clock {
        self.clock
    }

    async fn member(&self, client_id: &str) -> ActiveMq {
        let proxy = Proxy::start(self.site.node.openwire(), 1);
        let config = self.config(client_id, proxy.address());
        self.wires.lock().expect("no test panics meanwhile").insert(client_id.to_owned(), proxy);
        ActiveMq::new(config)
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
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec()).expect("the suite's properties must be texts here")
        };
        let properties = message.properties.iter().map(|(name, value)| (text(name), text(value))).collect();
        let group = message.key.as_deref().map(str::to_owned);
        self.store(queue, Outgoing { group, properties, ..Outgoing::of(message.body.to_vec()) }).await;
    }

    async fn unsettled(&self, queue: usize) -> u64 {
        let name = self.names[queue].clone();
        self.ask(move |node| node.counts(&name)).await.expect("the broker must count its queue").unsettled
    }

    async fn dead_letters(&self) -> Vec<Bytes> {
        let queues: BTreeSet<String> =
            self.names.iter().map(|name| self.site.dead_letters_of(name)).collect();
        let taken: Vec<Taken> =
            self.ask(move |node| queues.iter().flat_map(|queue| node.browse(queue)).collect()).await;
        let number = self.number.to_string();
        let ours = taken.into_iter().filter(|one| one.property(CHECK).as_deref() == Some(&number));
        ours.map(|one| one.content.into()).collect()
    }

    /// Said to be compressed, which it is not. Artemis takes messages apart itself, and refuses such.
    async fn publish_undecodable(&self, queue: usize, raw: Bytes) -> bool {
        if self.site.node.is_artemis() {
            return false;
        }
        self.store(queue, Outgoing { compressed: true, ..Outgoing::of(raw) }).await;
        true
    }

    /// All properties of OpenWire are texts. Artemis reads those of others as plain UTF-8, which makes two signs for what can't be
    /// read of NUL, and of what is beyond 16 bits (seen on 2.40.0).
    fn properties(&self) -> Vec<(&'static [u8], &'static [u8])> {
        let mut texts: Vec<(&[u8], &[u8])> = vec![
            (b"plain", b"value"),
            (b"line", b"a\r\nb: c"),
            (b"latin", "\u{e9}".as_bytes()),
            (b"empty", b""),
        ];
        if !self.site.node.is_artemis() {
            texts.extend([(&b"nul"[..], &b"a\0b"[..]), (b"beyond", "\u{1f600}".as_bytes())]);
        }
        texts
    }

    async fn kill(&self, client_id: &str) {
        self.with_wire(client_id, |proxy| proxy.cut(true));
    }

    fn lease_life(&self) -> Option<Duration> {
        Some(self.site.inactivity * 2)
    }

    fn divides(&self) -> bool {
        false
    }
}
