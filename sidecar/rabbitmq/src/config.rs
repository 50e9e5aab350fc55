use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use lockstep_broker::Clock;
use lockstep_model::{Epoch, Text};
use tokio::sync::watch;

use crate::amqp::{Credentials, Endpoint, TlsFiles};

/// More would be handed out ahead of need than the official guide finds of use, and all of it comes again after a crash.
const PREFETCH_MOST: u32 = 200;

/// What a queue in strict order has ahead. A quorum queue hands out the next one some milliseconds after an acknowledgement,
/// so that fewer would wait for it; more may be stashed by the broker (see the closing of channels).
const PREFETCH_PER_QUEUE: u32 = 31;

/// All settings of the source. Nothing changes after the start but what the hint says; secrets are read again at each
/// connect.
#[derive(Debug, Clone)]
pub struct Config {
    /// The nodes; the first that can be reached is used.
    pub nodes: Vec<Endpoint>,
    /// The virtual host.
    pub vhost: String,
    /// The queues to consume, each once.
    pub queues: Vec<String>,
    /// The management API's address, `http://host:port` or `https://host:port`, to verify how the queues were declared.
    pub management: Option<String>,
    /// The longest time between two signs of life, 5 to 20 s; the broker may ask for less. A lease lasts twice as long,
    /// less one second.
    pub heartbeat: Duration,
    /// The broker's acknowledgement timeout (`consumer_timeout`).
    pub acknowledgement_timeout: Duration,
    /// Whether what can't be verified of the queues' declaration is taken for granted.
    pub assumed: bool,
    /// How much order is kept.
    pub ordering: Ordering,
    /// What the prefetch is derived from.
    pub prefetch: PrefetchPlan,
    /// Where dead letters go.
    pub dead_letter: DeadLetter,
    /// Whether a message whose attempts are spent blocks its lane (`retry.whenExhausted: Block`).
    pub block: bool,
    /// What the ordering key is.
    pub key: KeySource,
    /// Who we are.
    pub credentials: CredentialsSource,
    /// TLS with verification; absent = none.
    pub tls: Option<TlsFiles>,
    /// The consumer group, which dead letters name.
    pub group: String,
    /// Shown by the broker's tools as the connection's name.
    pub name: String,
    /// The queues that are this process's to take; `None` = there is no such word, and all are.
    pub hint: watch::Receiver<Option<Vec<String>>>,
    /// Epochs rise above this one, kept from an earlier life of the process.
    pub epoch_floor: Epoch,
    /// The process's clock.
    pub clock: Clock,
    /// Bytes that the bodies of received messages may hold together.
    pub bytes: usize,
}

/// How much order is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// None.
    Unordered,
    /// Messages of one key in order.
    PerKey,
    /// Messages of one queue in order.
    PerQueue,
}

/// What the prefetch is derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefetchPlan {
    /// Deliveries that all queues together may hold.
    pub buffer: u32,
    /// Attempts that may run at once.
    pub in_flight: u32,
    /// How long one attempt may take.
    pub timeout: Duration,
}

/// Where dead letters go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeadLetter {
    /// Nowhere: nothing is dead-lettered.
    None,
    /// Published to this queue, confirmed.
    Queue(String),
    /// Rejected: to the dead-letter exchange that the queue's declaration or a policy names.
    Broker,
}

/// What the ordering key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The routing key.
    RoutingKey,
    /// A header.
    Header(Text),
}

/// Where credentials come from; read again at each connect so that rotated ones are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialsSource {
    /// These, for ever.
    Fixed(Credentials),
    /// Files `username` and `password` in a folder.
    Folder(PathBuf),
}

/// A file of the credentials that can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadCredentials {
    pub(crate) path: PathBuf,
    pub(crate) reason: String,
}

impl CredentialsSource {
    /// The credentials as they are now.
    pub(crate) async fn read(&self) -> Result<Credentials, BadCredentials> {
        match self {
            Self::Fixed(credentials) => Ok(credentials.clone()),
            Self::Folder(folder) => {
                let username = word(&folder.join("username")).await?;
                let password = word(&folder.join("password")).await?;
                Ok(Credentials::Plain { username, password: password.into() })
            }
        }
    }
}

/// When each file that says who we are was written, `None` = it is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilesStamp(Vec<Option<SystemTime>>);

impl FilesStamp {
    /// Whether there is no such file.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A file's content without the white space that editors leave at its end.
async fn word(path: &Path) -> Result<String, BadCredentials> {
    let bad = |reason: String| BadCredentials { path: path.to_owned(), reason };
    let text = tokio::fs::read_to_string(path).await.map_err(|error| bad(error.to_string()))?;
    let word = text.trim_end();
    if word.is_empty() { Err(bad("it is empty".to_owned())) } else { Ok(word.to_owned()) }
}

impl Ordering {
    pub(crate) fn is_ordered(self) -> bool {
        match self {
            Self::Unordered => false,
            Self::PerKey | Self::PerQueue => true,
        }
    }
}

/// How many deliveries of a queue may be unsettled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefetch {
    pub(crate) count: u16,
    /// What the mode would have without the acknowledgement timeout, when that is more.
    pub(crate) lowered_from: Option<u16>,
    /// Even a single delivery may not be settled in time.
    pub(crate) hopeless: bool,
}

