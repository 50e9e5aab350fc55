use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use lockstep_model::{Delivery, Identity, KeyHash, Message, Position, QueueId, QueueName, Undecodable};
use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table,
    TableDefinition, WriteTransaction,
};

use crate::{NewMessage, OpenError, Options, Published, StoreError, record};

/// Single numbers: the layout's version, the number of queues, the store's id, the next dead letter's id.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Records by queue and offset.
const MESSAGES: TableDefinition<'_, (u32, u64), &[u8]> = TableDefinition::new("messages");
/// Committed position and next offset by queue.
const QUEUES: TableDefinition<'_, u32, (u64, u64)> = TableDefinition::new("queues");
/// Queue, offset, attempts, Unix milliseconds and record by the dead letter's id.
const DEAD: TableDefinition<'_, u64, (u32, u64, u32, u64, &[u8])> = TableDefinition::new("dead-letters");

/// The layout of the tables above.
const LAYOUT: u64 = 1;
/// Pages that redb keeps in memory: the broker is for development, so a little is enough.
const CACHE_BYTES: usize = 16 << 20;
/// The most messages that one transaction removes by retention, so that no commit takes long.
const REMOVED_AT_ONCE: usize = 4_096;

/// The tables and what is known of them without reading.
#[derive(Debug)]
pub(crate) struct Store {
    database: Database,
    /// Makes message ids and identities differ between files.
    id: u64,
    names: Vec<QueueName>,
    queues: Mutex<Vec<Queue>>,
    kept: (u64, u64),
}

/// One queue's bounds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Queue {
    /// The first offset that may still be there.
    pub(crate) start: u64,
    pub(crate) committed: u64,
    pub(crate) end: u64,
    /// Bytes of the records from `start` to `committed`.
    pub(crate) kept_bytes: u64,
}

/// A dead letter as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredDeadLetter {
    pub(crate) id: u64,
    pub(crate) queue: QueueId,
    pub(crate) position: Position,
    pub(crate) attempts: u32,
    pub(crate) at_ms: u64,
    pub(crate) record: Bytes,
}

/// What a read brought.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) next: Position,
    pub(crate) end: Position,
}

