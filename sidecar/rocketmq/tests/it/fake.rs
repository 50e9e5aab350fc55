//! A name server and broker in one, which does as the test says.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use lockstep_rocketmq::codec::{Command, HeaderEncoding, decode, encode, lenient};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::{mpsc, watch},
};

/// How long a pull without messages is held.
const HOLD: Duration = Duration::from_millis(20);

/// What the test can change at any time.
#[derive(Debug)]
pub(crate) struct Script {
    /// Queues of topic `t`; `None`: there is no such topic.
    pub(crate) queues: Option<i32>,
    /// Queues of the group's retry topic; `None`: there is no such topic.
    pub(crate) retry: Option<i32>,
    /// Where the retry topic's route says that the broker is; `None`: here.
    pub(crate) retry_at: Option<SocketAddr>,
    /// The broker's id in the route: 0 is the master.
    pub(crate) broker_id: u64,
    /// Members beside those that sent heartbeats.
    pub(crate) others: Vec<String>,
    /// Whether heartbeats register anybody.
    pub(crate) registers: bool,
    /// How long a heartbeat's answer takes.
    pub(crate) beat_takes: Duration,
    /// The address of a second broker with as many queues.
    pub(crate) second: Option<SocketAddr>,
    /// Owners of locks by queue.
    pub(crate) locks: BTreeMap<i32, String>,
    /// Committed offsets by queue.
    pub(crate) committed: BTreeMap<i32, i64>,
    /// Stored messages by queue.
    pub(crate) log: BTreeMap<i32, Vec<Bytes>>,
    /// The first offset still stored.
    pub(crate) min: i64,
    /// Seconds since the broker's start.
    pub(crate) uptime: u64,
    /// Its version.
    pub(crate) version: &'static str,
    /// Answers in place of the usual ones, by request code.
    pub(crate) answers: BTreeMap<i32, Command>,
    /// Codes that get no answer.
    pub(crate) deaf: BTreeSet<i32>,
    /// Every request so far.
    pub(crate) journal: Vec<Command>,
    members: BTreeMap<u64, String>,
    pushes: BTreeMap<u64, mpsc::UnboundedSender<Command>>,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    script: Arc<Mutex<Script>>,
    cut: watch::Sender<u64>,
}

impl Fake {
    pub(crate) async fn start(queues: i32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let script = Script {
            queues: Some(queues),
            retry: None,
            retry_at: None,
            broker_id: 0,
            others: Vec::new(),
            registers: true,
            beat_takes: Duration::ZERO,
            second: None,
            locks: BTreeMap::new(),
            committed: BTreeMap::new(),
            log: BTreeMap::new(),
            min: 0,
            uptime: 1_000_000,
            version: "V5_3_3",
            answers: BTreeMap::new(),
            deaf: BTreeSet::new(),
            journal: Vec::new(),
            members: BTreeMap::new(),
            pushes: BTreeMap::new(),
        };
        let fake = Self {
            address: listener.local_addr().unwrap(),
            script: Arc::new(Mutex::new(script)),
            cut: watch::channel(0).0,
        };
        let server = fake.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (reader, writer) = stream.into_split();
                let (push, pushed) = mpsc::unbounded_channel();
                server.script().pushes.insert(number, push);
                tokio::spawn(server.clone().serve(number, reader, writer, pushed));
            }
        });
        fake
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// Closes every connection.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|cut| *cut += 1);
    }

    /// Sends a request to every member.
    pub(crate) fn push(&self, command: &Command) {
        let script = self.script();
        for number in script.members.keys() {
            script.pushes[number].send(command.clone()).unwrap();
        }
    }

    /// How many requests with this code came.
    pub(crate) fn count(&self, code: i32) -> usize {
        self.script().journal.iter().filter(|command| command.code == code).count()
    }

    /// Waits until the script is as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Script) -> bool) {
        let waited = tokio::time::timeout(Duration::from_secs(20), async {
            while !wanted(&self.script()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(waited.await.is_ok(), "waited for {what}");
    }

    /// Stores messages with these tags and the bodies `m0`, `m1` and so on.
    pub(crate) fn store(&self, queue: i32, tags: &[&str]) {
        let mut script = self.script();
        let log = script.log.entry(queue).or_default();
        for tag in tags {
            let offset = i64::try_from(log.len()).unwrap();
            log.push(stored(queue, offset, 1_000 + offset, tag, format!("m{offset}").as_bytes()));
        }
    }

    async fn serve(
        self,
        number: u64,
        mut reader: OwnedReadHalf,
        mut writer: OwnedWriteHalf,
        mut pushed: mpsc::UnboundedReceiver<Command>,
    ) {
        let mut cut = self.cut.subscribe();
        let mut buffer = BytesMut::new();
        let (answers, mut answered) = mpsc::unbounded_channel::<Command>();
        loop {
            let command = tokio::select! {
                read = reader.read_buf(&mut buffer) => match read {
                    Ok(0) | Err(_) => break,
                    Ok(_) => None,
                },
                command = pushed.recv() => command,
                command = answered.recv() => command,
                _ = cut.changed() => break,
            };
            if let Some(command) = command {
                let mut out = BytesMut::new();
                encode(&command, HeaderEncoding::Json, &mut out).unwrap();
                if writer.write_all(&out).await.is_err() {
                    break;
                }
            }
            while let Some(request) = decode(&mut buffer).unwrap() {
                let (answer, takes) = self.script().answer(number, self.address, request);
                let Some(answer) = answer else { continue };
                let answers = answers.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(takes).await;
                    answers.send(answer).ok();
                });
            }
        }
        let mut script = self.script();
        script.members.remove(&number);
        script.pushes.remove(&number);
    }
}

