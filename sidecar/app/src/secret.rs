//! Text that must not be seen.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// The longest secret that is read: a certificate chain fits many times.
const SECRET_BYTES_MAX: u64 = 256 * 1024;

/// A secret: it can be used, and it can't be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// A secret can't be read. Names the file, never its content.
#[derive(Debug, Error)]
pub enum SecretError {
    /// The file is missing or can't be read.
    #[error("failed to read {}: {source}; {needed_by} needs it: create the Secret, or the file in --credentials-dir", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The field of the manifest that asks for it.
        needed_by: String,
        /// What the system says.
        source: io::Error,
    },
    /// The file is too large to be a secret.
    #[error("{} is larger than {SECRET_BYTES_MAX} bytes; check what {needed_by} names", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The field of the manifest that asks for it.
        needed_by: String,
    },
}

impl SecretError {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl Secret {
    /// The text, for the one place that uses it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Reads a file. A line feed at its end is no part of the secret.
    pub fn read(path: &Path, needed_by: &str) -> Result<Self, SecretError> {
        let needed = || needed_by.to_owned();
        let failed = |source| SecretError::Read { path: path.to_owned(), needed_by: needed(), source };
        if std::fs::metadata(path).map_err(failed)?.len() > SECRET_BYTES_MAX {
            return Err(SecretError::TooLarge { path: path.to_owned(), needed_by: needed() });
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Ok(Self(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}
