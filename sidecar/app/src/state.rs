//! What survives a restart of the container: a folder of small files. Losing it costs repeated attempts, never a
//! message, so nothing is synced to the disk and every failure is a warning.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lockstep_model::{Epoch, Identity, QueueName};
use serde::{Deserialize, Serialize};
use tracing::warn;

#[cfg(test)]
mod tests;

/// Heads kept per queue: far more lanes than ever fail at once; beyond it the oldest entries are forgotten.
const HEADS_PER_QUEUE: usize = 1_024;
/// A file larger than this was not written by us.
const FILE_BYTES_MAX: u64 = 1 << 20;

const CLIENT_ID: &str = "client-id";
const FIRST_START: &str = "first-start";
const LAST_EPOCH: &str = "last-epoch";
const STORM: &str = "storm";
const RUNNING: &str = "running";
const ATTEMPTS: &str = "attempts-";

/// The state folder, or nothing where there is none.
#[derive(Debug, Default)]
pub struct State {
    folder: Option<PathBuf>,
    /// The largest timeout of an earlier life that did not end cleanly.
    unclean: Option<Duration>,
    first_start_ms: i64,
    last_epoch: Epoch,
    epoch_changed: bool,
    storm: u32,
    heads: BTreeMap<QueueName, Vec<Head>>,
    dirty: BTreeSet<QueueName>,
}

/// Attempts spent on the head of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Head {
    identity: Identity,
    attempts: u32,
}

/// One queue's file.
#[derive(Debug, Serialize, Deserialize)]
struct QueueFile {
    queue: String,
    heads: Vec<HeadEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct HeadEntry {
    attempts: u32,
    #[serde(flatten)]
    identity: IdentityEntry,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum IdentityEntry {
    /// Base64.
    Unique(String),
    #[serde(rename_all = "camelCase")]
    Position { offset: u64, stored_ms: i64, log_offset: i64 },
}

impl State {
    /// Without a folder: nothing is kept, and now is the first start.
    pub fn none() -> Self {
        Self { first_start_ms: unix_ms(), ..Self::default() }
    }

    /// Reads the folder, creating it where it is missing. A folder that can't be written is a warning: the sidecar
    /// goes on without it.
    pub fn open(folder: &Path) -> Self {
        let mut state = Self::none();
        if let Err(error) = fs::create_dir_all(folder).and_then(|()| write(folder, ".probe", b"")) {
            warn!(
                folder = %folder.display(), %error,
                "the state folder can't be written: attempt counts will not survive a restart; \
                 mount a writable volume there or set --state-dir"
            );
            return state;
        }
        state.unclean =
            read(folder, RUNNING).map(|text| Duration::from_millis(text.trim().parse().unwrap_or(0)));
        state.last_epoch = Epoch(read_number(folder, LAST_EPOCH).unwrap_or(0));
        state.storm = read_number(folder, STORM).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        state.folder = Some(folder.to_owned());
        match read_number(folder, FIRST_START).and_then(|ms| i64::try_from(ms).ok()) {
            Some(ms) => state.first_start_ms = ms,
            None => state.save(FIRST_START, state.first_start_ms.to_string().as_bytes()),
        }
        state.heads = read_heads(folder);
        state
    }

    /// How long an earlier process's attempts may still run; `None` after a clean exit.
    pub fn unclean(&self) -> Option<Duration> {
        self.unclean
    }

    /// When this member started for the first time, in Unix milliseconds.
    pub fn first_start_ms(&self) -> i64 {
        self.first_start_ms
    }

    /// The last epoch that was known.
    pub fn last_epoch(&self) -> Epoch {
        self.last_epoch
    }

    /// Dead letters and skips in a row before the restart.
    pub fn storm(&self) -> u32 {
        self.storm
    }

    /// The id kept in the folder; made by `make` at the first start. Without a folder always a new one.
    pub fn client_id(&self, make: impl FnOnce() -> String) -> String {
        let kept = self.folder.as_deref().and_then(|folder| read(folder, CLIENT_ID));
        if let Some(id) = kept.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()) {
            return id;
        }
        let id = make();
        self.save(CLIENT_ID, id.as_bytes());
        id
    }

    /// Notes that a process runs whose attempts last at most `timeout`.
    pub fn mark_running(&self, timeout: Duration) {
        self.save(RUNNING, timeout.as_millis().to_string().as_bytes());
    }

    /// Notes that the process ended with nothing in flight.
    pub fn mark_clean(&self) {
        if let Some(folder) = &self.folder
            && let Err(error) = fs::remove_file(folder.join(RUNNING))
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(%error, "failed to remove the marker of a running process from the state folder");
        }
    }

    /// Keeps the highest epoch seen. Written by [`State::flush`].
    pub fn save_epoch(&mut self, epoch: Epoch) {
        if epoch > self.last_epoch {
            self.last_epoch = epoch;
            self.epoch_changed = true;
        }
    }