impl Store {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        let most = Options::MOST_QUEUES;
        if let Some(wanted) = options.queues.map(std::num::NonZero::get).filter(|wanted| *wanted > most) {
            return Err(OpenError::TooManyQueues { wanted, most });
        }
        if !path.exists() {
            create(path, options)?;
        }
        let database = database(path).map_err(|error| OpenError::from_database(path.into(), error))?;
        Self::with_database(database, path, options)
    }

    pub(crate) fn with_database(
        database: Database,
        path: &Path,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let failed = |error| OpenError::from_store(path.into(), error);
        let (layout, found, id) = prepare(&database, options).map_err(failed)?;
        let corrupt = |reason| OpenError::Corrupt { path: path.into(), reason };
        if layout != LAYOUT {
            return Err(corrupt(format!("layout {layout}, expected {LAYOUT}")));
        }
        let bounded = u32::try_from(found).ok().filter(|found| (1..=Options::MOST_QUEUES).contains(found));
        let found = bounded.ok_or_else(|| corrupt(format!("{found} queues")))?;
        if let Some(wanted) = options.queues.map(std::num::NonZero::get)
            && wanted != found
        {
            return Err(OpenError::QueueCount { path: path.into(), found, wanted });
        }
        let queues = load(&database, found).map_err(failed)?;
        let names = (0..found).map(|queue| QueueName::from(format!("embedded/{queue}"))).collect();
        let kept = (options.kept_messages, options.kept_bytes);
        Ok(Self { database, id, names, queues: Mutex::new(queues), kept })
    }

    pub(crate) fn names(&self) -> &[QueueName] {
        &self.names
    }

    pub(crate) fn queues(&self) -> Vec<Queue> {
        self.lock().clone()
    }

    pub(crate) fn queue(&self, queue: QueueId) -> Result<Queue, StoreError> {
        self.lock().get(queue.0 as usize).copied().ok_or(StoreError::NoQueue(queue.0))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages from `from`, as many as fit; the first always fits.
    pub(crate) fn read(
        &self,
        queue: QueueId,
        from: u64,
        count: u32,
        bytes: usize,
    ) -> Result<Read, StoreError> {
        let end = self.queue(queue)?.end;
        let table = self.database.begin_read()?.open_table(MESSAGES)?;
        let (mut deliveries, mut room) = (Vec::new(), bytes);
        for entry in table.range((queue.0, from)..(queue.0, end.max(from)))? {
            let (key, value) = entry?;
            let (offset, value) = (key.value().1, value.value());
            if deliveries.len() >= count as usize || (!deliveries.is_empty() && value.len() > room) {
                let next = deliveries.last().map_or(from, |last: &Delivery| last.position.0 + 1);
                return Ok(Read { deliveries, next: Position(next), end: Position(end) });
            }
            room = room.saturating_sub(value.len());
            deliveries.push(self.delivery(queue, offset, Bytes::copy_from_slice(value)));
        }
        // What is missing up to the end was moved to the dead letters.
        Ok(Read { deliveries, next: Position(end.max(from)), end: Position(end) })
    }

    fn delivery(&self, queue: QueueId, offset: u64, record: Bytes) -> Delivery {
        let (message, undecodable) = match record::decode(&record) {
            Ok(message) => (message, None),
            Err(reason) => (Message::default(), Some(Undecodable { raw: record, reason: Arc::from(reason) })),
        };
        Delivery {
            queue,
            position: Position(offset),
            identity: Identity::Position {
                offset,
                stored_ms: message.stored_ms.unwrap_or_default(),
                log_offset: i64::from_ne_bytes(self.id.to_ne_bytes()),
            },
            key: message.key.as_ref().map(|key| KeyHash::of(key.as_bytes())),
            redeliveries: 0,
            message,
            undecodable,
        }
    }

    /// Dead letters from an id on, as many as fit.
    pub(crate) fn dead_letters(
        &self,
        from: u64,
        count: usize,
        bytes: usize,
    ) -> Result<Vec<StoredDeadLetter>, StoreError> {
        let table = self.database.begin_read()?.open_table(DEAD)?;
        let (mut letters, mut room) = (Vec::new(), bytes);
        for entry in table.range(from..)? {
            let (id, value) = entry?;
            let (queue, offset, attempts, at_ms, record) = value.value();
            if letters.len() >= count || (!letters.is_empty() && record.len() > room) {
                break;
            }
            room = room.saturating_sub(record.len());
            letters.push(StoredDeadLetter {
                id: id.value(),
                queue: QueueId(queue),
                position: Position(offset),
                attempts,
                at_ms,
                record: Bytes::copy_from_slice(record),
            });
        }
        Ok(letters)
    }

    pub(crate) fn dead_letter_count(&self) -> Result<u64, StoreError> {
        Ok(self.database.begin_read()?.open_table(DEAD)?.len()?)
    }

    /// Begins a transaction that is on disk when it was committed.
    pub(crate) fn begin(&self) -> Result<WriteTransaction, StoreError> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        Ok(transaction)
    }

    /// The open tables of a transaction.
    pub(crate) fn batch<'t>(&'t self, transaction: &'t WriteTransaction) -> Result<Batch<'t>, StoreError> {
        Ok(Batch {
            store: self,
            meta: transaction.open_table(META)?,
            messages: transaction.open_table(MESSAGES)?,
            bounds: transaction.open_table(QUEUES)?,
            dead: transaction.open_table(DEAD)?,
            queues: self.queues(),
        })
    }

    /// Takes over what a transaction changed, once it is on disk.
    pub(crate) fn committed(&self, queues: Vec<Queue>) {
        *self.lock() = queues;
    }
}

fn database(path: &Path) -> Result<Database, DatabaseError> {
    Database::builder().set_cache_size(CACHE_BYTES).create(path)
}

