//! The operator as a process.

use std::{io, sync::Arc, time::Duration};

use kube::{Client, Config};
use thiserror::Error;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{oneshot, watch},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    Settings,
    args::RunArgs,
    controller::{self, Setup},
    definition,
    leader::{self, LeaderConfig, Leadership},
    metrics::Metrics,
    poll::Poller,
    server::{self, Probes, ServerError},
    telemetry,
};

/// The longest wait for a connection to the API server: one that is away answers nothing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The operator can't go on.
#[derive(Debug, Error)]
pub enum RunError {
    /// Logging is not possible.
    #[error("failed to start logging: {0}")]
    Logging(#[from] tracing_subscriber::util::TryInitError),
    /// There is no cluster.
    #[error(
        "failed to find a cluster: {0}; run in a pod with a service account, or name a kubeconfig with KUBECONFIG"
    )]
    NoCluster(#[source] kube::config::InferConfigError),
    /// A client can't be made.
    #[error("failed to make a client of the Kubernetes API: {0}; correct the certificates in the kubeconfig")]
    Client(#[source] kube::Error),
    /// The client of pods can't be made.
    #[error("failed to make a client of pods: {0}")]
    Poller(#[source] reqwest::Error),
    /// The port can't be opened.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The election can't be begun.
    #[error("failed to start the election: {0}")]
    Election(#[source] io::Error),
    /// Signals can't be received.
    #[error("failed to listen for signals: {0}")]
    Signals(#[source] io::Error),
    /// Another replica leads now.
    #[error(
        "the lease is lost: another replica of the operator leads, or the Kubernetes API was away; start it again"
    )]
    LeaseLost,
}

/// Looks after the groups until it is told to stop or loses the lease.
///
/// # Errors
///
/// The operator can't go on; started anew it follows until it leads again.
pub async fn run(args: RunArgs) -> Result<(), RunError> {
    telemetry::start(args.log_level, args.log_format)?;
    let mut signals = Signals::new().map_err(RunError::Signals)?;
    let mut config = Config::infer().await.map_err(RunError::NoCluster)?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let client = Client::try_from(config.clone()).map_err(RunError::Client)?;
    let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION")));
    let probes = Arc::new(Probes::default());
    let poller = Poller::new().map_err(RunError::Poller)?;
    let (serve_stop, lease_stop) = (CancellationToken::new(), CancellationToken::new());
    let served = server::listen(args.listen, Arc::clone(&metrics), Arc::clone(&probes), serve_stop.clone());
    let (address, server) = served.await?;
    let lease =
        LeaderConfig { namespace: args.namespace, name: args.lease_name, identity: args.identity.clone() };
    let (leadership, election) = elect(config, lease, lease_stop.clone()).await?;
    info!(version = env!("CARGO_PKG_VERSION"), %address, "operator started");
    let server = tokio::spawn(server);
    let definition = definition::follow(client.clone(), Arc::clone(&metrics));
    let setup = Setup {
        client,
        settings: Settings {
            sidecar_image: args.sidecar_image,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            upgrade_groups_max: usize::from(args.upgrade_groups),
        },
        namespaces: named(&args.watch_namespaces),
        identity: args.identity,
        poller,
        leadership,
        metrics,
        probes,
    };
    let result = tokio::select! {
        name = signals.next() => {
            info!(signal = name, "stopping");
            Ok(())
        }
        error = lead(setup) => Err(error),
        // What it says holds up nothing.
        never = definition => match never {},
    };
    // Nothing writes any more: the lease can go to another replica. Neither ends by a panic of ours.
    lease_stop.cancel();
    election.await.ok();
    serve_stop.cancel();
    server.await.ok();
    info!("stopped");
    result
}

/// Takes part in the election on a thread of its own: however busy the reconciliations are, the lease is renewed in
/// time. The receiver that is given back ends with the election.
async fn elect(
    config: Config,
    lease: LeaderConfig,
    stop: CancellationToken,
) -> Result<(watch::Receiver<Leadership>, oneshot::Receiver<()>), RunError> {
    let (told, begun) = oneshot::channel();
    let (ending, ended) = oneshot::channel::<()>();
    let election = move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            // Whoever waits has left only if the process ends.
            Err(error) => return drop(told.send(Err(RunError::Election(error)))),
        };
        runtime.block_on(async move {
            match Client::try_from(config) {
                Ok(client) => {
                    let (leadership, election) = leader::elect(client, lease, stop);
                    told.send(Ok(leadership)).ok();
                    election.await;
                }
                Err(error) => drop(told.send(Err(RunError::Client(error)))),
            }
        });
        drop(ending);
    };
    let thread = std::thread::Builder::new().name("election".to_owned());
    thread.spawn(election).map_err(RunError::Election)?;
    let leadership = begun.await.map_err(|_| RunError::LeaseLost)??;
    Ok((leadership, ended))
}

/// Waits for the lease and reconciles while it lasts. What was under way at its loss is dropped.
async fn lead(setup: Setup) -> RunError {
    let mut leadership = setup.leadership.clone();
    let (metrics, probes) = (Arc::clone(&setup.metrics), Arc::clone(&setup.probes));
    if until(&mut leadership, |state| !matches!(state, Leadership::Follower)).await == Some(Leadership::Lost)
    {
        return RunError::LeaseLost;
    }
    metrics.leader.set(1);
    tokio::select! {
        biased;
        _ = until(&mut leadership, |state| matches!(state, Leadership::Lost)) => {}
        () = controller::run(setup) => {}
    }
    metrics.leader.set(0);
    metrics.forget_groups();
    probes.rest();
    RunError::LeaseLost
}

/// Waits until the state is as asked for. An election that ended counts as a lost one.
async fn until(
    leadership: &mut watch::Receiver<Leadership>,
    is: impl FnMut(&Leadership) -> bool,
) -> Option<Leadership> {
    match leadership.wait_for(is).await {
        Ok(state) => Some(*state),
        Err(_) => Some(Leadership::Lost),
    }
}

/// The names that are given: an empty variable is no namespace.
fn named(namespaces: &[String]) -> Vec<String> {
    let names = namespaces.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// What asks the process to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_of_namespaces_names_none() {
        let given = |names: &[&str]| named(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(given(&[""]), [""; 0]);
        assert_eq!(given(&["b", " a", "b", ""]), ["a", "b"]);
    }
}
