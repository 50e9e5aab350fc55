//! RocketMQ as the conformance suite needs it: a topic and a group of their own for each check, on running servers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use lockstep_broker::{
    Broker, Clock, LeaseEvent, LeaseKeeper,
    conformance::{Harness, Source},
};
use lockstep_model::{Capabilities, Epoch, Message, QueueId};
use lockstep_rocketmq::{
    Config, Filter, KeySource, RocketKeeper, RocketMq, RocketReader, RocketSettler, StartPosition,
    Subscription,
    codec::{Command, Entry, StoredMessages, sys_flag, write_properties},
    protocol::{
        CreateGroup, CreateTopic, GroupConfig, MaxOffset, MinOffset, Pull, QueryOffset, Request,
        ResponseCode, RouteRequest, SendMessage, SendReply,
    },
    remoting::{Remoting, RemotingConfig},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{Instant, sleep},
};

/// How long one question to a server may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a new topic may take to reach the name server.
const REGISTERED: Duration = Duration::from_secs(30);
/// How long a stored message may take to reach its queue's index.
const INDEXED: Duration = Duration::from_secs(30);

/// Running servers: one name server, one broker.
#[derive(Debug)]
pub struct Servers {
    name_server: String,
    broker: String,
    broker_name: String,
    lock_life: Duration,
    made: AtomicU32,
}

impl Servers {
    /// Servers at these addresses; the broker keeps an unrenewed lock as long as `lock_life`.
    pub fn new(name_server: String, broker: String, broker_name: &str, lock_life: Duration) -> Self {
        Self { name_server, broker, broker_name: broker_name.to_owned(), lock_life, made: AtomicU32::new(0) }
    }
}

/// One topic with a group.
#[derive(Debug)]
pub struct Topic {
    name_server: String,
    broker: String,
    broker_name: String,
    lock_life: Duration,
    topic: Arc<str>,
    group: Arc<str>,
    clock: Clock,
    remoting: Remoting,
    wires: Mutex<BTreeMap<String, Wire>>,
}

/// A member's way to the broker, which can be cut.
#[derive(Debug)]
struct Wire {
    address: String,
    connected: watch::Sender<bool>,
}

impl Wire {
    async fn to(broker: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port must be there");
        let address = listener.local_addr().expect("a bound socket must have an address").to_string();
        let (connected, state) = watch::channel(true);
        tokio::spawn(async move {
            // Ends with the source, which holds the other end.
            while let Ok((mut ours, _)) = listener.accept().await {
                let (broker, mut state) = (broker.clone(), state.clone());
                tokio::spawn(async move {
                    let Ok(mut theirs) = TcpStream::connect(broker).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut ours, &mut theirs) => {}
                        _ = state.wait_for(|connected| !connected) => {}
                    }
                });
            }
        });
        Self { address, connected }
    }
}

impl Harness for Servers {
    type Source = Topic;

    async fn source(&self, queues: usize) -> Topic {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let topic = format!("conformance-{}-{number}", std::process::id());
        let group = format!("{topic}-group");
        let (remoting, _) = Remoting::new(RemotingConfig::default());
        let source = Topic {
            name_server: self.name_server.clone(),
            broker: self.broker.clone(),
            broker_name: self.broker_name.clone(),
            lock_life: self.lock_life,
            topic: Arc::from(topic.as_str()),
            group: Arc::from(group.as_str()),
            clock: Clock::new(),
            remoting,
            wires: Mutex::default(),
        };
        let queues = i32::try_from(queues).expect("queues must be few");
        source.ask(&CreateTopic { topic: topic.clone(), queues, attributes: None }).await;
        source.ask(&CreateGroup(GroupConfig::new(group))).await;
        let end = Instant::now() + REGISTERED;
        let route = RouteRequest { topic };
        while source.remoting.call(&source.name_server, &route, TIMEOUT).await.is_err() {
            assert!(Instant::now() < end, "the name server must learn the topic");
            sleep(Duration::from_millis(50)).await;
        }
        source
    }
}

impl Topic {
    async fn ask<R: Request>(&self, request: &R) -> R::Reply {
        match self.remoting.call(&self.broker, request, TIMEOUT).await {
            Ok(reply) => reply,
            Err(error) => panic!("the broker must answer: {error}"),
        }
    }

