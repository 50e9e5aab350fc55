use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lockstep_broker::{Broker, Clock};
use lockstep_contract::Status;
use lockstep_core::{
    Backoff, ByHand, Config, DataLossPolicy, OrderingMode, RunState, StatusCodes, UndecodablePolicy,
    WhenExhausted,
};
use lockstep_model::Capabilities;
use lockstep_sidecar::{
    metrics::Metrics,
    runtime::{self, ByHandError, Command, Ended, Setup},
    state::State,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

use crate::App;

/// How long a drain may take.
const DRAIN: Duration = Duration::from_secs(10);

/// One sidecar. Dropping it is a crash.
#[derive(Debug)]
pub struct Member {
    /// Its client id.
    pub name: String,
    task: Option<JoinHandle<Ended>>,
    commands: mpsc::Sender<Command>,
    ready: Arc<AtomicBool>,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// Whether the application's health is to be asked quickly.
    pub watch_closely: watch::Receiver<bool>,
}

/// Settings that most tests use: in order, quick retries.
pub fn config(capabilities: Capabilities, mode: OrderingMode, seed: u64) -> Config {
    Config {
        mode,
        capabilities,
        seed,
        state: RunState::Running,
        max_in_flight: 32,
        timeout: Duration::from_secs(5),
        max_attempts: 16,
        backoff: Backoff::Exponential { initial: Duration::from_millis(100), max: Duration::from_secs(5) },
        retry_after_max: Duration::from_secs(300),
        when_exhausted: WhenExhausted::Block,
        undecodable: UndecodablePolicy::Block,
        on_data_loss: DataLossPolicy::Continue,
        status_codes: StatusCodes::default(),
        hand_over: Duration::from_secs(30),
        buffer_count: 256,
        buffer_bytes: 1 << 20,
        span: 512,
        storm: 5,
        quiet_until: None,
        blocked_age: Duration::from_secs(300),
    }
}

impl Member {
    /// Starts a sidecar whose application is healthy.
    pub async fn start<B: Broker>(name: &str, broker: B, app: &App, clock: Clock, config: Config) -> Self {
        let member = Self::start_with(name, broker, app, clock, config, State::none());
        member.health(true).await;
        member
    }

    /// Starts a sidecar with a state folder, as the binary does; its application was not asked yet.
    pub fn start_in<B: Broker>(
        name: &str,
        broker: B,
        app: &App,
        clock: Clock,
        mut config: Config,
        folder: &Path,
    ) -> Self {
        let state = State::open(folder);
        config.quiet_until = state.unclean().map(|timeout| clock.now() + timeout);
        Self::start_with(name, broker, app, clock, config, state)
    }

    fn start_with<B: Broker>(
        name: &str,
        broker: B,
        app: &App,
        clock: Clock,
        engine: Config,
        state: State,
    ) -> Self {
        let (commands, receiver) = mpsc::channel(64);
        let (closely, watch_closely) = watch::channel(false);
        let metrics = Arc::new(Metrics::new("test"));
        let ready = Arc::new(AtomicBool::new(false));
        let setup = Setup {
            clock,
            engine,
            drain_timeout: DRAIN,
            shutdown_time: Duration::from_secs(30),
            state,
            metrics: Arc::clone(&metrics),
            ready: Arc::clone(&ready),
            watch_closely: closely,
        };
        let task = tokio::spawn(runtime::run(broker, app.callback(name), setup, receiver));
        Self { name: name.to_owned(), task: Some(task), commands, ready, metrics, watch_closely }
    }

    /// Tells the application's health.
    pub async fn health(&self, healthy: bool) {
        let problem = (!healthy).then(|| Arc::from("connection refused"));
        self.send(Command::Checked { passed: healthy, healthy, problem }).await;
    }

    /// Sends a command.
    pub async fn send(&self, command: Command) {
        self.commands.send(command).await.expect("the member must be running");
    }

    /// Applies hot settings.
    pub async fn reload(&self, config: Config) {
        self.send(Command::Reload { engine: Box::new(config), drain_timeout: DRAIN }).await;
    }

    /// Calls the application's shutdown hook.
    pub async fn hold(&self) -> oneshot::Receiver<()> {
        let (reply, quiet) = oneshot::channel();
        self.send(Command::Hold(reply)).await;
        quiet
    }

    /// The status document.
    pub async fn status(&self) -> Box<Status> {
        let (reply, status) = oneshot::channel();
        self.send(Command::Status(reply)).await;
        status.await.expect("the member must answer")
    }

    /// A person's way past a message.
    pub async fn by_hand(&self, queue: &str, id: &str, action: ByHand) -> Result<(), ByHandError> {
        let (reply, result) = oneshot::channel();
        let (queue, message_id) = (queue.to_owned(), id.to_owned());
        self.send(Command::ByHand { queue, message_id, action, reply }).await;
        result.await.expect("the member must answer")
    }

    /// Whether the pod is ready.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Begins a drain.
    pub async fn begin_drain(&self) {
        self.send(Command::Drain).await;
    }

    /// Waits for the end.
    pub async fn ended(mut self) -> Ended {
        let task = self.task.take().expect("a member must end once");
        task.await.expect("the loop must not panic")
    }

    /// Begins a drain and lets it go on by itself.
    pub async fn begin_drain_and_forget(mut self) {
        self.begin_drain().await;
        drop(self.task.take());
    }

    /// Drains and waits for the end.
    pub async fn drain(self) -> Ended {
        self.begin_drain().await;
        self.ended().await
    }

    /// Ends at once, as kill -9 does.
    pub async fn crash(mut self) {
        let task = self.task.take().expect("a member must end once");
        task.abort();
        let ended = task.await;
        assert!(ended.is_err_and(|error| error.is_cancelled()), "the loop must not have ended before");
    }

    /// Whether the loop has ended.
    pub fn is_over(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
