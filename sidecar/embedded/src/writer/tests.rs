use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockstep_broker::{Broker, Clock, LeaseEvent, LeaseKeeper};
use redb::{Database, StorageBackend, backends::InMemoryBackend};
use tokio::time::timeout;

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
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }
}

#[tokio::test]
async fn a_full_device_refuses_every_write_and_says_so() {
    let space = Arc::new(AtomicU64::new(u64::MAX));
    let device = Device { inner: InMemoryBackend::new(), space: Arc::clone(&space) };
    let database = Database::builder().create_with_backend(device).unwrap();
    let options = Options::default();
    let store = Store::with_database(database, Path::new("memory"), &options).unwrap();
    let broker = Embedded::with_store(store, options).unwrap();
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
