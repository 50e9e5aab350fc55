//! House rules that neither the compiler nor clippy can hold: each rule names its offenders by file and line.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub mod docs;
pub mod imports;
pub mod lengths;
pub mod text;

/// A file of the repository.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its path from the root, with slashes.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// A file that exists only in a test.
    pub fn new(path: &str, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), text: text.into() }
    }

    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Its lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Folders that are not the project's own text.
const NOT_OURS: [&str; 4] = [".git", "target", "node_modules", "corpus"];

/// All text files of the repository.
pub fn sources(root: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    collect(root, root, &mut found);
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && !NOT_OURS.contains(&name.as_str()) {
            collect(root, &path, found);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
        {
            let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            found.push(Source { path, text });
        }
    }
}
