//! A broker with one quorum queue, on a port of this machine: for tests of what uses the client.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::broadcast,
    time::{Instant, sleep_until},
};

use super::server::Server;
use crate::amqp::{
    Endpoint,
    codec::{Kind, tests::hex},
};

/// What a person does at the broker.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Deletes the queue, which ends its consumer.
    Delete,
    /// `rabbitmqctl close_all_connections`.
    CloseAll,
}

/// How the broker objects to a declaration of the queue: a code and words, from the method with its arguments.
pub(crate) type Objection = fn(&[u8]) -> Option<(u16, &'static str)>;

#[derive(Debug)]
struct State {
    objection: Objection,
    /// It knows nobody.
    refuses: bool,
    /// Class and method of all that was said to it.
    heard: Vec<(u16, u16)>,
    consumers: u32,
    messages: VecDeque<Bytes>,
    /// How long acknowledgements are on their way to the queue; those of a channel that ends meanwhile are forgotten.
    slow: Duration,
    /// What was given back: it is handed out before all else, and what is given back later stands behind it.
    returns: VecDeque<Bytes>,
}

/// A channel that consumes.
#[derive(Debug)]
struct Consuming {
    channel: u16,
    prefetch: usize,
    last: u64,
    out: BTreeMap<u64, Bytes>,
    /// When each acknowledgement is applied.
    stash: VecDeque<(Instant, u64, bool)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) endpoint: Endpoint,
    state: Arc<Mutex<State>>,
    acts: broadcast::Sender<Act>,
}

impl Broker {
    /// One whose queue is as everybody believes, with one message.
    pub(crate) async fn start() -> Self {
        Self::with(&[b"x"]).await
    }

