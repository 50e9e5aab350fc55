//! Which of the operator's replicas leads: the one that holds a Lease.
//!
//! A leader stops [`RENEW_DEADLINE`] after the sending of its last successful renewal, by its own monotonic clock;
//! others take the Lease [`LEASE_DURATION`] after they saw it change last, by theirs. Since a renewal is sent before
//! it is seen, two never lead at once, whatever their clocks say and however slow the API is. A process that was
//! frozen has to ask [`Leadership::leads`] just before it writes.

mod api;
mod decide;
#[cfg(test)]
mod tests;

use std::{future::Future, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use api::{ApiError, InCluster, Leases};
use decide::{Decision, LEASE_DURATION, Sight, decide};

/// A leader that could not renew for so long leads no more. Shorter than the Lease, so that what it had begun ends
/// before another begins.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often a leader renews and a follower looks, and a fifth more at random.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// A renewal that failed is repeated after so long, since it may have taken a good part of the deadline to fail.
const REPEAT_PERIOD: Duration = Duration::from_millis(500);
/// After a lost race the winner is looked at so much later.
const RACE_PERIOD: Duration = Duration::from_millis(200);
/// How long the Lease may take to be given back at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// Where the Lease is and how this process is called in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderConfig {
    /// The Lease's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// This process's name; a number is added to it, so that a restarted container is never taken for its former life.
    pub identity: String,
}

/// Whether this process leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leadership {
    /// Another process leads, or none yet.
    Follower,
    /// This one leads. Each renewal moves the moment without a notification: borrow the channel's value to see it.
    Leader {
        /// The moment from which it leads no more unless it renews.
        until: Instant,
    },
    /// It led and leads no more, for good: the process must stop what it does and end.
    Lost,
}

impl Leadership {
    /// Whether this process leads at this moment.
    pub fn leads(self) -> bool {
        match self {
            Self::Leader { until } => Instant::now() < until,
            Self::Follower | Self::Lost => false,
        }
    }
}

/// Takes part in the election until leadership is lost or `stop` is cancelled; the future must run all the time.
/// Cancel `stop` when nothing writes any more: the Lease is given up at once, and another replica takes it within
/// seconds. Dropping the future instead leaves the Lease to run out.
pub fn elect(
    client: Client,
    config: LeaderConfig,
    stop: CancellationToken,
) -> (watch::Receiver<Leadership>, impl Future<Output = ()> + Send + 'static) {
    let api = Api::namespaced(client, &config.namespace);
    let seed = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
    let leases = InCluster { api, name: config.name.clone() };
    let (candidate, leadership) = Candidate::new(leases, config, seed);
    (leadership, candidate.run(stop))
}

/// One replica in the election.
#[derive(Debug)]
struct Candidate<L> {
    leases: L,
    name: String,
    me: String,
    state: watch::Sender<Leadership>,
    sight: Option<Sight>,
    /// The Lease as it was last written by us; `None` = only a look tells what there is.
    lease: Option<Lease>,
    /// The last write whose answer has not come, and when it was sent.
    unsure: Option<(LeaseSpec, Instant)>,
    random: u64,
    /// Whether the API has failed since it last answered, so that it is told once.
    failing: bool,
}

impl<L: Leases> Candidate<L> {
    fn new(leases: L, config: LeaderConfig, seed: u64) -> (Self, watch::Receiver<Leadership>) {
        let (state, receiver) = watch::channel(Leadership::Follower);
        let LeaderConfig { namespace: _, name, identity } = config;
        let me = format!("{identity}_{seed:016x}");
        let candidate = Self {
            leases,
            name,
            me,
            state,
            sight: None,
            lease: None,
            unsure: None,
            random: seed,
            failing: false,
        };
        (candidate, receiver)
    }

