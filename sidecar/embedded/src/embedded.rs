use std::{
    num::NonZero,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use lockstep_broker::Clock;
use lockstep_model::{KeyHash, Position, Properties, QueueId, QueueName, Text};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use crate::{
    EmbeddedBroker, OpenError, StoreError,
    halves::Sessions,
    http,
    store::Store,
    writer::{self, Command, Signals},
};

/// How long a write may take before its outcome counts as unknown.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// How the broker's file is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The number of queues. `None` = the file's, or [`Options::DEFAULT_QUEUES`] in a new file. It never changes in a
    /// file, since keys would change their queue.
    pub queues: Option<NonZero<u32>>,
    /// The property that names a message's ordering key, whatever its case: HTTP keeps none. A message without it has
    /// the key that it was published with.
    pub key_property: Option<String>,
    /// The largest body that is accepted over HTTP, in bytes.
    pub body_limit: usize,
    /// How many finished messages a queue keeps for looking at them.
    pub kept_messages: u64,
    /// How many bytes of finished messages a queue keeps.
    pub kept_bytes: u64,
    /// How long a fetch waits for a message.
    pub hold: Duration,
}

impl Options {
    /// Queues of a new file.
    pub const DEFAULT_QUEUES: u32 = 4;
    /// The most queues of a file: their bounds are kept in memory.
    pub const MOST_QUEUES: u32 = 1_024;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queues: None,
            key_property: None,
            body_limit: 4 << 20,
            kept_messages: 10_000,
            kept_bytes: 64 << 20,
            hold: Duration::from_secs(15),
        }
    }
}

/// A message to publish.
#[derive(Debug, Clone, Default)]
pub struct NewMessage {
    /// The ordering key: messages of one key go to one queue and keep their order. Without one, any queue.
    pub key: Option<Text>,
    /// The body's content type.
    pub content_type: Option<Text>,
    /// What it is about.
    pub subject: Option<Text>,
    /// More about it.
    pub properties: Properties,
    /// The content.
    pub body: Bytes,
}

impl NewMessage {
    pub(crate) fn size(&self) -> usize {
        let texts = [&self.key, &self.content_type, &self.subject];
        let texts: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
        let properties: usize = self.properties.iter().map(|(n, v)| 8 + n.len() + v.len()).sum();
        texts + properties + self.body.len()
    }
}

/// Where a message was stored. It is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The queue's number.
    pub queue: QueueId,
    /// The queue's name.
    pub name: QueueName,
    /// Its place there.
    pub position: Position,
    /// Its id, the same on every delivery.
    pub id: Text,
}

/// The open broker. Copies share it; the file is closed when the last of them and of its consumers is gone.
#[derive(Debug, Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Arc<Store>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) sessions: Mutex<Sessions>,
    pub(crate) options: Options,
    turn: AtomicU32,
    commands: Option<mpsc::Sender<Command>>,
    writer: Option<thread::JoinHandle<()>>,
}

impl Embedded {
    /// Opens the file, or makes it. Blocks while a file that was not closed is repaired.
    ///
    /// # Errors
    /// The file is open elsewhere, damaged, made with another number of queues, or can't be used.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let store = Store::open(path, &options)?;
        Self::with_store(store, options).map_err(|source| OpenError::Io { path: path.into(), source })
    }

    pub(crate) fn with_store(store: Store, options: Options) -> std::io::Result<Self> {
        let store = Arc::new(store);
        let signals = Arc::new(Signals {
            written: watch::Sender::new(()),
            failure: RwLock::new(None),
            session: watch::Sender::new(()),
        });
        let (commands, writer) = writer::start(Arc::clone(&store), Arc::clone(&signals))?;
        Ok(Self {
            inner: Arc::new(Inner {
                store,
                signals,
                sessions: Mutex::default(),
                options,
                turn: AtomicU32::new(0),
                commands: Some(commands),
                writer: Some(writer),
            }),
        })
    }

    /// A consumer of all queues. While another one is joined it waits for its end.
    pub fn broker(&self, clock: Clock) -> EmbeddedBroker {
        EmbeddedBroker::new(Arc::clone(&self.inner), clock)
    }

    /// Stores a message; it is on disk when this answers.
    ///
    /// Not cancel safe: a dropped call may have stored it.
    ///
    /// # Errors
    /// Nothing was stored, except after [`StoreError::Slow`] and [`StoreError::Io`], when it is unknown.
    pub async fn publish(&self, mut message: NewMessage) -> Result<Published, StoreError> {
        if let Some(name) = &self.inner.options.key_property {
            let named = |(held, _): &(&[u8], &[u8])| held.eq_ignore_ascii_case(name.as_bytes());
            let value = message.properties.iter().find(named).map(|(_, value)| value);
            // Bytes that are no text still tell keys apart, apart from which bytes they are.
            let key = value.map(|value| Text::from(String::from_utf8_lossy(value).as_ref()));
            message.key = key.or(message.key);
        }
        let queues = u32::try_from(self.inner.store.names().len()).unwrap_or(u32::MAX).max(1);
        let queue = match &message.key {
            Some(key) => u32::try_from(KeyHash::of(key.as_bytes()).0 % u64::from(queues)).unwrap_or_default(),
            None => self.inner.turn.fetch_add(1, Ordering::Relaxed) % queues,
        };
        self.inner.write(|reply| Command::Publish { queue: QueueId(queue), message, reply }).await
    }

    /// Publishes a dead letter again at the end of its queue, in one step; `None` when there is none of that number.
    ///
    /// # Errors
    /// As [`Embedded::publish`].
    pub async fn redrive(&self, dead_letter: u64) -> Result<Option<Published>, StoreError> {
        self.inner.write(|reply| Command::Redrive { id: dead_letter, reply }).await
    }

    /// The names of the queues, by number.
    pub fn queue_names(&self) -> Vec<QueueName> {
        self.inner.store.names().to_vec()
    }

    /// Messages that are not finished, over all queues.
    pub fn unfinished(&self) -> u64 {
        self.inner.store.queues().iter().map(|queue| queue.end.saturating_sub(queue.committed)).sum()
    }

    /// The committed position of a queue.
    pub fn committed(&self, queue: QueueId) -> Option<Position> {
        self.inner.store.queue(queue).ok().map(|queue| Position(queue.committed))
    }

    /// How many dead letters there are.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn dead_letter_count(&self) -> Result<u64, StoreError> {
        self.inner.store.dead_letter_count()
    }

    /// Serves publishing and looking over HTTP until the listener fails or the call is dropped.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn serve(&self, listener: TcpListener) -> std::io::Result<()> {
        http::serve(self.clone(), listener).await
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl Inner {
    /// Hands a command to the writer and waits until it is on disk.
    pub(crate) async fn write<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Command,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let Some(commands) = &self.commands else { return Err(StoreError::Closed) };
        let written = async {
            commands.send(command(reply)).await.map_err(|_| StoreError::Closed)?;
            answer.await.unwrap_or(Err(StoreError::Closed))
        };
        timeout(WRITE_TIMEOUT, written).await.unwrap_or(Err(StoreError::Slow(WRITE_TIMEOUT.as_secs())))
    }

    pub(crate) fn sessions(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(self.commands.take());
        // The writer's last transaction ends before the file's lock is given up.
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the embedded broker's writer panicked");
        }
    }
}