impl Script {
    pub(crate) fn is_member(&self, id: &str) -> bool {
        self.members.values().any(|member| member == id)
    }

    fn answer(&mut self, number: u64, address: SocketAddr, request: Command) -> (Option<Command>, Duration) {
        let (code, opaque) = (request.code, request.opaque);
        self.journal.push(request.clone());
        if self.deaf.contains(&code) || request.is_response() {
            return (None, Duration::ZERO);
        }
        if let Some(answer) = self.answers.get(&code) {
            return (Some(Command { opaque, flag: 1, ..answer.clone() }), HOLD);
        }
        let ok = Command::response(0, opaque);
        let queue = || request.fields.get("queueId").and_then(|id| id.parse::<i32>().ok()).unwrap_or(0);
        let ours = request.fields.get("topic") == Some("t");
        let answer = match code {
            105 => match if ours { self.queues } else { self.retry } {
                Some(queues) if ours => ok.body(self.route(address, queues)),
                Some(queues) => ok.body(self.route(self.retry_at.unwrap_or(address), queues)),
                None => Command::response(17, opaque),
            },
            34 => {
                let id = lenient::parse(&request.body).unwrap().get("clientID").unwrap().as_str().unwrap().to_owned();
                if self.registers {
                    self.members.insert(number, id);
                }
                return (Some(ok), self.beat_takes);
            }
            35 => {
                self.members.remove(&number);
                ok
            }
            28 => ok.body(format!(
                r#"{{"table":{{"runtime":"[ 0 days, 0 hours, 0 minutes, {} seconds ]","brokerVersionDesc":"{}"}}}}"#,
                self.uptime, self.version
            )),
            38 => {
                let all: Vec<_> = self.members.values().chain(&self.others).collect();
                ok.body(format!(r#"{{"consumerIdList":{all:?}}}"#))
            }
            41 | 42 => self.lock(code, ok, &request.body),
            14 => match self.committed.get(&queue()).filter(|_| ours) {
                Some(offset) => ok.field("offset", offset),
                None => Command::response(22, opaque),
            },
            15 => {
                if ours {
                    self.committed.insert(queue(), request.fields.get("commitOffset").unwrap().parse().unwrap());
                }
                ok
            }
            30 => ok.field("offset", self.log.get(&queue()).map_or(0, Vec::len)),
            31 => ok.field("offset", self.min),
            29 => ok.field("offset", self.log.get(&queue()).map_or(0, Vec::len)),
            11 => return (Some(self.pull(ok, &request, queue())), HOLD),
            _ => ok,
        };
        (Some(answer), Duration::ZERO)
    }

    fn route(&self, address: SocketAddr, queues: i32) -> String {
        let first = Some(("b", self.broker_id, address));
        let second = self.second.map(|address| ("c", 0, address));
        let (brokers, lines): (Vec<_>, Vec<_>) = first
            .into_iter()
            .chain(second)
            .map(|(name, id, address)| {
                (
                    format!(r#"{{"brokerAddrs":{{{id}:"{address}"}},"brokerName":"{name}","cluster":"c"}}"#),
                    format!(
                        r#"{{"brokerName":"{name}","perm":6,"readQueueNums":{queues},"writeQueueNums":{queues}}}"#
                    ),
                )
            })
            .unzip();
        format!(r#"{{"brokerDatas":[{}],"queueDatas":[{}]}}"#, brokers.join(","), lines.join(","))
    }

    fn lock(&mut self, code: i32, ok: Command, body: &[u8]) -> Command {
        let request = lenient::parse(body).unwrap();
        let me = request.get("clientId").unwrap().as_str().unwrap();
        let mut granted = Vec::new();
        for queue in request.get("mqSet").unwrap().items().unwrap() {
            let (topic, id) = (queue.get("topic").unwrap(), queue.get("queueId").unwrap().as_i32().unwrap());
            if code == 42 {
                self.locks.retain(|queue, owner| *queue != id || owner != me);
            } else if self.locks.entry(id).or_insert_with(|| me.to_owned()) == me {
                let topic = topic.as_str().unwrap();
                granted.push(format!(r#"{{"topic":"{topic}","brokerName":"b","queueId":{id}}}"#));
            }
        }
        ok.body(format!(r#"{{"lockOKMQSet":[{}]}}"#, granted.join(",")))
    }

    fn pull(&self, ok: Command, request: &Command, queue: i32) -> Command {
        let from: usize = request.fields.get("queueOffset").unwrap().parse().unwrap();
        let count: usize = request.fields.get("maxMsgNums").unwrap().parse().unwrap();
        let empty = Vec::new();
        let log = self.log.get(&queue).unwrap_or(&empty);
        let found: Vec<&Bytes> = log.iter().skip(from).take(count).collect();
        let next = from + found.len();
        let body: Vec<u8> = found.iter().flat_map(|message| message.iter().copied()).collect();
        let code = if found.is_empty() { 19 } else { 0 };
        Command { code, ..ok }
            .field("nextBeginOffset", next)
            .field("minOffset", self.min)
            .field("maxOffset", log.len())
            .body(body)
    }
}

/// One stored message of the first form.
pub(crate) fn stored(queue: i32, offset: i64, log_offset: i64, tag: &str, body: &[u8]) -> Bytes {
    let properties =
        format!("TAGS\u{1}{tag}\u{2}UNIQ_KEY\u{1}id-{queue}-{offset}\u{2}__SHARDINGKEY\u{1}k\u{2}");
    stored_with(queue, (offset, log_offset), (0, 0), &properties, body)
}

/// The same with flags, redeliveries and properties.
pub(crate) fn stored_with(
    queue: i32,
    (offset, log_offset): (i64, i64),
    (sys_flag, redeliveries): (i32, i32),
    properties: &str,
    body: &[u8],
) -> Bytes {
    let mut rest = BytesMut::new();
    rest.put_u32(0xDAA3_20A7);
    rest.put_u32(crc32fast::hash(body) & 0x7FFF_FFFF);
    rest.put_i32(queue);
    rest.put_i32(0);
    rest.put_i64(offset);
    rest.put_i64(log_offset);
    rest.put_i32(sys_flag);
    rest.put_i64(1_700_000_000_000);
    rest.put_slice(&[127, 0, 0, 1, 0, 0, 0, 1]);
    rest.put_i64(1_700_000_000_000 + offset);
    rest.put_slice(&[127, 0, 0, 1, 0, 0, 0, 1]);
    rest.put_i32(redeliveries);
    rest.put_i64(0);
    rest.put_i32(i32::try_from(body.len()).unwrap());
    rest.put_slice(body);
    rest.put_u8(1);
    rest.put_slice(b"t");
    rest.put_i16(i16::try_from(properties.len()).unwrap());
    rest.put_slice(properties.as_bytes());
    let mut whole = BytesMut::new();
    whole.put_i32(i32::try_from(rest.len() + 4).unwrap());
    whole.put_slice(&rest);
    whole.freeze()
}
