//! A sidecar around one source: delivery, health gate, admin port, reloading and signals, with the loop in the middle.

mod reload;
mod secrets;
mod signals;

use std::{
    env, io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use lockstep_broker::{Broker, Clock};
use lockstep_contract::{ConfigStatus, ConsumerGroup, names};
use lockstep_model::{Capabilities, DeadLetterBy};
use thiserror::Error;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::timeout,
};
use tracing::{info, warn};

use crate::{
    admin::{self, Admin, AdminError},
    config::{
        Assignment, DeliveryError, Loaded, Origin, delivery_settings, drain_bound, drain_timeout,
        engine_config, health_settings, in_pod,
    },
    deliver::{Endpoint, Http, Settings, SettingsError, SourceInfo},
    health::HealthGate,
    metrics::Metrics,
    runtime::{self, Command, Ended, Setup},
    state::{State, unix_ms},
    telemetry::LogLevel,
};
use reload::Reload;
pub(crate) use reload::level_name;
use secrets::{SecretProblem, Secrets};
pub use signals::Signals;

/// Commands that wait for the loop; beyond it whoever asks waits.
const COMMANDS: usize = 64;
/// How long answers of the admin port may still be written at the end.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Warnings of the manifest that `/status` shows, as the contract says.
const WARNINGS_MAX: usize = 16;
/// Kubernetes' default of `terminationGracePeriodSeconds`.
const GRACE_SECONDS: u64 = 30;

/// What a sidecar runs with, whatever its source.
#[derive(Debug)]
pub struct Plan {
    /// Where the manifest came from, to follow its changes.
    pub origin: Origin,
    /// The manifest.
    pub loaded: Loaded,
    /// The queues that the operator has chosen for this pod.
    pub assignment: Assignment,
    /// The folder with the secrets.
    pub secrets: PathBuf,
    /// Where to POST instead of what the manifest says.
    pub callback: Option<Endpoint>,
    /// How the source is named to the application.
    pub source: SourceInfo,
    /// What survived from an earlier life.
    pub state: State,
    /// This member's name.
    pub client_id: String,
    /// The logs' level.
    pub log_level: LogLevel,
    /// The process's clock.
    pub clock: Clock,
}

/// The sidecar can't start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The delivery can't be set up.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    /// The delivery's settings can't be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The admin port can't be opened.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// Signals can't be listened to.
    #[error("failed to listen to signals: {0}; start the sidecar again")]
    Signals(io::Error),
    /// The source has no dead-letter queue.
    #[error(
        "retry.whenExhausted or retry.undecodable is DeadLetter, but the source has no dead-letter queue; \
         use Block or Skip"
    )]
    NoDeadLetters,
}

/// What several tasks of the sidecar share.
#[derive(Debug)]
struct Shared {
    config: Mutex<ConfigStatus>,
    /// Until the delivery's were complete once, the application counts as unhealthy.
    secrets: Mutex<Secrets>,
}