/// Makes a new file beside its place and puts it there when it is whole: a process killed meanwhile leaves no file that
/// can't be opened.
fn create(path: &Path, options: &Options) -> Result<(), OpenError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let failed = |source| OpenError::from_io(path.into(), source);
    if new.exists() {
        fs::remove_file(&new).map_err(failed)?;
    }
    let made = database(&new)
        .map_err(|error| OpenError::from_database(path.into(), error))
        .and_then(|made| prepare(&made, options).map_err(|error| OpenError::from_store(path.into(), error)));
    // A link never replaces what another process put there meanwhile; not every file system has links.
    let placed = made.and_then(|_| match fs::hard_link(&new, path) {
        Ok(()) => fs::remove_file(&new).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::remove_file(&new).map_err(failed),
        Err(_) => fs::rename(&new, path).map_err(failed),
    });
    if placed.is_err() && new.exists() {
        fs::remove_file(&new).map_err(failed)?;
    }
    placed
}

/// Makes the tables of a new file and answers layout, number of queues and store id.
fn prepare(database: &Database, options: &Options) -> Result<(u64, u64, u64), StoreError> {
    let transaction = database.begin_write()?;
    let found = {
        let mut meta = transaction.open_table(META)?;
        transaction.open_table(MESSAGES)?;
        transaction.open_table(QUEUES)?;
        transaction.open_table(DEAD)?;
        if meta.is_empty()? {
            let queues = options.queues.map_or(Options::DEFAULT_QUEUES, std::num::NonZero::get);
            let id = getrandom::u64().map_err(|error| StoreError::Io(error.to_string()))?;
            meta.insert("layout", LAYOUT)?;
            meta.insert("queues", u64::from(queues))?;
            meta.insert("id", id)?;
        }
        let read = |name| -> Result<u64, StoreError> {
            Ok(meta.get(name)?.ok_or_else(|| StoreError::Corrupt(format!("no {name}")))?.value())
        };
        (read("layout")?, read("queues")?, read("id")?)
    };
    transaction.commit()?;
    Ok(found)
}

fn load(database: &Database, queues: u32) -> Result<Vec<Queue>, StoreError> {
    let transaction = database.begin_read()?;
    let bounds = transaction.open_table(QUEUES)?;
    let messages = transaction.open_table(MESSAGES)?;
    let mut loaded = Vec::new();
    for queue in 0..queues {
        let (committed, end) = bounds.get(queue)?.map_or((0, 0), |value| value.value());
        let mut index = Queue { start: committed, committed, end, kept_bytes: 0 };
        for entry in messages.range((queue, 0)..(queue, committed))? {
            let (key, value) = entry?;
            index.start = index.start.min(key.value().1);
            index.kept_bytes += value.value().len() as u64;
        }
        loaded.push(index);
    }
    Ok(loaded)
}

/// The tables of one transaction, and the bounds as they will be when it is on disk.
pub(crate) struct Batch<'t> {
    store: &'t Store,
    meta: Table<'t, &'static str, u64>,
    messages: Table<'t, (u32, u64), &'static [u8]>,
    bounds: Table<'t, u32, (u64, u64)>,
    dead: Table<'t, u64, (u32, u64, u32, u64, &'static [u8])>,
    queues: Vec<Queue>,
}

