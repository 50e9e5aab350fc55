//! The demonstration's application: a shop that handles orders over plain HTTP and writes down what it saw.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use lockstep_history::{Event, Outcome};
use serde::{Deserialize, Serialize};
use tokio::{net::TcpListener, sync::watch, time::sleep};

/// An order, which is the message's body.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) customer: String,
    pub(super) order: u32,
    /// What the shop makes of it.
    #[serde(default)]
    pub(super) trouble: Trouble,
}

/// How an order goes wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Trouble {
    /// It does not.
    #[default]
    None,
    /// The shop fails twice.
    FailsTwice,
    /// The shop can't make sense of it, ever.
    Nonsense,
}

/// One handled request.
#[derive(Debug, Clone)]
pub(super) struct Handled {
    pub(super) after: Duration,
    pub(super) order: Order,
    pub(super) attempt: u32,
    pub(super) status: u16,
}

/// The shop.
#[derive(Debug, Clone)]
pub(super) struct Shop {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    began: Instant,
    log: Mutex<Log>,
    /// Requests handled so far.
    handled: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Log {
    handled: Vec<Handled>,
    events: Vec<Event>,
    posts: u64,
    /// How long an order takes.
    takes: Duration,
    /// Who sends now.
    consumer: Arc<str>,
    running: usize,
    most_running: usize,
}

/// A request under way; one that is dropped was cut off.
struct Request {
    shop: Shop,
    post: Arc<str>,
    done: bool,
}

impl Shop {
    pub(super) fn new() -> Self {
        let log = Log { takes: Duration::from_millis(25), ..Log::default() };
        let shared = Shared { began: Instant::now(), log: Mutex::new(log), handled: watch::Sender::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// Serves until it is dropped.
    pub(super) async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        let router =
            Router::new().route("/orders", post(take_order)).route("/healthz", get(async || "open\n"));
        axum::serve(listener, router.with_state(self)).await
    }

    /// From now on requests count as this consumer's.
    pub(super) fn set_consumer(&self, name: &str) {
        self.log().consumer = Arc::from(name);
    }

    pub(super) fn set_pace(&self, takes: Duration) {
        self.log().takes = takes;
    }

    /// Microseconds since the demonstration began.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.shared.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits until so many requests are handled in total.
    pub(super) async fn handled(&self, count: usize) {
        let mut handled = self.shared.handled.subscribe();
        // The sender lives as long as the shop.
        drop(handled.wait_for(|handled| *handled >= count).await);
    }

    pub(super) fn count(&self) -> usize {
        *self.shared.handled.borrow()
    }

    /// Requests handled since `from`.
    pub(super) fn since(&self, from: usize) -> Vec<Handled> {
        self.log().handled.get(from..).unwrap_or_default().to_vec()
    }

    /// The most requests that ran at once since the last call.
    pub(super) fn most_running(&self) -> usize {
        std::mem::take(&mut self.log().most_running)
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.log().events.clone()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, headers: &HeaderMap) -> (Request, u32, Duration) {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let attempt = text("lockstep-attempt").parse().unwrap_or(0);
        let at = self.now();
        let mut log = self.log();
        log.posts += 1;
        log.running += 1;
        log.most_running = log.most_running.max(log.running);
        let post: Arc<str> = Arc::from(format!("request {}", log.posts));
        let start = Event::Start {
            at,
            post: Arc::clone(&post),
            queue: Arc::from(text("lockstep-queue")),
            position: text("lockstep-position").parse().unwrap_or(u64::MAX),
            attempt,
            consumer: Arc::clone(&log.consumer),
            epoch: text("lockstep-lease-epoch").parse().ok(),
        };
        log.events.push(start);
        (Request { shop: self.clone(), post, done: false }, attempt, log.takes)
    }
}

async fn take_order(State(shop): State<Shop>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let (mut request, attempt, takes) = shop.begin(&headers);
    sleep(takes).await;
    let Ok(order) = serde_json::from_slice::<Order>(&body) else {
        request.end(StatusCode::BAD_REQUEST);
        return StatusCode::BAD_REQUEST;
    };
    let status = match order.trouble {
        Trouble::FailsTwice if attempt <= 2 => StatusCode::INTERNAL_SERVER_ERROR,
        Trouble::Nonsense => StatusCode::UNPROCESSABLE_ENTITY,
        Trouble::None | Trouble::FailsTwice => StatusCode::OK,
    };
    request.end(status);
    let after = shop.shared.began.elapsed();
    shop.log().handled.push(Handled { after, order, attempt, status: status.as_u16() });
    shop.shared.handled.send_modify(|handled| *handled += 1);
    status
}

impl Request {
    fn end(&mut self, status: StatusCode) {
        self.finish(Outcome::Answered(status.as_u16()));
    }

    fn finish(&mut self, outcome: Outcome) {
        self.done = true;
        let at = self.shop.now();
        let mut log = self.shop.log();
        log.running = log.running.saturating_sub(1);
        log.events.push(Event::End { at, post: Arc::clone(&self.post), outcome });
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.done {
            self.finish(Outcome::Broken);
        }
    }
}

/// The orders of each customer in the order in which they were done.
pub(super) fn by_customer(handled: &[Handled]) -> BTreeMap<&str, Vec<u32>> {
    let mut lines: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for one in handled.iter().filter(|one| one.status == 200) {
        lines.entry(&one.order.customer).or_default().push(one.order.order);
    }
    lines
}
