use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lockstep_broker::Clock;
use lockstep_core::{AttemptResult, HttpAnswer, TransportFailure};
use lockstep_history::{Event, History, Outcome};
use lockstep_sidecar::deliver::{AttemptRequest, Attempted, Deliver};
use tokio::time::{sleep, timeout};

/// What the application does with one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How long it takes.
    pub takes: Duration,
    /// What it answers; `None` breaks the connection.
    pub answer: Option<HttpAnswer>,
}

/// Decides by message id and number of requests for it so far, from 1.
type Behaviour = Box<dyn FnMut(&str, u32) -> Plan + Send>;

/// The application: one for all members, as a backend behind their containers.
#[derive(Clone)]
pub struct App {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

struct State {
    behaviour: Behaviour,
    requests: BTreeMap<String, u32>,
    history: History,
    posts: u64,
    running: usize,
    /// Members whose application is down.
    down: Vec<String>,
}

/// The delivery of one member.
pub struct Callback {
    app: App,
    consumer: Arc<str>,
}

/// A request that is being handled; it ends broken when dropped.
struct Post {
    app: App,
    name: Arc<str>,
    ended: bool,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").field("consumer", &self.consumer).finish_non_exhaustive()
    }
}

impl Plan {
    /// Answers a status after a time.
    pub fn answer(status: u16, takes: Duration) -> Self {
        Self { takes, answer: Some(HttpAnswer { status, ..HttpAnswer::default() }) }
    }

    /// Answers 200 after a millisecond.
    pub fn ok() -> Self {
        Self::answer(200, Duration::from_millis(1))
    }
}

impl App {
    /// An application that answers 200 to everything.
    pub fn new(clock: Clock) -> Self {
        let state = State {
            behaviour: Box::new(|_, _| Plan::ok()),
            requests: BTreeMap::new(),
            history: History::default(),
            posts: 0,
            running: 0,
            down: Vec::new(),
        };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// Changes what it does.
    pub fn behave(&self, behaviour: impl FnMut(&str, u32) -> Plan + Send + 'static) {
        self.state().behaviour = Box::new(behaviour);
    }

    /// Takes one member's application down or up: connections are refused.
    pub fn set_up(&self, member: &str, up: bool) {
        let mut state = self.state();
        state.down.retain(|down| down != member);
        if !up {
            state.down.push(member.to_owned());
        }
    }

    /// The delivery of a member.
    pub fn callback(&self, member: &str) -> Arc<Callback> {
        Arc::new(Callback { app: self.clone(), consumer: Arc::from(member) })
    }

    /// Requests so far.
    pub fn posts(&self) -> u64 {
        self.state().posts
    }

    /// Requests running now.
    pub fn running(&self) -> usize {
        self.state().running
    }

    /// Requests for one message so far.
    pub fn requests_for(&self, id: &str) -> u32 {
        self.state().requests.get(id).copied().unwrap_or(0)
    }

    /// What it saw.
    pub fn history(&self) -> History {
        self.state().history.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos() / 1_000
    }

    fn begin(&self, request: &AttemptRequest, consumer: &Arc<str>) -> (Post, Plan) {
        let at = self.now();
        let mut state = self.state();
        let State { behaviour, requests, history, posts, running, .. } = &mut *state;
        *posts += 1;
        *running += 1;
        let id = request.delivery.message.id.as_str();
        let count = requests.entry(id.to_owned()).or_default();
        *count += 1;
        let plan = behaviour(id, *count);
        let name: Arc<str> = Arc::from(format!("post-{posts}"));
        history.push(Event::Start {
            at,
            post: Arc::clone(&name),
            queue: Arc::clone(&request.queue_name),
            position: place(id).unwrap_or(request.delivery.position.0),
            attempt: request.number,
            consumer: Arc::clone(consumer),
            epoch: Some(request.epoch.0),
        });
        (Post { app: self.clone(), name, ended: false }, plan)
    }
}

/// The message's place in its queue, which the memory broker writes into its id; a channel's delivery numbers differ.
fn place(id: &str) -> Option<u64> {
    id.rsplit_once('-')?.1.parse().ok()
}

impl Deliver for Callback {
    async fn attempt(&self, request: AttemptRequest) -> Attempted {
        let down = self.app.state().down.iter().any(|down| *down == *self.consumer);
        if down {
            return failed(TransportFailure::Unreachable);
        }
        let (mut post, plan) = self.app.begin(&request, &self.consumer);
        if timeout(request.timeout, sleep(plan.takes)).await.is_err() {
            return failed(TransportFailure::TimedOut);
        }
        let Some(answer) = plan.answer else { return failed(TransportFailure::Broken) };
        post.end(Outcome::Answered(answer.status));
        Attempted { result: AttemptResult::Answered(answer), detail: None }
    }
}

fn failed(failure: TransportFailure) -> Attempted {
    Attempted { result: AttemptResult::Failed(failure), detail: None }
}

impl Post {
    fn end(&mut self, outcome: Outcome) {
        self.ended = true;
        let at = self.app.now();
        let mut state = self.app.state();
        state.running -= 1;
        state.history.push(Event::End { at, post: Arc::clone(&self.name), outcome });
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Outcome::Broken);
        }
    }
}