/// Runs until a drain is over.
pub async fn serve<B: Broker>(broker: B, plan: Plan) -> Result<Ended, StartError> {
    // First of all, so that no signal is missed.
    let signals = Signals::new().map_err(StartError::Signals)?;
    let group = plan.loaded.group.clone();
    let capabilities = broker.capabilities();
    can_dead_letter(&group, capabilities)?;
    let (settings, http, problem) = first_delivery(&plan)?;
    let http = Arc::new(http);
    let gate = Arc::new(HealthGate::new(health_settings(&group, plan.callback.as_ref())?));
    let shared = Arc::new(Shared::new(&plan.loaded, problem));
    let (commands, receiver) = mpsc::channel(COMMANDS);
    let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION")));
    let ready = Arc::new(AtomicBool::new(false));
    let (watch_closely, closely) = watch::channel(false);
    let (stop, stopped) = watch::channel(());

    let admin = Admin {
        commands: commands.clone(),
        metrics: Arc::clone(&metrics),
        ready: Arc::clone(&ready),
        log_level: plan.log_level.clone(),
        group_uid: group_uid(&group),
        identify: identity(&group.metadata.name, &plan.client_id, &shared),
    };
    let (port, server) = admin::listen(group.spec.sidecar.admin_port, admin, stopped).await?;
    let mut server = tokio::spawn(server);

    let engine = first_engine_config(&plan, capabilities);
    info!(
        group = group.metadata.name,
        client_id = plan.client_id,
        admin_port = port,
        host = settings.endpoint.host,
        port = settings.endpoint.port,
        path = settings.endpoint.path,
        version = env!("CARGO_PKG_VERSION"),
        "lockstep-sidecar started"
    );

    let mut tasks = JoinSet::new();
    tasks.spawn(tell_health(Arc::clone(&gate), Arc::clone(&shared), commands.clone()));
    tasks.spawn(poll_closely(Arc::clone(&gate), closely));
    let asked = Arc::clone(&gate);
    tasks.spawn(async move { asked.run().await });
    let drain_timeout = allowed_drain(&group);
    let reload = Reload::new(&plan, shared, engine.clone(), drain_timeout, Arc::clone(&http), gate);
    tasks.spawn(reload.run(plan.assignment, commands.clone()));
    let (came, signalled) = oneshot::channel();
    tasks.spawn(signals::drain_at_signal(signals, commands, came));

    let setup = Setup {
        clock: plan.clock,
        engine,
        drain_timeout,
        shutdown_time: shutdown_time(),
        state: plan.state,
        metrics,
        ready,
        watch_closely,
    };
    let ended = runtime::run(broker, http, setup, receiver).await;
    tell_end(ended);
    outlive_the_application(signalled, drain_timeout).await;
    info!("lockstep-sidecar ended");
    tasks.shutdown().await;
    drop(stop);
    if timeout(LAST_WORDS, &mut server).await.is_err() {
        server.abort();
    }
    Ok(ended)
}

fn tell_end(ended: Ended) {
    match ended {
        Ended::Drained => info!("drained: nothing is in flight, every queue is given back"),
        Ended::Cut => warn!(
            "attempts were cut, their messages are delivered again; raise drain.timeoutSeconds when this happens in \
             a drain"
        ),
    }
}

impl Shared {
    fn new(loaded: &Loaded, delivery: Option<SecretProblem>) -> Self {
        let config = ConfigStatus {
            cold_hash: loaded.cold_hash.clone(),
            hot_hash: loaded.hot_hash.clone(),
            error: None,
            warnings: loaded.warnings.iter().take(WARNINGS_MAX).cloned().collect(),
        };
        let secrets = Secrets { waiting: delivery.is_some(), delivery, source: None };
        Self { config: Mutex::new(config), secrets: Mutex::new(secrets) }
    }

    fn secrets(&self) -> MutexGuard<'_, Secrets> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn group_uid(group: &ConsumerGroup) -> Option<Arc<str>> {
    let given = env::var(names::env::GROUP_UID).ok();
    given.or_else(|| group.metadata.uid.clone()).map(Arc::from)
}

/// The engine's settings at the start.
fn first_engine_config(plan: &Plan, capabilities: Capabilities) -> lockstep_core::Config {
    // Members start at different times in different processes, so their jitter differs too; it is no secret.
    let seed = unix_ms().unsigned_abs() ^ (u64::from(std::process::id()) << 32);
    let unclean = plan.state.unclean();
    if let Some(longest) = unclean {
        let seconds = longest.as_secs();
        warn!(seconds, "the last process ended uncleanly: what it may still have running is waited for");
    }
    let quiet_until = unclean.map(|longest| plan.clock.now() + longest);
    engine_config(&plan.loaded.group, capabilities, seed, quiet_until)
}

/// The delivery. In a pod a secret that is missing or can't be used is waited for, since it may come or change while the
/// pod lives.
fn first_delivery(plan: &Plan) -> Result<(Settings, Http, Option<SecretProblem>), StartError> {
    let make = |group: &ConsumerGroup| {
        let (callback, source) = (plan.callback.as_ref(), plan.source.clone());
        let settings = delivery_settings(group, callback, source, &plan.secrets)?;
        let http = Http::new(&settings, plan.clock)?;
        Ok::<_, StartError>((settings, http))
    };
    let error = match make(&plan.loaded.group) {
        Ok((settings, http)) => return Ok((settings, http, None)),
        Err(error) => error,
    };
    let Some(problem) = SecretProblem::of(&error).filter(|_| in_pod()) else { return Err(error) };
    warn!(%error, "nothing is delivered before this secret can be used");
    let mut without = plan.loaded.group.clone();
    without.spec.delivery.headers_secret_ref = None;
    without.spec.delivery.signing = None;
    let (settings, http) = make(&without)?;
    Ok((settings, http, Some(problem)))
}

