//! A name server and broker in one, speaking just enough of RocketMQ's remoting to feed a consumer at full speed.
#![allow(clippy::indexing_slicing, reason = "a missing member of a JSON value reads as null")]

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Mutex, Notify},
    task::LocalSet,
};

use crate::{Result, app::now_nanos, args::Args, stored::Template};

/// Most messages in one answer, as the real broker's default for data in memory.
const BATCH_MAX: u64 = 32;
/// Most bytes in one answer, likewise.
const BATCH_BYTES: usize = 256 * 1024;

struct Queues {
    topic: String,
    port: u16,
    count: u32,
    /// Messages of one queue.
    end: u64,
    /// In an open loop, messages are released one by one at this interval.
    interval: Option<Duration>,
    template: Template,
    keys: u64,
    started: bool,
    released: u64,
    stamps: Vec<u64>,
    offsets: BTreeMap<(String, String), u64>,
    members: BTreeSet<String>,
    more: Rc<Notify>,
}

/// Serves until killed. Arguments: port, queues, messages (per queue), size, interval_us, keys.
pub(crate) async fn serve(args: &Args) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", args.get("port", 0_u16)?)).await?;
    let port = listener.local_addr()?.port();
    println!("{port}");
    let interval = args.get("interval_us", 0_u64)?;
    let topic = args.text("topic").unwrap_or("bench").to_owned();
    let keys = args.get("keys", 0_u64)?;
    let queues = Rc::new(RefCell::new(Queues {
        template: Template::new(&topic, args.get("size", 1024)?, keys > 0),
        topic,
        port,
        count: args.get("queues", 1)?,
        end: args.get("messages", 1_000_000)?,
        interval: (interval > 0).then(|| Duration::from_micros(interval)),
        keys: keys.max(1),
        started: false,
        released: 0,
        stamps: Vec::new(),
        offsets: BTreeMap::new(),
        members: BTreeSet::new(),
        more: Rc::new(Notify::new()),
    }));
    LocalSet::new()
        .run_until(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                stream.set_nodelay(true)?;
                let (read, write) = stream.into_split();
                let queues = Rc::clone(&queues);
                tokio::task::spawn_local(async move {
                    // A connection that breaks is the consumer's end of it.
                    drop(connection(read, Rc::new(Mutex::new(write)), queues).await);
                });
            }
        })
        .await
}

async fn connection(
    mut read: OwnedReadHalf,
    write: Rc<Mutex<OwnedWriteHalf>>,
    queues: Rc<RefCell<Queues>>,
) -> Result<()> {
    loop {
        let total = usize::try_from(read.read_u32().await?)?;
        let header_length = usize::try_from(read.read_u32().await? & 0x00ff_ffff)?;
        let mut frame = vec![0; total.checked_sub(4).ok_or("short frame")?];
        read.read_exact(&mut frame).await?;
        let (header, body) = frame.split_at_checked(header_length).ok_or("long header")?;
        let header: Value = serde_json::from_slice(header)?;
        let body = body.to_vec();
        if header["code"] == 11 {
            let (queues, write) = (Rc::clone(&queues), Rc::clone(&write));
            tokio::task::spawn_local(async move {
                let (ext, code, messages) = pull(&header, &queues).await;
                // A broken connection ends in the reading half.
                drop(reply(&write, &header, code, ext, &messages).await);
            });
            continue;
        }
        let (code, ext, answer) = answer(&header, &body, &mut queues.borrow_mut());
        if header["flag"].as_i64().unwrap_or(0) & 2 == 0 {
            reply(&write, &header, code, ext, &answer).await?;
        }
    }
}

async fn reply(write: &Mutex<OwnedWriteHalf>, to: &Value, code: i32, ext: Value, body: &[u8]) -> Result<()> {
    let header = json!({"code": code, "flag": 1, "language": "JAVA", "version": 513, "opaque": to["opaque"],
        "serializeTypeCurrentRPC": "JSON", "extFields": ext, "remark": if code == 0 { "FOUND" } else { "" }})
    .to_string();
    let mut frame = Vec::with_capacity(8 + header.len() + body.len());
    frame.extend_from_slice(&u32::try_from(4 + header.len() + body.len())?.to_be_bytes());
    frame.extend_from_slice(&u32::try_from(header.len())?.to_be_bytes());
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(body);
    write.lock().await.write_all(&frame).await?;
    Ok(())
}

fn field<'a>(header: &'a Value, name: &str) -> &'a str {
    header["extFields"][name].as_str().unwrap_or("")
}

fn number(header: &Value, name: &str) -> u64 {
    field(header, name).parse().unwrap_or(0)
}