    async fn run(mut self, stop: CancellationToken) {
        loop {
            let deadline = self.deadline();
            let turn = async {
                let pause = self.turn().await;
                if !matches!(*self.state.borrow(), Leadership::Lost) {
                    sleep(pause).await;
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return self.release().await,
                () = passed(deadline) => self.lose("it could not be renewed in time; the Kubernetes API is slow or away"),
                () = turn => {}
            }
            if matches!(*self.state.borrow(), Leadership::Lost) {
                return;
            }
        }
    }

    fn leads(&self) -> bool {
        matches!(*self.state.borrow(), Leadership::Leader { .. })
    }

    fn deadline(&self) -> Option<Instant> {
        match *self.state.borrow() {
            Leadership::Leader { until } => Some(until),
            Leadership::Follower | Leadership::Lost => None,
        }
    }

    /// One renewal, or one look and what follows from it; answers how long to wait for the next.
    async fn turn(&mut self) -> Duration {
        let result = match self.lease.take() {
            Some(lease) => self.write(Some(lease)).await,
            None => self.look().await,
        };
        let result = match result {
            Err(ApiError::Conflict) if self.leads() => self.look().await,
            result => result,
        };
        match result {
            Ok(pause) => {
                self.failing = false;
                pause
            }
            Err(ApiError::Conflict) => jittered(RACE_PERIOD, &mut self.random),
            Err(problem @ (ApiError::Refused(_) | ApiError::Silent)) => {
                if !self.failing {
                    let lease = &self.name;
                    warn!(lease, error = %problem, "the Lease can't be read or renewed; it is tried again");
                }
                self.failing = true;
                let period = if self.leads() { REPEAT_PERIOD } else { RETRY_PERIOD };
                jittered(period, &mut self.random)
            }
        }
    }

    async fn look(&mut self) -> Result<Duration, ApiError> {
        let lease = self.leases.get().await?;
        let now = Instant::now();
        let spec = lease.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        if self.leads()
            && let Some((_, sent)) = self.unsure.take_if(|(written, _)| Some(&*written) == spec.as_ref())
        {
            // The renewal was done, only its answer got lost.
            self.extend(sent);
        }
        self.see(spec, now);
        let Some(sight) = &self.sight else { return Ok(RETRY_PERIOD) };
        match decide(sight, &self.me, self.leads(), now) {
            Decision::Take => self.write(lease).await,
            Decision::Wait(left) => Ok(jittered(RETRY_PERIOD, &mut self.random).min(left)),
            Decision::Stolen => {
                let holder = sight.holder().unwrap_or_default().to_owned();
                self.lose(&format!("{holder} took it"));
                Ok(Duration::ZERO)
            }
        }
    }

    /// Writes the Lease as ours, over the given one.
    async fn write(&mut self, over: Option<Lease>) -> Result<Duration, ApiError> {
        let sent = Instant::now();
        let mine = self.mine(over.as_ref());
        self.unsure = mine.spec.clone().map(|spec| (spec, sent));
        let written = match over {
            Some(_) => self.leases.replace(&mine).await?,
            None => self.leases.create(&mine).await?,
        };
        self.unsure = None;
        self.see(written.spec.clone(), Instant::now());
        self.lease = Some(written);
        if self.extend(sent) {
            info!(lease = self.name, identity = self.me, "this replica leads");
        }
        Ok(jittered(RETRY_PERIOD, &mut self.random))
    }

    /// Leads from a write that was sent at this moment; answers whether that is new.
    fn extend(&self, sent: Instant) -> bool {
        let led = self.leads();
        self.state.send_if_modified(|state| {
            *state = Leadership::Leader { until: sent + RENEW_DEADLINE };
            !led
        });
        !led
    }

    fn mine(&self, over: Option<&Lease>) -> Lease {
        let name = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        let before = over.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let kept = before.holder_identity.as_deref() == Some(self.me.as_str());
        let now = now();
        let transitions = before.lease_transitions.unwrap_or_default();
        let spec = LeaseSpec {
            holder_identity: Some(self.me.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            renew_time: Some(now.clone()),
            acquire_time: if kept { before.acquire_time.clone() } else { Some(now) },
            lease_transitions: Some(if kept { transitions } else { transitions.saturating_add(1) }),
            ..before
        };
        Lease { metadata: over.map_or(name, |lease| lease.metadata.clone()), spec: Some(spec) }
    }

    fn see(&mut self, spec: Option<LeaseSpec>, now: Instant) {
        let before = self.sight.take();
        let holder = before.as_ref().and_then(Sight::holder).map(str::to_owned);
        let sight = match before {
            Some(sight) => sight.again(spec, now),
            None => Sight::first(spec, now),
        };
        if sight.holder() != holder.as_deref()
            && let Some(leader) = sight.holder()
            && leader != self.me
        {
            info!(lease = self.name, leader, "another replica leads");
        }
        self.sight = Some(sight);
    }

    fn lose(&self, why: &str) {
        error!(lease = self.name, identity = self.me, "this replica leads no more: {why}");
        self.state.send_replace(Leadership::Lost);
    }

    /// Gives the Lease back. It is read first, since a write whose answer never came may have made it ours.
    async fn release(self) {
        let led = self.leads();
        if led {
            self.state.send_replace(Leadership::Lost);
        }
        let released = timeout(RELEASE_TIMEOUT, async {
            let Some(mut lease) = self.leases.get().await? else { return Ok(false) };
            let Some(spec) = lease.spec.as_mut() else { return Ok(false) };
            if spec.holder_identity.as_deref() != Some(self.me.as_str()) {
                return Ok(false);
            }
            spec.holder_identity = None;
            spec.renew_time = Some(now());
            self.leases.replace(&lease).await.map(|_| true)
        });
        match released.await {
            Ok(Ok(true)) => info!(lease = self.name, "the Lease is given back"),
            Ok(Ok(false)) => {}
            Ok(Err(problem)) => warn!(lease = self.name, error = %problem, "the Lease is left to run out"),
            Err(_) => warn!(lease = self.name, "the Kubernetes API is silent: the Lease is left to run out"),
        }
    }
}

/// For people, to the microsecond as the API keeps it.
fn now() -> MicroTime {
    let now = Timestamp::now();
    MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
}

async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// A fifth more at most, so that replicas that started together part.
fn jittered(period: Duration, random: &mut u64) -> Duration {
    // Knuth's linear congruential generator: its upper bits are random enough for this.
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let thousandths = u32::try_from((*random >> 33) % 200).unwrap_or_default();
    period + period * thousandths / 1000
}