impl Config {
    /// The files that say who we are and whom to trust, as they are now.
    pub(crate) async fn files_stamp(&self) -> FilesStamp {
        let mut files = Vec::new();
        if let CredentialsSource::Folder(folder) = &self.credentials {
            files.extend([folder.join("username"), folder.join("password")]);
        }
        if let Some(tls) = &self.tls {
            files.extend(tls.ca.clone());
            files.extend(tls.identity.clone().into_iter().flat_map(|(certificate, key)| [certificate, key]));
        }
        let mut stamps = Vec::with_capacity(files.len());
        for file in files {
            // What a link leads to counts: a mounted Secret changes by its links.
            let written = tokio::fs::metadata(file).await.and_then(|file| file.modified());
            stamps.push(written.ok());
        }
        FilesStamp(stamps)
    }

    /// The prefetch of each queue: what the mode is served well by, its share of the buffer at most, and no more than can be
    /// worked off one after the other in half of the acknowledgement timeout.
    pub(crate) fn prefetch(&self) -> Prefetch {
        let queues = u32::try_from(self.queues.len()).unwrap_or(u32::MAX).max(1);
        let wanted = match self.ordering {
            Ordering::PerQueue => PREFETCH_PER_QUEUE,
            Ordering::PerKey | Ordering::Unordered => (self.prefetch.buffer / queues).min(PREFETCH_MOST),
        }
        .max(1);
        // What has no order is worked off beside each other.
        let beside = if self.ordering.is_ordered() { 1 } else { self.prefetch.in_flight.max(1) };
        let timeout = self.prefetch.timeout.max(Duration::from_millis(1));
        let rounds = self.acknowledgement_timeout.as_millis() / 2 / timeout.as_millis().max(1);
        let most = u32::try_from(rounds).unwrap_or(u32::MAX).saturating_mul(beside);
        let count = wanted.min(most).max(1);
        let short = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
        Prefetch {
            count: short(count),
            lowered_from: (count < wanted).then_some(short(wanted)),
            hopeless: rounds == 0,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A configuration for tests of what depends on some of it.
    pub(crate) fn config() -> Config {
        Config {
            nodes: vec![Endpoint { host: "localhost".to_owned(), port: 5672 }],
            vhost: "/".to_owned(),
            queues: vec!["q".to_owned()],
            management: None,
            heartbeat: Duration::from_secs(10),
            acknowledgement_timeout: Duration::from_secs(1800),
            assumed: false,
            ordering: Ordering::PerQueue,
            prefetch: PrefetchPlan { buffer: 1024, in_flight: 64, timeout: Duration::from_secs(30) },
            dead_letter: DeadLetter::None,
            block: true,
            key: KeySource::RoutingKey,
            credentials: CredentialsSource::Fixed(Credentials::default()),
            tls: None,
            group: "group".to_owned(),
            name: "test".to_owned(),
            hint: watch::channel(None).1,
            epoch_floor: Epoch(0),
            clock: Clock::new(),
            bytes: 64 << 20,
        }
    }

    fn counted(config: &Config) -> (u16, Option<u16>, bool) {
        let Prefetch { count, lowered_from, hopeless } = config.prefetch();
        (count, lowered_from, hopeless)
    }

    #[tokio::test]
    async fn the_prefetch_fits_the_mode_the_buffer_and_the_acknowledgement_timeout() {
        let mut config = config();
        assert_eq!(counted(&config), (30, Some(31), false));
        config.acknowledgement_timeout = Duration::from_secs(3600);
        assert_eq!(counted(&config), (31, None, false));
        config.acknowledgement_timeout = Duration::from_secs(1800);
        config.ordering = Ordering::PerKey;
        assert_eq!(counted(&config), (30, Some(200), false));
        config.prefetch.timeout = Duration::from_secs(1);
        assert_eq!(counted(&config), (200, None, false));
        config.prefetch.buffer = 64;
        config.queues = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(counted(&config), (32, None, false));
        config.ordering = Ordering::Unordered;
        config.prefetch.timeout = Duration::from_secs(600);
        assert_eq!(counted(&config), (32, None, false));
        config.prefetch.in_flight = 4;
        assert_eq!(counted(&config), (4, Some(32), false));
        config.prefetch.timeout = Duration::from_secs(1000);
        assert_eq!(counted(&config), (1, Some(32), true));
    }

    #[tokio::test]
    async fn credentials_are_read_anew_and_what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let source = CredentialsSource::Folder(folder.path().to_owned());
        assert!(source.read().await.unwrap_err().path.ends_with("username"));
        std::fs::write(folder.path().join("username"), "me\n").unwrap();
        std::fs::write(folder.path().join("password"), " \n").unwrap();
        assert!(source.read().await.unwrap_err().path.ends_with("password"));
        std::fs::write(folder.path().join("password"), "secret\n").unwrap();
        let expected = Credentials::Plain { username: "me".to_owned(), password: "secret".into() };
        assert_eq!(source.read().await.unwrap(), expected);
    }
}