impl Batch<'_> {
    pub(crate) fn publish(&mut self, queue: QueueId, message: &NewMessage) -> Result<Published, StoreError> {
        let offset = self.index(queue)?.end;
        let id = format!("{:016x}-{}-{offset}", self.store.id, queue.0);
        let stored_ms = i64::try_from(now_ms()).unwrap_or(i64::MAX);
        self.append(queue, &record::encode(&id, stored_ms, message))?;
        Ok(Published { queue, name: self.name(queue), position: Position(offset), id: id.into() })
    }

    fn append(&mut self, queue: QueueId, record: &[u8]) -> Result<u64, StoreError> {
        let index = self.index(queue)?;
        let offset = index.end;
        index.end += 1;
        let bounds = (index.committed, index.end);
        self.messages.insert((queue.0, offset), record)?;
        self.bounds.insert(queue.0, bounds)?;
        Ok(offset)
    }

    /// Stores a cursor and removes finished messages beyond what is kept.
    pub(crate) fn commit(&mut self, queue: QueueId, position: Position) -> Result<(), StoreError> {
        let index = *self.index(queue)?;
        let (old, new) = (index.committed, position.0);
        let changed = self.bytes(queue, old.min(new), old.max(new))?;
        let index = self.index(queue)?;
        index.kept_bytes =
            if new > old { index.kept_bytes + changed } else { index.kept_bytes.saturating_sub(changed) };
        index.committed = new;
        let bounds = (new, index.end);
        self.bounds.insert(queue.0, bounds)?;
        self.retain(queue)
    }

    fn bytes(&self, queue: QueueId, from: u64, to: u64) -> Result<u64, StoreError> {
        let mut bytes = 0;
        for entry in self.messages.range((queue.0, from)..(queue.0, to))? {
            bytes += entry?.1.value().len() as u64;
        }
        Ok(bytes)
    }

    fn retain(&mut self, queue: QueueId) -> Result<(), StoreError> {
        let (most, most_bytes) = self.store.kept;
        for _ in 0..REMOVED_AT_ONCE {
            let index = *self.index(queue)?;
            let kept = index.committed.saturating_sub(index.start);
            if kept == 0 || (kept <= most && index.kept_bytes <= most_bytes) {
                break;
            }
            let removed =
                self.messages.remove((queue.0, index.start))?.map_or(0, |value| value.value().len());
            let index = self.index(queue)?;
            index.start += 1;
            index.kept_bytes = index.kept_bytes.saturating_sub(removed as u64);
        }
        Ok(())
    }

    /// Moves a message to the dead letters. Moved before is success, so that a repetition makes no second copy.
    pub(crate) fn dead_letter(
        &mut self,
        queue: QueueId,
        position: Position,
        attempts: u32,
    ) -> Result<(), StoreError> {
        let committed = self.index(queue)?.committed;
        let Some(record) = self.messages.remove((queue.0, position.0))?.map(|value| value.value().to_vec())
        else {
            return Ok(());
        };
        if position.0 < committed {
            let index = self.index(queue)?;
            index.kept_bytes = index.kept_bytes.saturating_sub(record.len() as u64);
        }
        let id = self.meta.get("next-dead-letter")?.map_or(1, |id| id.value());
        self.meta.insert("next-dead-letter", id + 1)?;
        self.dead.insert(id, (queue.0, position.0, attempts, now_ms(), record.as_slice()))?;
        Ok(())
    }

    /// Appends a dead letter to its queue again, its id unchanged; `None` when there is none of that number.
    pub(crate) fn redrive(&mut self, id: u64) -> Result<Option<Published>, StoreError> {
        let found = self.dead.remove(id)?.map(|value| {
            let (queue, _, _, _, record) = value.value();
            (QueueId(queue), record.to_vec())
        });
        let Some((queue, record)) = found else { return Ok(None) };
        let position = Position(self.append(queue, &record)?);
        let id = record::decode(&Bytes::from(record)).map(|message| message.id).unwrap_or_default();
        Ok(Some(Published { queue, name: self.name(queue), position, id }))
    }

    /// The queue's end within this transaction.
    pub(crate) fn end(&mut self, queue: QueueId) -> Result<u64, StoreError> {
        Ok(self.index(queue)?.end)
    }

    /// The bounds after this transaction.
    pub(crate) fn finish(self) -> Vec<Queue> {
        self.queues
    }

    fn index(&mut self, queue: QueueId) -> Result<&mut Queue, StoreError> {
        self.queues.get_mut(queue.0 as usize).ok_or(StoreError::NoQueue(queue.0))
    }

    fn name(&self, queue: QueueId) -> QueueName {
        self.store.names.get(queue.0 as usize).cloned().unwrap_or_else(|| QueueName::from(""))
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(now).unwrap_or(u64::MAX)
}
