//! Where the applications in pods send what they see.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::time::now_micros;
use lockstep_history::{Event, History, Outcome};

/// Something in an application's life that is no event of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When, in microseconds since 1970.
    pub at: u64,
    /// The pod.
    pub pod: String,
    /// `started`, `terminated` (SIGTERM came) or `ends`.
    pub what: String,
}

impl Mark {
    /// A mark of this moment.
    pub fn new(pod: &str, what: &str) -> Self {
        Self { at: now_micros(), pod: pod.to_owned(), what: what.to_owned() }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mark {} {} {}", self.at, self.pod, self.what)
    }
}

impl FromStr for Mark {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("no mark: {line}");
        let mut words = line.split(' ');
        let mut next = || words.next().ok_or_else(wrong);
        if next()? != "mark" {
            return Err(wrong());
        }
        let at = next()?.parse().map_err(|_| wrong())?;
        Ok(Self { at, pod: next()?.to_owned(), what: next()?.to_owned() })
    }
}

#[derive(Debug, Default)]
struct Seen {
    events: Vec<Event>,
    marks: Vec<Mark>,
    /// Requests answered 2xx, by topic.
    done: BTreeMap<String, usize>,
}

/// Takes what applications in pods send. Its threads end with the process.
#[derive(Debug)]
pub struct Collector {
    seen: Arc<Mutex<Seen>>,
    address: SocketAddr,
}

impl Collector {
    /// Starts listening.
    ///
    /// # Panics
    /// When it can't listen on the address.
    pub fn start(address: &str) -> Self {
        let listener = TcpListener::bind((address, 0))
            .unwrap_or_else(|error| panic!("the collector can't listen on {address}: {error}"));
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Seen>>::default();
        let into = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let into = Arc::clone(&into);
                thread::spawn(move || collect(stream, &into));
            }
        });
        Self { seen, address }
    }

    /// What pods connect to.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// What applications saw of a topic's queues so far.
    pub fn history(&self, topic: &str) -> History {
        let seen = lock(&self.seen);
        let ours = |queue: &str| topic_of(queue) == topic;
        let mut posts = BTreeSet::new();
        let events = seen.events.iter().filter(|event| match event {
            Event::Start { queue, post, .. } => ours(queue) && posts.insert(Arc::clone(post)),
            Event::End { post, .. } => posts.contains(post),
            Event::Published { .. } | Event::Commit { .. } | Event::Final { .. } | Event::Fault { .. } => {
                false
            }
        });
        events.cloned().collect::<Vec<_>>().into()
    }

    /// How many requests of a topic were answered 2xx so far.
    pub fn done(&self, topic: &str) -> usize {
        lock(&self.seen).done.get(topic).copied().unwrap_or_default()
    }

    /// The marks of a pod.
    pub fn marks(&self, pod: &str) -> Vec<Mark> {
        lock(&self.seen).marks.iter().filter(|mark| mark.pod == pod).cloned().collect()
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A queue's name begins with its topic, and a slash; where the broker knows no topics, with what its queues have in common,
/// and a dash before the number.
fn topic_of(queue: &str) -> &str {
    queue.split_once('/').or_else(|| queue.rsplit_once('-')).map_or("", |(topic, _)| topic)
}

/// Takes one application's lines until it ends. Requests that were running then are broken.
fn collect(stream: TcpStream, seen: &Mutex<Seen>) {
    let mut open: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if let Ok(mark) = line.parse() {
            lock(seen).marks.push(mark);
            continue;
        }
        let event: Event =
            line.parse().unwrap_or_else(|error| panic!("the application sent {line}: {error}"));
        let mut seen = lock(seen);
        if let Event::Start { post, queue, .. } = &event {
            open.insert(Arc::clone(post), Arc::clone(queue));
        } else if let Event::End { post, outcome, .. } = &event
            && let Some(queue) = open.remove(post)
            && outcome.is_done()
        {
            *seen.done.entry(topic_of(&queue).to_owned()).or_default() += 1;
        }
        seen.events.push(event);
    }
    let broken = open.into_keys().map(|post| Event::End { at: now_micros(), post, outcome: Outcome::Broken });
    lock(seen).events.extend(broken);
}
