//! The recording HTTP application: does with each message what its rules say, and writes down what it saw.
//!
//! `PUT /rules` with one rule a line replaces the rules of a running application, `PUT /health` with a status says what
//! health checks are told from now on, `PUT /memory` takes so many MiB for good. GET and HEAD are health checks.

use std::{
    fmt,
    fs::File,
    io::{self, BufReader, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream},
    path::Path,
    process, str,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use lockstep_history::{Event, Outcome};

pub use crate::http::Request;
use crate::{
    behaviour::{Act, Rule},
    http,
    time::now_micros,
};

/// The property with the producer's own number of a message, [`crate::rabbitmq::PLACE`].
const PLACE: &str = "lockstep-property-place";
/// How often a working application looks whether the peer is still there.
const GLANCE: Duration = Duration::from_millis(5);

/// What all connections share.
#[derive(Debug)]
struct Shared {
    rules: Mutex<Vec<Rule>>,
    log: Option<Mutex<Log>>,
    identity: Option<Identity>,
    requests: Mutex<Option<Sender<Request>>>,
    posts: AtomicU64,
    healthy: AtomicBool,
    idle: Option<Duration>,
}

/// Where the history's lines go.
struct Log(Box<dyn Write + Send>);

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

/// What an application calls itself and its consumer in the history, where neither its process number nor the path of
/// a request tells: in a pod.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Begins the names of its requests; no other application's begin so.
    pub application: String,
    /// Who sends all its requests.
    pub consumer: String,
}

/// How to start an application.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// The port; 0 means any.
    pub port: u16,
    /// Where it listens; loopback where nothing is said.
    pub address: Option<IpAddr>,
    /// Where the history's lines are appended.
    pub log: Option<&'a Path>,
    /// Where the history's lines are sent instead.
    pub collector: Option<TcpStream>,
    /// Its names in the history, where the process and the path don't tell.
    pub identity: Option<Identity>,
    /// The first rules.
    pub rules: Vec<Rule>,
    /// Connections are closed after having been idle so long.
    pub idle: Option<Duration>,
}

/// A running application in this process. Its threads end with the process; its port closes with the handle.
#[derive(Debug)]
pub struct App {
    shared: Arc<Shared>,
    listener: TcpListener,
    requests: Receiver<Request>,
    address: String,
    closed: Arc<AtomicBool>,
}

impl App {
    /// Starts listening.
    ///
    /// # Errors
    /// When the port is taken or the log can't be opened.
    pub fn start(options: Options<'_>) -> io::Result<Self> {
        let address = options.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let listener = TcpListener::bind((address, options.port))?;
        let address = listener.local_addr()?.to_string();
        let file = |path| File::options().create(true).append(true).open(path);
        let log: Option<Box<dyn Write + Send>> = match (options.collector, options.log) {
            (Some(collector), _) => Some(Box::new(collector)),
            (None, Some(path)) => Some(Box::new(file(path)?)),
            (None, None) => None,
        };
        let (sender, requests) = mpsc::channel();
        let shared = Arc::new(Shared {
            rules: Mutex::new(options.rules),
            log: log.map(Log).map(Mutex::new),
            identity: options.identity,
            requests: Mutex::new(Some(sender)),
            posts: AtomicU64::new(0),
            healthy: AtomicBool::new(true),
            idle: options.idle,
        });
        let closed = Arc::new(AtomicBool::new(false));
        let app = Self { shared, listener, requests, address, closed };
        let (listener, shared, closed) =
            (app.listener.try_clone()?, Arc::clone(&app.shared), Arc::clone(&app.closed));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if closed.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&shared);
                // A connection that breaks is the peer's affair; what it cost is in the log.
                thread::spawn(move || drop(serve(&stream, &shared)));
            }
        });
        Ok(app)
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Replaces the rules.
    pub fn set_rules(&self, rules: Vec<Rule>) {
        *self.shared.rules.lock().unwrap() = rules;
    }

    /// What health checks are told.
    pub fn set_healthy(&self, healthy: bool) {
        self.shared.healthy.store(healthy, Ordering::Relaxed);
    }

    /// The next request, as soon as it is there.
    ///
    /// # Panics
    /// When there is none within `limit`.
    pub fn next_request(&self, limit: Duration) -> Request {
        self.requests.recv_timeout(limit).unwrap_or_else(|_| panic!("no request came within {limit:?}"))
    }

    /// Requests that have come and were not taken yet.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.try_iter().collect()
    }

    /// Appends a line to the log that is no event of the history; readers tell such lines apart.
    pub fn note(&self, line: &str) {
        append(&self.shared, line);
    }

    /// Keeps no requests from now on: for the process that only writes a log.
    pub fn forget_requests(&self) {
        *self.shared.requests.lock().unwrap() = None;
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        drop(self.listener.local_addr().map(TcpStream::connect));
    }
}