/// How long a drain may take, and a warning when this pod has no time for all of it.
fn allowed_drain(group: &ConsumerGroup) -> Duration {
    let allowed = drain_timeout(group, drain_bound());
    if allowed < group.drain_timeout() {
        let (seconds, wanted) = (allowed.as_secs(), group.drain_timeout().as_secs());
        warn!(
            seconds,
            wanted,
            "a drain is cut at what this pod was built with, which the timeout has outgrown: what is cut is delivered \
             again; kubectl rollout restart does not change it, a change of the pod template does"
        );
    }
    allowed
}

fn can_dead_letter(group: &ConsumerGroup, capabilities: Capabilities) -> Result<(), StartError> {
    use lockstep_contract::{Undecodable, WhenExhausted};
    let wanted = group.when_exhausted() == WhenExhausted::DeadLetter
        || group.spec.retry.undecodable == Undecodable::DeadLetter;
    match capabilities.dead_letter {
        DeadLetterBy::Unsupported if wanted => Err(StartError::NoDeadLetters),
        DeadLetterBy::Unsupported | DeadLetterBy::Broker => Ok(()),
    }
}

fn identity(group: &str, client_id: &str, shared: &Arc<Shared>) -> admin::Identify {
    let (group, client_id, started_ms) = (group.to_owned(), client_id.to_owned(), unix_ms());
    let shared = Arc::clone(shared);
    Arc::new(move |status| {
        status.group.clone_from(&group);
        status.client_id.clone_from(&client_id);
        status.started_ms = started_ms;
        status.config = shared.config.lock().unwrap_or_else(PoisonError::into_inner).clone();
        shared.secrets().tell(status);
    })
}

/// The application's shutdown time, as the operator tells it.
fn shutdown_time() -> Duration {
    let seconds = env::var(names::env::APPLICATION_GRACE_SECONDS).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(GRACE_SECONDS))
}

/// In a pod the drain that a hook began may be over while the application still runs: its own hook asks here until
/// nothing is in flight. SIGTERM comes when the application has ended. A pod would be killed by then, so without one
/// nobody ends this pod, and a new process takes up the work.
async fn outlive_the_application(signalled: oneshot::Receiver<()>, drain_timeout: Duration) {
    if !in_pod() {
        return;
    }
    if timeout(drain_timeout + shutdown_time(), signalled).await.is_err() {
        warn!("a drain was asked for and no SIGTERM followed: the pod does not end; beginning anew");
    }
}

/// Tells the loop the outcome of each health check. An application that is not healthy is asked quickly, so that its
/// queues wait no longer than they must.
async fn tell_health(gate: Arc<HealthGate>, shared: Arc<Shared>, commands: mpsc::Sender<Command>) {
    let mut health = gate.watch();
    let mut fast = Some(gate.poll_fast());
    while health.changed().await.is_ok() {
        let health = health.borrow_and_update().clone();
        fast = (!health.healthy).then(|| fast.take().unwrap_or_else(|| gate.poll_fast()));
        let missing = {
            let secrets = shared.secrets();
            secrets
                .delivery
                .as_ref()
                .filter(|_| secrets.waiting)
                .map(|problem| Arc::from(problem.to_string()))
        };
        let command = Command::Checked {
            passed: health.problem.is_none(),
            healthy: health.healthy && missing.is_none(),
            problem: missing.or(health.problem),
        };
        if commands.send(command).await.is_err() {
            return;
        }
    }
}

/// Has the application's health asked quickly while the loop wants it.
async fn poll_closely(gate: Arc<HealthGate>, mut closely: watch::Receiver<bool>) {
    let mut fast = None;
    while closely.changed().await.is_ok() {
        let wanted = *closely.borrow_and_update();
        fast = wanted.then(|| fast.take().unwrap_or_else(|| gate.poll_fast()));
    }
}