/// Answers a pull, holding it while there is nothing to give.
async fn pull(header: &Value, queues: &Rc<RefCell<Queues>>) -> (Value, i32, Vec<u8>) {
    let from = number(header, "queueOffset");
    let mine = field(header, "topic") == queues.borrow().topic;
    if mine && !std::mem::replace(&mut queues.borrow_mut().started, true) {
        tokio::task::spawn_local(release(Rc::clone(queues)));
    }
    let hold = tokio::time::sleep(Duration::from_secs(15));
    tokio::pin!(hold);
    loop {
        let (more, end) = {
            let queues = queues.borrow();
            let end = if queues.interval.is_some() { queues.released } else { queues.end };
            (Rc::clone(&queues.more), if mine { end } else { 0 })
        };
        if from < end {
            let (body, next) = batch(header, &queues.borrow(), from, end);
            return (offsets(next, end), 0, body);
        }
        tokio::select! {
            () = more.notified() => {}
            () = &mut hold => return (offsets(from, end), 19, Vec::new()),
        }
    }
}

fn batch(header: &Value, queues: &Queues, from: u64, end: u64) -> (Vec<u8>, u64) {
    let queue = u32::try_from(number(header, "queueId")).unwrap_or(0);
    let until = end.min(from + number(header, "maxMsgNums").clamp(1, BATCH_MAX));
    let mut body = Vec::with_capacity(64 * 1024);
    let mut next = from;
    while next < until && body.len() < BATCH_BYTES {
        let stamp = usize::try_from(next).ok().and_then(|at| queues.stamps.get(at)).copied();
        queues.template.append(&mut body, queue, next, next % queues.keys, stamp);
        next += 1;
    }
    (body, next)
}

fn offsets(next: u64, end: u64) -> Value {
    json!({"nextBeginOffset": next.to_string(), "minOffset": "0", "maxOffset": end.to_string(),
        "suggestWhichBrokerId": "0"})
}

fn answer(header: &Value, body: &[u8], queues: &mut Queues) -> (i32, Value, Vec<u8>) {
    let json_body: Value = serde_json::from_slice(body).unwrap_or_default();
    let place = (field(header, "topic").to_owned(), field(header, "queueId").to_owned());
    match header["code"].as_i64().unwrap_or(0) {
        105 => (0, json!({}), route(header, queues)),
        34 => {
            queues.members.extend(json_body["clientID"].as_str().map(str::to_owned));
            (0, json!({}), Vec::new())
        }
        35 => {
            queues.members.remove(field(header, "clientID"));
            (0, json!({}), Vec::new())
        }
        38 => (0, json!({}), json!({"consumerIdList": queues.members}).to_string().into_bytes()),
        41 => (0, json!({}), json!({"lockOKMQSet": json_body["mqSet"]}).to_string().into_bytes()),
        14 => match queues.offsets.get(&place) {
            Some(offset) => (0, json!({"offset": offset.to_string()}), Vec::new()),
            None => (22, json!({}), Vec::new()),
        },
        15 => {
            queues.offsets.insert(place, number(header, "commitOffset"));
            (0, json!({}), Vec::new())
        }
        28 => {
            let table = json!({"table": {"bootTimestamp": "1700000000000", "runtime": "[ 1 days ]"}});
            (0, json!({}), table.to_string().into_bytes())
        }
        29 | 31 => (0, json!({"offset": "0"}), Vec::new()),
        30 => {
            let end = if place.0 == queues.topic { queues.end } else { 0 };
            (0, json!({"offset": end.to_string()}), Vec::new())
        }
        _ => (0, json!({}), Vec::new()),
    }
}

fn route(header: &Value, queues: &Queues) -> Vec<u8> {
    let count = if field(header, "topic") == queues.topic { queues.count } else { 1 };
    json!({"queueDatas": [{"brokerName": "stub", "readQueueNums": count, "writeQueueNums": count, "perm": 6,
            "topicSysFlag": 0}],
        "brokerDatas": [{"cluster": "bench", "brokerName": "stub",
            "brokerAddrs": {"0": format!("127.0.0.1:{}", queues.port)}}],
        "filterServerTable": {}})
    .to_string()
    .into_bytes()
}

/// Releases messages at the interval, from the consumer's first pull on.
async fn release(queues: Rc<RefCell<Queues>>) {
    let (interval, end) = {
        let queues = queues.borrow();
        (queues.interval, queues.end)
    };
    let Some(interval) = interval else { return };
    let mut ticker = tokio::time::interval(interval);
    for _ in 0..end {
        ticker.tick().await;
        let mut queues = queues.borrow_mut();
        queues.stamps.push(now_nanos());
        queues.released += 1;
        queues.more.notify_waiters();
    }
}
