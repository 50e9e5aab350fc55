use std::{
    io,
    path::Path,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockstep_broker::{Broker, Clock, LeaseEvent, LeaseKeeper};
use lockstep_model::QueueId;
use redb::{Database, StorageBackend, backends::InMemoryBackend};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use super::{Command, Signals, write_all};
use crate::{Embedded, NewMessage, Options, StoreError, store::Store};

/// A device with only so much space.
#[derive(Debug)]
struct Device {
    inner: InMemoryBackend,
    space: Arc<AtomicU64>,
}

impl StorageBackend for Device {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if length > self.space.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.inner.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.space.load(Ordering::Relaxed) == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }
}

/// A store on a device, and the device's space.
fn on_device() -> (Store, Arc<AtomicU64>) {
    let space = Arc::new(AtomicU64::new(u64::MAX));
    let device = Device { inner: InMemoryBackend::new(), space: Arc::clone(&space) };
    let database = Database::builder().create_with_backend(device).unwrap();
    (Store::with_database(database, Path::new("memory"), &Options::default()).unwrap(), space)
}

#[test]
fn of_a_transaction_that_fails_nothing_is_said_to_be_done() {
    // The second message does not fit; or all do, and the end of the transaction fails.
    for sizes in [[0, 8 << 20, 0], [0, 0, 0]] {
        let (store, space) = on_device();
        let signals = Signals {
            written: watch::channel(()).0,
            failure: RwLock::default(),
            session: watch::channel(()).0,
        };
        space.store(0, Ordering::Relaxed);
        let (sender, commands) = mpsc::channel(8);
        let outcomes = sizes.map(|size| {
            let (reply, outcome) = oneshot::channel();
            let message = NewMessage { body: vec![7; size].into(), ..NewMessage::default() };
            sender.try_send(Command::Publish { queue: QueueId(0), message, reply }).unwrap();
            outcome
        });
        drop(sender);
        write_all(&store, &signals, commands);
        for outcome in outcomes {
            assert_eq!(outcome.blocking_recv().unwrap(), Err(StoreError::Full), "{sizes:?}");
        }
        assert_eq!(store.queue(QueueId(0)).unwrap().end, 0, "{sizes:?}");
    }
}

#[tokio::test]
async fn a_full_device_refuses_every_write_and_says_so() {
    let (store, space) = on_device();
    let broker = Embedded::with_store(store, Options::default()).unwrap();
    let message = NewMessage { body: vec![7; 1 << 20].into(), ..NewMessage::default() };
    broker.publish(message.clone()).await.unwrap();
    let (_reader, _settler, mut keeper) = broker.broker(Clock::new()).split();
    keeper.join();
    space.store(0, Ordering::Relaxed);
    let mut stored = 1;
    let error = loop {
        match broker.publish(message.clone()).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "the device never fills up");
    };
    assert_eq!(error, StoreError::Full);
    assert_eq!(broker.publish(message).await, Err(StoreError::Full));
    assert_eq!(broker.unfinished(), stored);
    loop {
        let event = timeout(Duration::from_secs(10), keeper.next()).await.unwrap();
        if let LeaseEvent::Source(state) = event
            && let Some(problem) = state.problem
        {
            assert_eq!((problem.reason, state.connected), ("StorageFull", false));
            break;
        }
    }
}
