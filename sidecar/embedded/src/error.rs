use std::{io, path::PathBuf};

use lockstep_model::Position;
use redb::{CommitError, DatabaseError, SetDurabilityError, StorageError, TableError, TransactionError};

/// The broker's file can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error(
        "the broker file {} is open in another process; stop that process or choose another file",
        path.display()
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// It is not a broker file, or its content is damaged.
    #[error(
        "the broker file {} is damaged or no broker file ({reason}); move it away to start empty, or restore a copy",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// It was made with another number of queues, and keys would change their queue.
    #[error(
        "the broker file {} has {found} queues and {wanted} are asked for; ask for {found}, or choose another file",
        path.display()
    )]
    QueueCount {
        /// The file.
        path: PathBuf,
        /// The file's number.
        found: u32,
        /// The options' number.
        wanted: u32,
    },
    /// More queues are asked for than a file can have.
    #[error("{wanted} queues are asked for and {most} is the most; ask for fewer")]
    TooManyQueues {
        /// The options' number.
        wanted: u32,
        /// The largest number.
        most: u32,
    },
    /// Its folder or the file can't be used.
    #[error("failed to open the broker file {}: {source}; check that its folder exists and may be written", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No space is left for it.
    #[error("no space is left for the broker file {}; free some space and start again", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
}

/// Reading or writing the open broker failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No space is left on the device.
    #[error("no space is left for the broker's file; free some space and start again")]
    Full,
    /// The file's content is damaged.
    #[error("the broker's file is damaged ({0}); move it away to start empty, or restore a copy")]
    Corrupt(String),
    /// The device failed, or failed before: nothing can be written until the file is opened again.
    #[error("failed to access the broker's file ({0}); check the device and start again")]
    Io(String),
    /// The broker was closed.
    #[error("the embedded broker was closed; start it again")]
    Closed,
    /// The writer did not answer in time: whether it was done is unknown.
    #[error("the device did not confirm the write within {0} s; check the device")]
    Slow(u64),
    /// A position behind the queue's end.
    #[error("position {position} lies behind the queue's end {end}; use a position that was handed out")]
    OutOfRange {
        /// The position asked for.
        position: Position,
        /// The queue's end.
        end: Position,
    },
    /// There is no such queue.
    #[error("queue {0} does not exist; GET / names the queues")]
    NoQueue(u32),
}

impl StoreError {
    /// Whether the broker can do nothing more until it is started again.
    pub(crate) const fn is_fatal(&self) -> bool {
        matches!(self, Self::Full | Self::Corrupt(_) | Self::Io(_) | Self::Closed)
    }

    /// A word for conditions and metrics.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Full => "StorageFull",
            Self::Corrupt(_) => "StorageCorrupt",
            Self::Io(_) => "StorageFailed",
            Self::Closed => "BrokerClosed",
            Self::Slow(_) => "StorageSlow",
            Self::OutOfRange { .. } => "OutOfRange",
            Self::NoQueue(_) => "QueueNotFound",
        }
    }
}

impl From<StorageError> for StoreError {
    fn from(error: StorageError) -> Self {
        if let StorageError::Io(io) = &error
            && is_full(io)
        {
            return Self::Full;
        }
        if let StorageError::Corrupted(reason) = error {
            return Self::Corrupt(reason);
        }
        Self::Io(error.to_string())
    }
}

impl From<CommitError> for StoreError {
    fn from(error: CommitError) -> Self {
        if let CommitError::Storage(storage) = error {
            return storage.into();
        }
        Self::Io(error.to_string())
    }
}

impl From<TransactionError> for StoreError {
    fn from(error: TransactionError) -> Self {
        if let TransactionError::Storage(storage) = error {
            return storage.into();
        }
        Self::Io(error.to_string())
    }
}

impl From<TableError> for StoreError {
    fn from(error: TableError) -> Self {
        if let TableError::Storage(storage) = error {
            return storage.into();
        }
        Self::Corrupt(error.to_string())
    }
}

impl From<SetDurabilityError> for StoreError {
    fn from(error: SetDurabilityError) -> Self {
        Self::Io(error.to_string())
    }
}

impl OpenError {
    pub(crate) fn from_database(path: PathBuf, error: DatabaseError) -> Self {
        if matches!(error, DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch) {
            return Self::Locked { path };
        }
        if let DatabaseError::Storage(StorageError::Io(source)) = error {
            return Self::from_io(path, source);
        }
        Self::Corrupt { path, reason: error.to_string() }
    }

    pub(crate) fn from_store(path: PathBuf, error: StoreError) -> Self {
        if let StoreError::Io(reason) = error {
            return Self::Io { path, source: io::Error::other(reason) };
        }
        if error == StoreError::Full {
            return Self::Full { path };
        }
        Self::Corrupt { path, reason: error.to_string() }
    }

    pub(crate) fn from_io(path: PathBuf, source: io::Error) -> Self {
        if is_full(&source) {
            return Self::Full { path };
        }
        // What redb says of a file that is not its own, or that was cut short.
        if matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) {
            return Self::Corrupt { path, reason: source.to_string() };
        }
        Self::Io { path, source }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