    /// Keeps the count of dead letters and skips in a row.
    pub fn save_storm(&mut self, count: u32) {
        if count != self.storm {
            self.storm = count;
            self.save(STORM, count.to_string().as_bytes());
        }
    }

    /// Attempts spent on heads of a queue.
    pub fn attempts(&self, queue: &str) -> impl Iterator<Item = (Identity, u32)> {
        let heads = self.heads.get(queue).map(Vec::as_slice).unwrap_or_default();
        heads.iter().map(|head| (head.identity.clone(), head.attempts))
    }

    /// Notes attempts spent on a head; 0 forgets it. Written by [`State::flush`].
    pub fn save_attempts(&mut self, queue: &QueueName, identity: &Identity, attempts: u32) {
        if self.folder.is_none() || *identity == Identity::None {
            return;
        }
        let heads = self.heads.entry(QueueName::clone(queue)).or_default();
        let known = heads.iter().position(|head| head.identity == *identity);
        match (known, attempts) {
            (None, 0) => return,
            (Some(at), 0) => drop(heads.remove(at)),
            (Some(at), _) => {
                let Some(head) = heads.get_mut(at) else { return };
                head.attempts = attempts;
            }
            (None, _) => {
                if heads.len() >= HEADS_PER_QUEUE {
                    heads.remove(0);
                }
                heads.push(Head { identity: identity.clone(), attempts });
            }
        }
        self.dirty.insert(QueueName::clone(queue));
    }

    /// Writes what changed: the epoch, and one file for each queue that did.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.epoch_changed) {
            self.save(LAST_EPOCH, self.last_epoch.0.to_string().as_bytes());
        }
        while let Some(queue) = self.dirty.pop_first() {
            let heads = self.heads.get(&queue).map(Vec::as_slice).unwrap_or_default();
            let file = QueueFile {
                queue: queue.to_string(),
                heads: heads.iter().filter_map(HeadEntry::of).collect(),
            };
            match serde_json::to_vec(&file) {
                Ok(bytes) => self.save(&file_name(&queue), &bytes),
                Err(error) => warn!(%error, "failed to encode a state file"),
            }
        }
    }

    fn save(&self, name: &str, bytes: &[u8]) {
        if let Some(folder) = &self.folder
            && let Err(error) = write(folder, name, bytes)
        {
            warn!(file = name, %error, "failed to write to the state folder");
        }
    }
}

impl HeadEntry {
    fn of(head: &Head) -> Option<Self> {
        let identity = match &head.identity {
            Identity::Unique(id) => IdentityEntry::Unique(STANDARD.encode(id)),
            Identity::Position { offset, stored_ms, log_offset } => {
                IdentityEntry::Position { offset: *offset, stored_ms: *stored_ms, log_offset: *log_offset }
            }
            Identity::None => return None,
        };
        Some(Self { attempts: head.attempts, identity })
    }

    fn head(self) -> Option<Head> {
        let identity = match self.identity {
            IdentityEntry::Unique(id) => Identity::Unique(STANDARD.decode(id).ok()?.into()),
            IdentityEntry::Position { offset, stored_ms, log_offset } => {
                Identity::Position { offset, stored_ms, log_offset }
            }
        };
        Some(Head { identity, attempts: self.attempts })
    }
}

/// Every queue's file. One that can't be read is forgotten: it holds counts only.
fn read_heads(folder: &Path) -> BTreeMap<QueueName, Vec<Head>> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(ATTEMPTS))
        .filter_map(|name| serde_json::from_str::<QueueFile>(&read(folder, &name)?).ok())
        .map(|file| {
            let heads = file.heads.into_iter().take(HEADS_PER_QUEUE).filter_map(HeadEntry::head).collect();
            (QueueName::from(file.queue), heads)
        })
        .collect()
}

/// A name of our own making: a queue's name may hold anything.
fn file_name(queue: &str) -> String {
    let readable: String = queue.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    format!("{ATTEMPTS}{readable}-{:016x}", lockstep_model::KeyHash::of(queue.as_bytes()).0)
}

/// Replaces a file in one step, so that a crash leaves the old or the new content.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = folder.join(format!("{name}.new"));
    fs::write(&temporary, bytes)?;
    fs::rename(temporary, folder.join(name))
}

fn read(folder: &Path, name: &str) -> Option<String> {
    let path = folder.join(name);
    let length = fs::metadata(&path).ok()?.len();
    if length > FILE_BYTES_MAX {
        return None;
    }
    fs::read_to_string(path).ok()
}

fn read_number(folder: &Path, name: &str) -> Option<u64> {
    read(folder, name)?.trim().parse().ok()
}

/// The wall clock in Unix milliseconds.
pub fn unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