/// Whether the connection may be used again.
type Reusable = io::Result<bool>;

fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(64 * 1024, stream);
    loop {
        stream.set_read_timeout(shared.idle)?;
        let Some(mut request) = http::read_head(&mut reader)? else { return Ok(()) };
        stream.set_read_timeout(None)?;
        if request.method != "POST" {
            http::read_body(&mut reader, &mut request)?;
            control(stream, shared, &request)?;
            continue;
        }
        if !post(stream, &mut reader, shared, request)? {
            return Ok(());
        }
    }
}

/// Health checks and rules.
fn control(stream: &TcpStream, shared: &Shared, request: &Request) -> io::Result<()> {
    let text = || str::from_utf8(&request.body).ok();
    let status = match request.method.as_str() {
        "PUT" if request.path == "/health" => match text().and_then(|text| text.trim().parse::<u16>().ok()) {
            Some(status) => {
                shared.healthy.store(status == 200, Ordering::Relaxed);
                200
            }
            None => 400,
        },
        "PUT" if request.path == "/memory" => match text().and_then(|text| text.trim().parse::<usize>().ok())
        {
            // The pages are touched, or they would take no memory.
            Some(mebibytes) => {
                vec![1_u8; mebibytes << 20].leak();
                200
            }
            None => 400,
        },
        "PUT" => match str::from_utf8(&request.body).map(|text| text.lines().map(str::parse).collect()) {
            Ok(Ok(rules)) => {
                *shared.rules.lock().unwrap() = rules;
                200
            }
            _ => 400,
        },
        _ if shared.healthy.load(Ordering::Relaxed) => 200,
        _ => 503,
    };
    respond(stream, status, "", b"")
}