    /// Brokers index what they stored a moment later, and count only what is indexed.
    async fn await_index(&self, stored: &SendReply) {
        let end = Instant::now() + INDEXED;
        let question = MaxOffset { topic: Arc::clone(&self.topic), queue_id: stored.queue_id };
        while self.ask(&question).await <= stored.queue_offset {
            assert!(Instant::now() < end, "the broker must index what it stored");
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn outgoing(&self, queue: usize) -> SendMessage {
        SendMessage {
            group: Arc::from("conformance"),
            topic: Arc::clone(&self.topic),
            queue_id: number(queue),
            sys_flag: 0,
            flag: 0,
            born_ms: 1,
            properties: String::new(),
            reconsume_times: 0,
            body: Bytes::new(),
        }
    }

    fn connect(&self, client_id: &str, connected: bool) -> bool {
        let wires = self.wires.lock().expect("no test panics meanwhile");
        wires.get(client_id).is_some_and(|wire| wire.connected.send(connected).is_ok())
    }

    fn config(&self, client_id: &str) -> Config {
        Config {
            name_servers: vec![self.name_server.clone()],
            group: self.group.to_string(),
            client_id: client_id.to_owned(),
            subscriptions: vec![Subscription { topic: self.topic.to_string(), filter: Filter::All }],
            start: StartPosition::Earliest,
            lock_lifetime: self.lock_life,
            address_overrides: [].into(),
            credentials: Default::default(),
            tls: None,
            key: KeySource::Native,
            epoch_floor: Epoch(0),
            clock: self.clock,
            limits: Default::default(),
        }
    }
}

impl Source for Topic {
    type Broker = Plain;

    fn clock(&self) -> Clock {
        self.clock
    }

    async fn member(&self, client_id: &str) -> Plain {
        let wire = Wire::to(self.broker.clone()).await;
        let mut config = self.config(client_id);
        config.address_overrides.insert(self.broker.clone(), wire.address.clone());
        self.wires.lock().expect("no test panics meanwhile").insert(client_id.to_owned(), wire);
        Plain(RocketMq::new(config))
    }

    async fn cut(&self, client_id: &str) -> bool {
        self.connect(client_id, false)
    }

    async fn restore(&self, client_id: &str) {
        self.connect(client_id, true);
    }

    fn queue_name(&self, queue: usize) -> String {
        format!("{}/{}/{queue}", self.topic, self.broker_name)
    }

    async fn publish(&self, queue: usize, message: Message) {
        let key = message.key.as_ref().map(|key| (&b"__SHARDINGKEY"[..], key.as_bytes()));
        let properties = write_properties(message.properties.iter().chain(key));
        let properties = String::from_utf8(properties.to_vec()).expect("properties must be text");
        let send = SendMessage { properties, body: message.body, ..self.outgoing(queue) };
        // Brokers fail at a request without content, yet store an empty message out of a batch.
        let stored = if send.body.is_empty() {
            let reply = self.ask(&batch_of_one(&send)).await;
            send.reply(reply).unwrap_or_else(|error| panic!("the broker must store a batch: {error}"))
        } else {
            self.ask(&send).await
        };
        self.await_index(&stored).await;
    }

    async fn unsettled(&self, queue: usize) -> u64 {
        let (topic, queue_id) = (Arc::clone(&self.topic), number(queue));
        let end = self.ask(&MaxOffset { topic: Arc::clone(&topic), queue_id }).await;
        let group = Arc::clone(&self.group);
        let committed = self.ask(&QueryOffset { group, topic: Arc::clone(&topic), queue_id }).await;
        let begin = match committed {
            Some(committed) => committed,
            None => self.ask(&MinOffset { topic, queue_id }).await,
        };
        u64::try_from(end - begin).unwrap_or(0)
    }

    async fn dead_letters(&self) -> Vec<Bytes> {
        let mut bodies = Vec::new();
        let mut offset = 0;
        loop {
            let pull = Pull {
                group: Arc::clone(&self.group),
                topic: Arc::from(format!("%DLQ%{}", self.group)),
                queue_id: 0,
                offset,
                count: 32,
                hold: Duration::ZERO,
                expression: Arc::from("*"),
                expression_type: "TAG",
                version: 1,
            };
            let reply = match self.remoting.call(&self.broker, &pull, TIMEOUT).await {
                Ok(reply) => reply,
                // There is no such topic before the first dead letter.
                Err(error) if error.refusal() == Some(ResponseCode::TopicNotExist) => return bodies,
                Err(error) => panic!("the broker must answer: {error}"),
            };
            let before = bodies.len();
            bodies.extend(StoredMessages::new(reply.messages).filter_map(|entry| match entry {
                Ok(Entry::Stored(stored)) => Some(stored.body),
                Ok(Entry::Bad(_)) | Err(_) => None,
            }));
            if bodies.len() == before {
                return bodies;
            }
            offset = reply.next;
        }
    }

    async fn publish_undecodable(&self, queue: usize, raw: Bytes) -> bool {
        // Brokers store what producers call compressed without a look at it.
        let send = SendMessage { sys_flag: sys_flag::COMPRESSED, body: raw, ..self.outgoing(queue) };
        let stored = self.ask(&send).await;
        self.await_index(&stored).await;
        true
    }

    async fn kill(&self, _client_id: &str) {
        // Dropping the halves closes the connection without a word, as a crash does.
    }

    fn lease_life(&self) -> Option<Duration> {
        Some(self.lock_life)
    }

    fn divides(&self) -> bool {
        true
    }

    /// Headers are JSON, so that names and values are text; 1 and 2 separate them.
    fn properties(&self) -> Vec<(&'static [u8], &'static [u8])> {
        vec![
            (b"plain", b"value"),
            (b"line", b"a\r\nb: c"),
            (b"nul", b"\0"),
            (b"wide", "\u{8ba2}\u{5355}".as_bytes()),
        ]
    }
}

/// The adapter without the queue of the group's retry topic, which the suite does not know of.
#[derive(Debug)]
pub struct Plain(RocketMq);

impl Broker for Plain {
    type Reader = RocketReader;
    type Settler = RocketSettler;
    type Keeper = PlainKeeper;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn split(self) -> (RocketReader, RocketSettler, PlainKeeper) {
        let (reader, settler, keeper) = self.0.split();
        (reader, settler, PlainKeeper { keeper, hidden: BTreeMap::new() })
    }
}

/// Holds retry queues by itself and gives them back when the group wants them or is left.
#[derive(Debug)]
pub struct PlainKeeper {
    keeper: RocketKeeper,
    hidden: BTreeMap<QueueId, Epoch>,
}

impl PlainKeeper {
    /// Whether the event is about a hidden queue.
    fn hides(&mut self, event: &LeaseEvent) -> bool {
        match event {
            LeaseEvent::Acquired { queue, name, epoch, .. } => {
                let retry = name.starts_with("%RETRY%");
                if retry {
                    self.hidden.insert(*queue, *epoch);
                }
                retry
            }
            LeaseEvent::Revoking { queue, epoch, .. } if self.hidden.contains_key(queue) => {
                self.keeper.release(*queue, *epoch);
                true
            }
            LeaseEvent::Lost { queue, .. } | LeaseEvent::Released { queue, .. } => {
                self.hidden.remove(queue).is_some()
            }
            LeaseEvent::Renewed { queue, .. }
            | LeaseEvent::Doubtful { queue, .. }
            | LeaseEvent::Revoking { queue, .. }
            | LeaseEvent::RevocationCancelled { queue, .. }
            | LeaseEvent::Moved { queue, .. } => self.hidden.contains_key(queue),
            LeaseEvent::Source(_) | LeaseEvent::Left => false,
        }
    }
}

impl LeaseKeeper for PlainKeeper {
    fn join(&mut self) {
        self.keeper.join();
    }

    fn leave(&mut self) {
        self.keeper.leave();
        for (queue, epoch) in &self.hidden {
            self.keeper.release(*queue, *epoch);
        }
    }

    fn release(&mut self, queue: QueueId, epoch: Epoch) {
        self.keeper.release(queue, epoch);
    }

    async fn next(&mut self) -> LeaseEvent {
        loop {
            let event = self.keeper.next().await;
            if !self.hides(&event) {
                return event;
            }
        }
    }
}

/// SEND_BATCH_MESSAGE with one message: sizes and lengths before its empty body and its properties.
fn batch_of_one(send: &SendMessage) -> Command {
    let properties = send.properties.as_bytes();
    let length = u16::try_from(properties.len()).expect("properties must be short");
    let mut body = Vec::new();
    let total = 5 * 4 + 2 + i32::from(length.cast_signed());
    for part in [total, 0, 0, send.flag, 0] {
        body.extend(part.to_be_bytes());
    }
    body.extend(length.to_be_bytes());
    body.extend(properties);
    let mut command = send.command().body(body);
    command.code = 320;
    command.fields.remove("m");
    command.field("m", true)
}

fn number(queue: usize) -> i32 {
    i32::try_from(queue).expect("queues must be few")
}