    /// One with these messages.
    pub(crate) async fn with(messages: &[&[u8]]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State {
            objection: |_| None,
            refuses: false,
            heard: Vec::new(),
            consumers: 0,
            slow: Duration::ZERO,
            messages: messages.iter().map(|body| Bytes::copy_from_slice(body)).collect(),
            returns: VecDeque::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let acts = broadcast::Sender::new(8);
        let (shared, sender) = (Arc::clone(&state), acts.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(session(stream, Arc::clone(&shared), sender.subscribe()));
            }
        });
        Self { endpoint: Endpoint { host: "127.0.0.1".to_owned(), port }, state, acts }
    }

    pub(crate) fn object(&self, objection: Objection) {
        self.state().objection = objection;
    }

    /// Applies acknowledgements that much later from now on.
    pub(crate) fn apply_after(&self, slow: Duration) {
        self.state().slow = slow;
    }

    /// How many were never handed out.
    pub(crate) fn left(&self) -> usize {
        self.state().messages.len()
    }

    /// How many were given back.
    pub(crate) fn given_back(&self) -> usize {
        self.state().returns.len()
    }

    /// Knows nobody from now on.
    pub(crate) fn refuse(&self) {
        self.state().refuses = true;
    }

    pub(crate) fn delete_queue(&self) {
        self.acts.send(Act::Delete).unwrap();
    }

    pub(crate) fn close_all_connections(&self) {
        self.acts.send(Act::CloseAll).unwrap();
    }

    /// How often that method was heard.
    pub(crate) fn heard(&self, class: u16, method: u16) -> usize {
        self.state().heard.iter().filter(|heard| **heard == (class, method)).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// One connection.
async fn session(stream: TcpStream, state: Arc<Mutex<State>>, mut acts: broadcast::Receiver<Act>) {
    let mut server = Server::new(stream);
    if state.lock().unwrap().refuses {
        // As brokers do that can't say why.
        server.start().await;
        server.next().await;
        return;
    }
    server.agree().await;
    let mut consuming: Option<Consuming> = None;
    let mut prefetch = 0;
    loop {
        let due = consuming.as_ref().and_then(|consuming| consuming.stash.front()).map(|(at, ..)| *at);
        tokio::select! {
            () = async { sleep_until(due.unwrap()).await }, if due.is_some() => {
                apply(&mut server, &state, consuming.as_mut().unwrap()).await;
            }
            frame = server.next() => {
                let Some((kind, channel, payload)) = frame else { break };
                assert_eq!(kind, Kind::Method, "nothing is published");
                if !answer(&mut server, &state, channel, &payload, (&mut consuming, &mut prefetch)).await {
                    break;
                }
            }
            Ok(act) = acts.recv() => match (act, &consuming) {
                (Act::Delete, Some(consuming)) => server.method(consuming.channel, "003c 001e 01 74 01").await,
                (Act::CloseAll, _) => {
                    server.method(0, "000a 0032 0140 06 666f72636564 0000 0000").await;
                    // A broker has forgotten who consumed by the time that one can connect again.
                    break;
                }
                (Act::Delete, None) => {}
            },
        }
    }
    if let Some(consuming) = consuming {
        state.lock().unwrap().give_back(consuming);
    }
}

impl State {
    /// The channel has ended.
    fn give_back(&mut self, consuming: Consuming) {
        self.consumers -= 1;
        self.returns.extend(consuming.out.into_values());
    }
}

/// Says what a method is answered with; whether the connection goes on.
async fn answer(
    server: &mut Server<TcpStream>,
    state: &Mutex<State>,
    channel: u16,
    payload: &Bytes,
    (consuming, prefetch): (&mut Option<Consuming>, &mut usize),
) -> bool {
    let word = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
    let method = (word(0), word(2));
    state.lock().unwrap().heard.push(method);
    match method {
        (10, 50) => {
            server.method(0, "000a 0033").await;
            return false;
        }
        (20, 10) => server.method(channel, "0014 000b 00000000").await,
        (20, 40) => {
            if let Some(consuming) = consuming.take_if(|consuming| consuming.channel == channel) {
                state.lock().unwrap().give_back(consuming);
            }
            server.method(channel, "0014 0029").await;
        }
        (50, 10) => declare(server, state, channel, payload).await,
        (60, 10) => {
            *prefetch = word(8).into();
            server.method(channel, "003c 000b").await;
        }
        (60, 20) => {
            state.lock().unwrap().consumers += 1;
            server.method(channel, "003c 0015 01 74").await;
            let begun = Consuming {
                channel,
                prefetch: *prefetch,
                last: 0,
                out: BTreeMap::new(),
                stash: VecDeque::new(),
            };
            deliver(server, state, consuming.insert(begun)).await;
        }
        (60, 80) => {
            if let Some(consuming) = consuming {
                let tag = u64::from_be_bytes(payload[4..12].try_into().unwrap());
                let at = Instant::now() + state.lock().unwrap().slow;
                consuming.stash.push_back((at, tag, payload[12] == 1));
                apply(server, state, consuming).await;
            }
        }
        _ => {}
    }
    true
}

async fn declare(server: &mut Server<TcpStream>, state: &Mutex<State>, channel: u16, payload: &[u8]) {
    // Behind class, method and two bytes that are not used: the name, and the flags, of which the first is `passive`.
    let flags = payload[7 + usize::from(payload[6])];
    let (objection, consumers) = {
        let state = state.lock().unwrap();
        (if flags & 1 == 1 { None } else { (state.objection)(payload) }, state.consumers)
    };
    let mut answer = BytesMut::new();
    match objection {
        Some((code, text)) => {
            answer.put_slice(&hex("0014 0028"));
            answer.put_u16(code);
            answer.put_u8(text.len().try_into().unwrap());
            answer.put_slice(text.as_bytes());
            answer.put_slice(&hex("0032 000a"));
        }
        None => {
            answer.put_slice(&hex("0032 000b 01 71 00000000"));
            answer.put_u32(consumers);
        }
    }
    server.send(Kind::Method, channel, &answer).await;
}

/// Applies the acknowledgements that have arrived.
async fn apply(server: &mut Server<TcpStream>, state: &Mutex<State>, consuming: &mut Consuming) {
    while let Some((_, tag, multiple)) = consuming.stash.pop_front_if(|(at, ..)| *at <= Instant::now()) {
        consuming.out.retain(|out, _| if multiple { *out > tag } else { *out != tag });
        deliver(server, state, consuming).await;
    }
}

/// Hands out what the prefetch allows.
async fn deliver(server: &mut Server<TcpStream>, state: &Mutex<State>, consuming: &mut Consuming) {
    while consuming.out.len() < consuming.prefetch {
        let next = {
            let mut state = state.lock().unwrap();
            state.returns.pop_front().or_else(|| state.messages.pop_front())
        };
        let Some(body) = next else { return };
        consuming.last += 1;
        consuming.out.insert(consuming.last, body.clone());
        let mut method = BytesMut::from(&hex("003c 003c 01 74")[..]);
        method.put_u64(consuming.last);
        method.extend_from_slice(&hex("00 00 01 71"));
        server.send(Kind::Method, consuming.channel, &method).await;
        let mut header = BytesMut::from(&hex("003c 0000")[..]);
        header.put_u64(body.len() as u64);
        header.put_u16(0);
        server.send(Kind::Header, consuming.channel, &header).await;
        for piece in body.chunks(4088) {
            server.send(Kind::Body, consuming.channel, piece).await;
        }
    }
}
