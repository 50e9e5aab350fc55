//! Follows the mounted files: hot fields and rotated secrets apply at once, cold ones are told.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError},
    time::Duration,
};

use lockstep_contract::{ConsumerGroup, LogLevel as Level, names::files};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};
use tracing::{error, info, warn};

use super::{Plan, SecretProblem, Shared, StartError, allowed_drain};
use crate::{
    config::{Assignment, Origin, Watch, cold_changes, delivery_settings, engine_config, health_settings},
    deliver::{Endpoint, Http, SourceInfo},
    health::HealthGate,
    runtime::Command,
    telemetry::LogLevel,
};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is needed to apply a change.
#[derive(Debug)]
pub(super) struct Reload {
    origin: Origin,
    /// The group that the process started with, for its cold fields.
    started_with: ConsumerGroup,
    /// The group in force.
    group: ConsumerGroup,
    secrets: PathBuf,
    callback: Option<Endpoint>,
    source: SourceInfo,
    /// What the process started with, for what the manifest does not say.
    engine: lockstep_core::Config,
    /// The longest drain so far: an attempt that runs may have begun under a longer timeout.
    drain_timeout: Duration,
    log_level: LogLevel,
    shared: Arc<Shared>,
    http: Arc<Http>,
    gate: Arc<HealthGate>,
}

impl Reload {
    pub(super) fn new(
        plan: &Plan,
        shared: Arc<Shared>,
        engine: lockstep_core::Config,
        drain_timeout: Duration,
        http: Arc<Http>,
        gate: Arc<HealthGate>,
    ) -> Self {
        Self {
            origin: plan.origin.clone(),
            started_with: plan.loaded.group.clone(),
            group: plan.loaded.group.clone(),
            secrets: plan.secrets.clone(),
            callback: plan.callback.clone(),
            source: plan.source.clone(),
            engine,
            drain_timeout,
            log_level: plan.log_level.clone(),
            shared,
            http,
            gate,
        }
    }

    pub(super) async fn run(mut self, mut assignment: Assignment, commands: mpsc::Sender<Command>) {
        let mut manifest = Watch::new(self.origin.files());
        let folders = [files::HEADERS, files::SIGNING, files::CREDENTIALS, files::TLS_CA, files::TLS_CLIENT];
        let mut secrets = Watch::new(folders.map(|below| self.secrets.join(below)).into());
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What changed between the start's reading and the watches counts as a change.
        let mut unseen = true;
        loop {
            ticks.tick().await;
            assignment.look();
            let (changed, rotated) = (manifest.changed() || unseen, secrets.changed() || unseen);
            unseen = false;
            if changed
                && let Some(command) = self.manifest_changed()
                && commands.send(command).await.is_err()
            {
                return;
            }
            if rotated || changed {
                self.apply_delivery();
                self.look_at_source();
            }
        }
    }

    /// Reads the manifest again; a faulty one leaves the former in force.
    fn manifest_changed(&mut self) -> Option<Command> {
        let loaded = match self.origin.load() {
            Ok(loaded) => loaded,
            Err(problem) => {
                error!("the changed manifest is not applied, the former one stays in force: {problem}");
                self.config(|config| config.error = Some(problem.to_string()));
                return None;
            }
        };
        let cold = cold_changes(&self.started_with, &loaded.group);
        if !cold.is_empty() {
            warn!(fields = cold.join(", "), "these changes need a restart; the others are applied");
        }
        self.config(|config| {
            config.hot_hash = loaded.hot_hash;
            config.error =
                (!cold.is_empty()).then(|| format!("these changes need a restart: {}", cold.join(", ")));
            config.warnings = loaded.warnings.into_iter().take(super::WARNINGS_MAX).collect();
        });
        if loaded.group == self.group {
            return None;
        }
        let level = loaded.group.spec.sidecar.log_level;
        if level != self.group.spec.sidecar.log_level {
            info!(?level, "log level changed");
            // The words of the contract are those of the logs.
            self.log_level.set(level_name(level)).ok();
        }
        self.group = loaded.group;
        match health_settings(&self.with_cold_fields(), self.callback.as_ref()) {
            Ok(settings) => self.gate.set_settings(settings),
            Err(problem) => warn!("the health check stays as it is: {problem}"),
        }
        let lockstep_core::Config { capabilities, seed, quiet_until, .. } = self.engine;
        let group = self.with_cold_fields();
        let engine = Box::new(engine_config(&group, capabilities, seed, quiet_until));
        self.drain_timeout = self.drain_timeout.max(allowed_drain(&group));
        Some(Command::Reload { engine, drain_timeout: self.drain_timeout })
    }

    /// The group in force: hot fields as they are now, cold ones as at the start.
    fn with_cold_fields(&self) -> ConsumerGroup {
        let mut group = self.started_with.clone();
        let (to, from) = (&mut group.spec, &self.group.spec);
        to.state = from.state;
        to.retry = from.retry.clone();
        to.sidecar.log_level = from.sidecar.log_level;
        to.delivery.timeout = from.delivery.timeout;
        to.delivery.max_in_flight = from.delivery.max_in_flight;
        to.delivery.status_codes = from.delivery.status_codes.clone();
        to.delivery.health_check = from.delivery.health_check.clone();
        group
    }

    /// Uses the delivery's secrets as they are now. Those that can't be used leave the former ones in force.
    fn apply_delivery(&self) {
        let group = self.with_cold_fields();
        let settings = delivery_settings(&group, self.callback.as_ref(), self.source.clone(), &self.secrets);
        let applied = settings
            .map_err(StartError::from)
            .and_then(|settings| Ok(self.http.set_settings(&settings)?))
            .map_err(|error| SecretProblem::of(&error).ok_or(error));
        let problem = match applied {
            Ok(()) => None,
            Err(Ok(problem)) => Some(problem),
            Err(Err(error)) => return warn!(%error, "the delivery stays as it is"),
        };
        let complete = problem.is_none();
        let (former, waited, effect) = {
            let mut secrets = self.shared.secrets();
            let waited = secrets.waiting && complete;
            secrets.waiting &= !complete;
            let effect = if secrets.waiting { "nothing is delivered" } else { "the former ones stay in use" };
            (std::mem::replace(&mut secrets.delivery, problem.clone()), waited, effect)
        };
        told("the delivery's secrets", effect, former.as_ref(), problem.as_ref());
        if waited && let Ok(settings) = health_settings(&group, self.callback.as_ref()) {
            // Asks the application at once, so that delivery begins.
            self.gate.set_settings(settings);
        }
    }

    /// The adapter reads its secrets at each connect; what is missing is told here by name.
    fn look_at_source(&self) {
        let problem = SecretProblem::of_source(&self.started_with, &self.secrets);
        let former = std::mem::replace(&mut self.shared.secrets().source, problem.clone());
        told("the source's secrets", "the next connection needs them", former.as_ref(), problem.as_ref());
    }

    fn config(&self, change: impl FnOnce(&mut lockstep_contract::ConfigStatus)) {
        change(&mut self.shared.config.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// One line for a change, none while it lasts.
fn told(whose: &str, effect: &str, former: Option<&SecretProblem>, now: Option<&SecretProblem>) {
    match now {
        Some(problem) if former != now => warn!(%problem, "{whose} can't be used; {effect}"),
        None if former.is_some() => info!("{whose} can be used"),
        Some(_) | None => {}
    }
}

/// A level by the name that logs know.
pub(crate) fn level_name(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    }
}
