//! From a manifest and its secrets to the settings of engine, delivery and health; and what of them may change while
//! running.

mod activemq;
mod assignment;
mod delivery;
mod engine;
mod rabbitmq;
mod rocketmq;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use lockstep_broker::Clock;
use lockstep_contract::{
    ConsumerGroup, Heat, Mistakes, Parsed, Strictness, Warning, config_hash, names, parse, parse_mounted,
};
use thiserror::Error;

use crate::state::State;

pub use activemq::activemq_config;
pub use assignment::{Assignment, Hint};
pub use delivery::{DeliveryError, delivery_settings, health_settings};
pub use engine::{BUFFER_BYTES, BUFFER_COUNT, SPAN, STORM, engine_config};
pub use rabbitmq::rabbitmq_config;
pub use rocketmq::rocketmq_config;
pub use watch::Watch;

/// What an adapter's settings take besides the manifest.
#[derive(Debug)]
pub struct Member<'a> {
    /// The folder with the secrets.
    pub secrets: &'a Path,
    /// What survived from an earlier life.
    pub state: &'a State,
    /// This member's name.
    pub client_id: &'a str,
    /// The queues that are this member's to take, and each later word of it.
    pub hint: tokio::sync::watch::Receiver<Hint>,
    /// The process's clock.
    pub clock: Clock,
}

/// A manifest larger than this is not one: Kubernetes stores at most 1 MiB.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// Where the manifest comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// One file, given by a person.
    File(PathBuf),
    /// A cold and a hot file, mounted by the operator.
    Mounted {
        /// Changes only with a new pod.
        cold: PathBuf,
        /// Changes while the pod lives.
        hot: PathBuf,
    },
}

/// A manifest that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The group.
    pub group: ConsumerGroup,
    /// What was passed over.
    pub warnings: Vec<String>,
    /// Names the cold file's text.
    pub cold_hash: String,
    /// Names the hot file's text.
    pub hot_hash: String,
}

/// A manifest that can't be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file can't be read.
    #[error("failed to read {}: {source}; name a manifest with -f", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is too large to be a manifest.
    #[error("{} is larger than {MANIFEST_BYTES_MAX} bytes; name a manifest with -f", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// What is in it is wrong.
    #[error("{}", list(mistakes))]
    Mistakes {
        /// All that is wrong.
        mistakes: Mistakes,
    },
}

impl Origin {
    /// The given file, else what the operator mounts.
    pub fn of(file: Option<&Path>) -> Self {
        match file {
            Some(file) => Self::File(file.to_owned()),
            None => Self::Mounted { cold: names::files::COLD.into(), hot: names::files::HOT.into() },
        }
    }

    /// Reads and judges it: strictly for people, tolerantly in a pod.
    pub fn load(&self) -> Result<Loaded, ConfigError> {
        let (parsed, cold_hash, hot_hash) = match self {
            Self::File(file) => {
                let text = read(file)?;
                (parse(&text, strictness()), config_hash(&text), config_hash(&text))
            }
            Self::Mounted { cold, hot } => {
                let (cold, hot) = (read(cold)?, read(hot)?);
                (parse_mounted(&cold, &hot), config_hash(&cold), config_hash(&hot))
            }
        };
        let Parsed { group, warnings } = parsed.map_err(|mistakes| ConfigError::Mistakes { mistakes })?;
        let warnings = warnings.iter().map(Warning::to_string).collect();
        Ok(Loaded { group, warnings, cold_hash, hot_hash })
    }

    /// The admin port, from the cold file alone where that is enough: a faulty hot one must not keep the pod's own hook
    /// from finding the sidecar.
    pub fn admin_port(&self) -> u16 {
        let group = match self {
            Self::File(_) => self.load().ok().map(|loaded| loaded.group),
            Self::Mounted { cold, hot: _ } => {
                read(cold).ok().and_then(|cold| Some(parse(&cold, Strictness::Tolerant).ok()?.group))
            }
        };
        group.map_or(names::ADMIN_PORT, |group| group.spec.sidecar.admin_port)
    }

    /// The files to watch.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::File(file) => vec![file.clone()],
            Self::Mounted { cold: _, hot } => vec![hot.clone()],
        }
    }
}

/// Whether the operator started this process.
pub fn in_pod() -> bool {
    env::var_os(names::env::GROUP_UID).is_some()
}

/// The longest drain that this pod was built for; `None` outside a pod.
pub fn drain_bound() -> Option<Duration> {
    let seconds = env::var(names::env::DRAIN_SECONDS).ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// How long a drain may take. Its default follows `delivery.timeoutSeconds`, which may have grown beyond what the pod has
/// time for: Kubernetes would kill the process before such a drain is over, so it is cut earlier.
pub fn drain_timeout(group: &ConsumerGroup, bound: Option<Duration>) -> Duration {
    group.drain_timeout().min(bound.unwrap_or(Duration::MAX))
}

/// The fields that differ and that only a restart applies.
pub fn cold_changes(before: &ConsumerGroup, after: &ConsumerGroup) -> Vec<&'static str> {
    let changes = before.changes(after).into_iter();
    changes.filter(|field| field.heat == Heat::Cold).map(|field| field.path).collect()
}

fn strictness() -> Strictness {
    if in_pod() { Strictness::Tolerant } else { Strictness::Strict }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.len() > MANIFEST_BYTES_MAX {
        return Err(ConfigError::TooLarge { path: path.to_owned() });
    }
    fs::read_to_string(path).map_err(failed)
}

fn list(mistakes: &Mistakes) -> String {
    let count = mistakes.len();
    let noun = if count == 1 { "mistake" } else { "mistakes" };
    format!("the manifest has {count} {noun}:\n{mistakes}")
}
