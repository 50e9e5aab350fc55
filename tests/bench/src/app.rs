//! The fixed application of every measurement: answers 204, counts, checks order, notes arrival times.
//!
//! With a delay it serves each connection in a thread of its own: the runtime's timers are rounded up to whole
//! milliseconds, which a tenth of a 10 ms answer would show as our own loss.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::LocalSet,
};

use crate::{Result, args::Args};

mod slow;

/// What the application saw since its start.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Requests answered.
    pub(crate) count: u64,
    /// Requests whose position did not rise on their queue (or in their order line).
    pub(crate) disorder: u64,
    /// Wall clock of the first and the last answer, in nanoseconds.
    pub(crate) first_nanos: u64,
    /// See `first_nanos`.
    pub(crate) last_nanos: u64,
    /// Nanoseconds from the body's stamp to its arrival, when the body carries one.
    pub(crate) latencies: Vec<u64>,
}

#[derive(Default)]
struct State {
    seen: Seen,
    positions: BTreeMap<Vec<u8>, Vec<u8>>,
    latency: bool,
    check_order: bool,
}

/// Wall clock in nanoseconds: one clock for all processes of the machine.
pub(crate) fn now_nanos() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

/// Serves until killed. Arguments: port, delay_ms, latency (0/1), order (0/1).
pub(crate) async fn serve(args: &Args) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", args.get("port", 0_u16)?)).await?;
    println!("{}", listener.local_addr()?.port());
    let delay_ms = args.get("delay_ms", 0_u64)?;
    if delay_ms > 0 {
        return slow::serve(listener.into_std()?, Duration::from_millis(delay_ms));
    }
    let state = Rc::new(RefCell::new(State {
        latency: args.get("latency", 0_u8)? == 1,
        check_order: args.get("order", 1_u8)? == 1,
        ..State::default()
    }));
    let local = LocalSet::new();
    local
        .run_until(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let state = Rc::clone(&state);
                tokio::task::spawn_local(async move {
                    // A connection that breaks is the peer's end of it.
                    drop(connection(stream, state).await);
                });
            }
        })
        .await
}

async fn connection(mut stream: TcpStream, state: Rc<RefCell<State>>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 * 1024);
    loop {
        let Some((head, body)) = read_request(&mut stream, &mut buffer).await? else { return Ok(()) };
        let arrived = now_nanos();
        let request = buffer.get(..head).unwrap_or_default();
        if request.starts_with(b"GET") {
            let answer = control(request, &state)?;
            stream.write_all(&answer).await?;
        } else {
            note(
                &mut state.borrow_mut(),
                request,
                buffer.get(head..head + body).unwrap_or_default(),
                arrived,
            );
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
            state.borrow_mut().seen.last_nanos = now_nanos();
        }
        buffer.drain(..head + body);
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Option<(usize, usize)>> {
    loop {
        if let Some((head, length)) = whole(buffer) {
            return Ok(Some((head, length)));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Lengths of head and body, once all of both is there.
fn whole(buffer: &[u8]) -> Option<(usize, usize)> {
    let head = buffer.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let length = header(buffer.get(..head)?, b"content-length")
        .and_then(|v| std::str::from_utf8(v).ok()?.parse().ok())
        .unwrap_or(0);
    (buffer.len() >= head + length).then_some((head, length))
}

fn header<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    head.split(|b| *b == b'\n').find_map(|line| {
        let colon = line.iter().position(|b| *b == b':')?;
        let (found, value) = line.split_at(colon);
        found.eq_ignore_ascii_case(name).then(|| value.get(1..).unwrap_or_default().trim_ascii())
    })
}

fn note(state: &mut State, head: &[u8], body: &[u8], arrived: u64) {
    if state.seen.count == 0 {
        state.seen.first_nanos = arrived;
    }
    state.seen.count += 1;
    if state.check_order
        && let (Some(queue), Some(position)) =
            (header(head, b"lockstep-queue"), header(head, b"lockstep-position"))
    {
        let padded = format!("{:0>20}", String::from_utf8_lossy(position)).into_bytes();
        match state.positions.get_mut(queue) {
            Some(last) => {
                state.seen.disorder += u64::from(*last >= padded);
                *last = padded;
            }
            None => drop(state.positions.insert(queue.to_vec(), padded)),
        }
    }
    if state.latency
        && let Some(stamp) = body.get(..20).and_then(|s| std::str::from_utf8(s).ok()?.parse::<u64>().ok())
    {
        state.seen.latencies.push(arrived.saturating_sub(stamp));
    }
}

fn control(request: &[u8], state: &Rc<RefCell<State>>) -> Result<Vec<u8>> {
    let state = state.borrow();
    let body = if request.starts_with(b"GET /seen") { serde_json::to_vec(&state.seen)? } else { Vec::new() };
    Ok(answer_with(&body))
}

fn answer_with(body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}