fn post(
    stream: &TcpStream,
    reader: &mut BufReader<&TcpStream>,
    shared: &Shared,
    mut request: Request,
) -> Reusable {
    let path = request.path.trim_start_matches('/').to_owned();
    let position = place(&request);
    // A reset needs unread bytes, so it is decided before the body is read.
    let resets =
        |rule: &&mut Rule| rule.act == Act::Reset && rule.body.is_none() && rule.fits(&path, position, b"");
    if let Some(rule) = shared.rules.lock().unwrap().iter_mut().find(resets) {
        rule.used();
        return Ok(false);
    }
    http::read_body(reader, &mut request)?;
    let rule = choose(shared, &path, position, &request.body);
    let number = shared.posts.fetch_add(1, Ordering::Relaxed);
    let (post, path) = match &shared.identity {
        Some(Identity { application, consumer }) => (format!("{application}-{number}"), consumer.clone()),
        None => (format!("{}-{number}", process::id()), path),
    };
    record_start(shared, &request, &post, path, position);
    if let Some(sender) = &*shared.requests.lock().unwrap() {
        // Nobody listens any more when the test is over.
        drop(sender.send(request));
    }
    if !work(stream, rule.delay, matches!(rule.act, Act::Never)) {
        record_end(shared, &post, Outcome::Broken);
        return Ok(false);
    }
    let answer = |status, headers: &str, body: &[u8]| {
        record_end(shared, &post, Outcome::Answered(status));
        respond(stream, status, headers, body).map(|()| true)
    };
    let break_off = |bytes: &[u8]| {
        record_end(shared, &post, Outcome::Broken);
        (&mut &*stream).write_all(bytes)?;
        stream.shutdown(Shutdown::Both).map(|()| false)
    };
    match rule.act {
        Act::Answer(status) => answer(status, "", b""),
        Act::RetryAfter(status, seconds) => answer(status, &format!("retry-after: {seconds}\r\n"), b""),
        Act::Verdict(status, verdict) => answer(status, &format!("lockstep-verdict: {verdict}\r\n"), b""),
        Act::Redirect(to) => answer(302, &format!("location: {to}\r\n"), b""),
        Act::Huge(bytes) => {
            record_end(shared, &post, Outcome::Answered(200));
            huge(stream, bytes)
        }
        Act::Crash => process::abort(),
        Act::Half => break_off(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"),
        Act::Garbage => break_off(b"\x00\xffthis is not HTTP\r\n\r\n"),
        Act::Never | Act::Close | Act::Reset => break_off(b""),
    }
}

/// Where a message stands in its queue: as its producer says where the broker numbers it anew on each channel, else as its
/// broker says.
fn place(request: &Request) -> Option<u64> {
    request.number(PLACE).or_else(|| request.number("lockstep-position"))
}

/// The rule for a message; takes one from a rule that holds only so often.
fn choose(shared: &Shared, path: &str, position: Option<u64>, body: &[u8]) -> Rule {
    let mut rules = shared.rules.lock().unwrap();
    let Some(rule) = rules.iter_mut().find(|rule| rule.fits(path, position, body)) else {
        return Rule::default();
    };
    rule.used();
    rule.clone()
}

/// Works for `delay`, or for ever; whether the peer was still there at the end.
fn work(stream: &TcpStream, delay: Duration, forever: bool) -> bool {
    let start = Instant::now();
    if !forever && delay <= GLANCE {
        thread::sleep(delay);
        return true;
    }
    let mut byte = [0; 1];
    while forever || start.elapsed() < delay {
        let left = delay.saturating_sub(start.elapsed());
        let glance = if forever { GLANCE } else { left.min(GLANCE).max(Duration::from_micros(1)) };
        if stream.set_read_timeout(Some(glance)).is_err() {
            return false;
        }
        match stream.peek(&mut byte) {
            Ok(0) => return false,
            Ok(_) => thread::sleep(glance),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => return false,
        }
    }
    true
}

fn record_start(shared: &Shared, request: &Request, post: &str, consumer: String, position: Option<u64>) {
    record(shared, || Event::Start {
        at: now_micros(),
        post: post.into(),
        queue: request.header("lockstep-queue").unwrap_or("?").into(),
        position: position.unwrap_or(u64::MAX),
        attempt: u32::try_from(request.number("lockstep-attempt").unwrap_or(0)).unwrap_or(0),
        consumer: consumer.into(),
        epoch: request.number("lockstep-lease-epoch"),
    });
}

fn record_end(shared: &Shared, post: &str, outcome: Outcome) {
    record(shared, || Event::End { at: now_micros(), post: post.into(), outcome });
}

fn record(shared: &Shared, event: impl FnOnce() -> Event) {
    if shared.log.is_some() {
        append(shared, &event().to_string());
    }
}

/// Appends a line by one write, so that a kill leaves only whole lines.
fn append(shared: &Shared, line: &str) {
    if let Some(log) = &shared.log {
        log.lock().unwrap().0.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

fn respond(mut stream: &TcpStream, status: u16, headers: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} -\r\n{headers}content-length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat())
}

fn huge(mut stream: &TcpStream, bytes: u64) -> Reusable {
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n")?;
    let part = [b'.'; 64 * 1024];
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    while left > 0 {
        let count = left.min(part.len());
        stream.write_all(&part[..count])?;
        left -= count;
    }
    Ok(true)
}
