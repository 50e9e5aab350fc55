use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use lockstep_broker::Clock;
use lockstep_model::{Epoch, Text};
use lockstep_tls::TlsFiles;
use tokio::sync::watch;

use crate::client::{Credentials, Endpoint};

/// More than this would be given back after a crash for little gain: an acknowledgement frees the next one in one round
/// trip. The broker looks at 200 messages of a queue at once, and each that is held takes the place of another.
const LOOKAHEAD_MOST: u32 = 100;

/// What a queue in strict order has ahead where the broker sends by itself: enough to bridge one round trip.
const LOOKAHEAD_PER_QUEUE: u32 = 10;

/// All settings of the source. Nothing changes after the start but what the hint says; secrets are read again at each
/// connect.
#[derive(Debug, Clone)]
pub struct Config {
    /// The nodes; the first that can be reached is used.
    pub nodes: Vec<Endpoint>,
    /// The queues to consume, each name once.
    pub queues: Vec<Queue>,
    /// Who decides when a message is sent to us.
    pub mode: Mode,
    /// How much order is kept.
    pub ordering: Ordering,
    /// What the lookahead is derived from.
    pub prefetch: PrefetchPlan,
    /// Whether a message whose attempts are spent blocks its lane (`retry.whenExhausted: Block`).
    pub block: bool,
    /// What the ordering key is.
    pub key: KeySource,
    /// Who we are.
    pub credentials: CredentialsSource,
    /// The files for nodes with TLS; absent = the system's authorities and no certificate of ours.
    pub tls: Option<TlsFiles>,
    /// The consumer group.
    pub group: String,
    /// Shown by the broker's tools: the client id begins with it.
    pub name: String,
    /// The queues that are this process's to take; `None` = there is no such word, and all are.
    pub hint: watch::Receiver<Option<Vec<String>>>,
    /// Epochs rise above this one, kept from an earlier life of the process.
    pub epoch_floor: Epoch,
    /// The process's clock.
    pub clock: Clock,
    /// The longest time between two signs of life, 30 s by custom; the broker may ask for less. A lease lasts as long,
    /// less one second.
    pub inactivity: Duration,
    /// The longest frame that is read whole, in bytes; a longer message can't be delivered.
    pub max_frame: u32,
    /// Bytes that received messages may hold together before no more are asked for.
    pub bytes: usize,
}

/// One queue to consume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Its name, without options.
    pub name: String,
    /// Which of its messages are consumed, as JMS writes it; absent = all.
    pub selector: Option<String>,
}

/// Who decides when a message is sent to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// We ask for each.
    Pull,
    /// The broker sends by itself, as many as may be unsettled.
    Push,
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

/// What the lookahead is derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefetchPlan {
    /// Deliveries that all queues together may hold.
    pub buffer: u32,
    /// Attempts that may run at once.
    pub in_flight: u32,
    /// How long one attempt may take.
    pub timeout: Duration,
}

/// What the ordering key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The message group, `JMSXGroupID`.
    Native,
    /// A property of that name.
    Property(Text),
}

/// Where credentials come from; read again at each connect so that rotated ones are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialsSource {
    /// There are none.
    None,
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
    pub(crate) async fn read(&self) -> Result<Option<Credentials>, BadCredentials> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(credentials) => Ok(Some(credentials.clone())),
            Self::Folder(folder) => {
                let username = word(&folder.join("username")).await?;
                let password = word(&folder.join("password")).await?;
                Ok(Some(Credentials { username, password: password.into() }))
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

    /// How many deliveries of a queue may be unsettled: its share of the buffer at most. In strict order one that is asked
    /// for at a time, since only a queue of which one message is out keeps its order through every loss of a consumer.
    pub(crate) fn lookahead(&self) -> u32 {
        let queues = u32::try_from(self.queues.len()).unwrap_or(u32::MAX).max(1);
        let share = self.prefetch.buffer / queues;
        let most = match (self.ordering, self.mode) {
            (Ordering::PerQueue, Mode::Pull) => 1,
            (Ordering::PerQueue, Mode::Push) => LOOKAHEAD_PER_QUEUE,
            (Ordering::PerKey, _) => LOOKAHEAD_MOST,
            // More than are worked on and as many again would only wait here.
            (Ordering::Unordered, _) => self.prefetch.in_flight.saturating_mul(2).min(LOOKAHEAD_MOST),
        };
        share.min(most).max(1)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A configuration for tests of what depends on some of it.
    pub(crate) fn config() -> Config {
        Config {
            nodes: vec![Endpoint { host: "localhost".to_owned(), port: 61616, tls: false }],
            queues: vec![Queue { name: "q".to_owned(), selector: None }],
            mode: Mode::Pull,
            ordering: Ordering::PerQueue,
            prefetch: PrefetchPlan { buffer: 1024, in_flight: 64, timeout: Duration::from_secs(30) },
            block: true,
            key: KeySource::Native,
            credentials: CredentialsSource::None,
            tls: None,
            group: "group".to_owned(),
            name: "test".to_owned(),
            hint: watch::channel(None).1,
            epoch_floor: Epoch(0),
            clock: Clock::new(),
            inactivity: Duration::from_secs(30),
            max_frame: 100 << 20,
            bytes: 64 << 20,
        }
    }

    #[tokio::test]
    async fn the_lookahead_fits_the_order_the_mode_and_the_buffer() {
        let mut config = config();
        assert_eq!(config.lookahead(), 1);
        config.mode = Mode::Push;
        assert_eq!(config.lookahead(), 10);
        config.ordering = Ordering::PerKey;
        assert_eq!(config.lookahead(), 100);
        config.prefetch.buffer = 64;
        config.queues.push(Queue { name: "b".to_owned(), selector: None });
        assert_eq!(config.lookahead(), 32);
        config.ordering = Ordering::Unordered;
        config.prefetch.in_flight = 4;
        assert_eq!(config.lookahead(), 8);
        config.prefetch.buffer = 1;
        assert_eq!(config.lookahead(), 1);
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
        let expected = Credentials { username: "me".to_owned(), password: "secret".into() };
        assert_eq!(source.read().await.unwrap(), Some(expected));
        assert_eq!(CredentialsSource::None.read().await.unwrap(), None);
    }
}
