//! The queues that the operator has chosen for this pod: an annotation, mounted as a file.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use lockstep_contract::names::files;
use tokio::sync::watch;
use tracing::{info, warn};

use super::Watch;

/// An annotation larger than this is not ours: Kubernetes keeps at most 256 KiB of them.
const BYTES_MAX: u64 = 256 << 10;

/// A hint: these queues are this pod's to take, others are left to their pods. `None` = there is no hint.
pub type Hint = Option<Vec<String>>;

/// Follows the mounted file.
#[derive(Debug)]
pub struct Assignment {
    path: PathBuf,
    watch: Watch,
    hint: watch::Sender<Hint>,
    /// Faulty content was told, so that it is told once.
    told: bool,
}

impl Assignment {
    /// Follows the file that the operator mounts. Outside a pod there is none, and so never a hint.
    pub fn mounted() -> Self {
        Self::of(&Path::new(files::POD_INFO).join(files::ASSIGNMENT))
    }

    /// Follows this file. What it says now is the first hint.
    pub fn of(path: &Path) -> Self {
        let watch = Watch::new(vec![path.to_owned()]);
        let mut assignment =
            Self { path: path.to_owned(), watch, hint: watch::Sender::new(None), told: false };
        assignment.read();
        assignment
    }

    /// The hint in force, and each later one.
    pub fn subscribe(&self) -> watch::Receiver<Hint> {
        self.hint.subscribe()
    }

    /// Looks whether the file has changed. The hint's receivers are woken only when its meaning has.
    pub fn look(&mut self) {
        if self.watch.changed() {
            self.read();
        }
    }

    fn read(&mut self) {
        match read(&self.path) {
            Ok(hint) => {
                self.told = false;
                let queues = hint.as_ref().map(Vec::len);
                let changed = self.hint.send_if_modified(|current| {
                    let changed = *current != hint;
                    *current = hint;
                    changed
                });
                if changed {
                    info!(queues, "the assignment of queues has changed");
                }
            }
            Err(problem) if !self.told => {
                self.told = true;
                let file = self.path.display();
                warn!(%file, error = %problem, "the assignment of queues can't be read; the former one stays in force");
            }
            Err(_) => {}
        }
    }
}

/// An annotation that is not there yet is mounted as an empty file.
fn read(path: &Path) -> io::Result<Hint> {
    let text = match fs::metadata(path) {
        Ok(metadata) if metadata.len() > BYTES_MAX => {
            return Err(io::Error::other(format!("it has more than {BYTES_MAX} bytes")));
        }
        Ok(_) => fs::read_to_string(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let mut queues: Vec<String> = serde_json::from_str(&text)?;
    queues.sort();
    queues.dedup();
    Ok(Some(queues))
}
