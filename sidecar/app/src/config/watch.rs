use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Notices changed files by looking: the kubelet swaps a symbolic link, editors replace or rewrite a file.
#[derive(Debug)]
pub struct Watch {
    paths: Vec<PathBuf>,
    seen: Vec<Mark>,
}

/// What tells a file's versions apart: where its links lead, its length and its times.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    path: PathBuf,
    leads_to: Option<PathBuf>,
    length: u64,
    modified: Option<SystemTime>,
}

impl Watch {
    /// Watches files, and folders with the files in them. What is there now is known.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let seen = look(&paths);
        Self { paths, seen }
    }

    /// Whether something is different from the last look.
    pub fn changed(&mut self) -> bool {
        let now = look(&self.paths);
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

fn look(paths: &[PathBuf]) -> Vec<Mark> {
    let mut marks = Vec::new();
    for path in paths {
        marks.push(mark(path));
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut inside: Vec<_> = entries.map(|entry| mark(&entry.path())).collect();
        inside.sort_by(|a, b| a.path.cmp(&b.path));
        marks.append(&mut inside);
    }
    marks
}

fn mark(path: &Path) -> Mark {
    let metadata = fs::metadata(path).ok();
    Mark {
        path: path.to_owned(),
        leads_to: fs::canonicalize(path).ok(),
        length: metadata.as_ref().map_or(0, fs::Metadata::len),
        modified: metadata.and_then(|metadata| metadata.modified().ok()),
    }
}
