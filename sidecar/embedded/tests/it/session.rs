use std::{collections::BTreeMap, num::NonZero, sync::Arc, time::Duration};

use lockstep_broker::{
    Broker, Clock, Commit, FetchRequest, Fetched, LeaseEvent, LeaseKeeper, Reader, Settle, Settlement,
    Settler,
};
use lockstep_embedded::{
    Embedded, EmbeddedBroker, EmbeddedKeeper, EmbeddedReader, EmbeddedSettler, NewMessage, Options,
};
use lockstep_model::{Delivery, Epoch, Identity, Position, QueueId};
use serde_json::json;
use tokio::time::timeout;

use crate::support::Served;

const Q0: QueueId = QueueId(0);
const PATIENCE: Duration = Duration::from_secs(10);

fn one_queue() -> Options {
    Options { queues: NonZero::new(1), ..Options::default() }
}

struct Consumer {
    reader: EmbeddedReader,
    settler: EmbeddedSettler,
    keeper: EmbeddedKeeper,
    epoch: Epoch,
    cursor: Position,
}

impl Consumer {
    async fn join(broker: EmbeddedBroker) -> Self {
        let (reader, settler, mut keeper) = broker.split();
        keeper.join();
        let (epoch, cursor) = acquired(&mut keeper).await;
        Self { reader, settler, keeper, epoch, cursor }
    }

    async fn fetch(&self, from: Position, count: u32) -> (Vec<Delivery>, Position) {
        let request = FetchRequest { queue: Q0, epoch: self.epoch, from, count, bytes: 100 << 20 };
        match timeout(PATIENCE, self.reader.fetch(request)).await.unwrap().unwrap() {
            Fetched::Deliveries { deliveries, next, .. } => (deliveries, next),
            Fetched::Moved { .. } => panic!("nothing was moved"),
        }
    }

    async fn commit(&self, position: u64) {
        let (queue, epoch, position) = (Q0, self.epoch, Position(position));
        let commit = Commit { queue, epoch, position, last: Identity::None, not_after: None };
        self.settler.commit(commit).await.unwrap();
    }

    async fn dead_letter(&self, delivery: &Delivery) {
        let settle = Settle {
            epoch: self.epoch,
            delivery: Arc::new(delivery.clone()),
            settlement: Settlement::DeadLetter,
            attempts: 16,
            not_after: None,
        };
        for result in self.settler.settle(vec![settle]).await {
            result.unwrap();
        }
    }
}

async fn acquired(keeper: &mut EmbeddedKeeper) -> (Epoch, Position) {
    loop {
        let event = timeout(PATIENCE, keeper.next()).await.unwrap();
        if let LeaseEvent::Acquired { epoch, cursor, .. } = event {
            return (epoch, cursor);
        }
    }
}

async fn publish(broker: &Embedded, bodies: std::ops::Range<u32>) {
    for body in bodies {
        let body = body.to_string().into();
        broker.publish(NewMessage { body, ..NewMessage::default() }).await.unwrap();
    }
}

fn bodies(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| std::str::from_utf8(&delivery.message.body).unwrap()).collect()
}

#[tokio::test]
async fn a_dead_letter_is_seen_and_sent_back_with_its_id() {
    let served = Served::start(one_queue()).await;
    publish(&served.broker, 0..3).await;
    let consumer = Consumer::join(served.broker.broker(Clock::new())).await;
    let (first, _) = consumer.fetch(consumer.cursor, 3).await;
    consumer.dead_letter(&first[0]).await;
    consumer.dead_letter(&first[0]).await;
    let (status, listed) = served.get("/dead-letters").await;
    assert_eq!(status, 200);
    assert_eq!(listed["deadLetters"].as_array().unwrap().len(), 1);
    let letter = &listed["deadLetters"][0];
    assert_eq!((&letter["id"], &letter["attempts"]), (&json!(1), &json!(16)));
    assert_eq!((&letter["message"]["body"], &letter["message"]["position"]), (&json!("0"), &json!(0)));
    let (status, receipt) = served.post("/dead-letters/1/redrive", &[], vec![]).await;
    assert_eq!((status, &receipt["position"]), (201, &json!(3)));
    assert_eq!(served.post("/dead-letters/1/redrive", &[], vec![]).await.0, 404);
    assert_eq!(served.broker.dead_letter_count().unwrap(), 0);
    let (again, next) = consumer.fetch(Position(0), 10).await;
    assert_eq!((bodies(&again), next), (vec!["1", "2", "0"], Position(4)));
    assert_eq!(again[2].message.id, first[0].message.id);
    assert_ne!(again[2].identity, first[0].identity);
}

#[tokio::test]
async fn cursor_and_dead_letters_survive_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q");
    let broker = Embedded::open(&path, one_queue()).unwrap();
    publish(&broker, 0..4).await;
    let consumer = Consumer::join(broker.broker(Clock::new())).await;
    let (first, _) = consumer.fetch(Position(0), 4).await;
    consumer.commit(1).await;
    consumer.dead_letter(&first[1]).await;
    drop((consumer, broker));
    // The dead letter was not committed yet: its place is empty all the same. The finished message is kept.
    let broker = Embedded::open(&path, one_queue()).unwrap();
    let served = Served::of(broker.clone(), folder).await;
    let (_, listed) = served.get("/messages").await;
    let kept: Vec<_> =
        listed["messages"].as_array().unwrap().iter().map(|message| &message["body"]).collect();
    assert_eq!(kept, ["0", "2", "3"]);
    let consumer = Consumer::join(broker.broker(Clock::new())).await;
    assert_eq!(consumer.cursor, Position(1));
    let (rest, next) = consumer.fetch(consumer.cursor, 10).await;
    assert_eq!((bodies(&rest), next), (vec!["2", "3"], Position(4)));
    assert_eq!(broker.dead_letter_count().unwrap(), 1);
    assert_eq!(rest[0].identity, first[2].identity);
}

#[tokio::test]
async fn a_queue_of_dead_letters_only_is_passed_over() {
    let broker = Embedded::open(tempfile::tempdir().unwrap().path().join("q"), one_queue()).unwrap();
    publish(&broker, 0..2).await;
    let consumer = Consumer::join(broker.broker(Clock::new())).await;
    let (both, _) = consumer.fetch(Position(0), 2).await;
    for delivery in &both {
        consumer.dead_letter(delivery).await;
    }
    let (none, next) = consumer.fetch(Position(0), 2).await;
    assert_eq!((none.len(), next), (0, Position(2)));
}

#[tokio::test]
async fn finished_messages_beyond_the_bound_are_removed() {
    let served = Served::start(Options { kept_messages: 10, ..one_queue() }).await;
    publish(&served.broker, 0..30).await;
    let consumer = Consumer::join(served.broker.broker(Clock::new())).await;
    consumer.commit(25).await;
    let (_, status) = served.get("/").await;
    assert_eq!(
        status["queues"][0],
        json!({"name": "embedded/0", "start": 15, "committed": 25, "end": 30, "unfinished": 5})
    );
    assert_eq!(status["consumer"], true);
    let (_, listed) = served.get("/messages?queue=0&limit=1").await;
    assert_eq!(listed["messages"][0]["body"], "15");
    let request = FetchRequest { queue: Q0, epoch: consumer.epoch, from: Position(3), count: 1, bytes: 1 };
    let moved = consumer.reader.fetch(request).await.unwrap();
    assert!(matches!(moved, Fetched::Moved { to: Position(15), reset: false }), "{moved:?}");
}

#[tokio::test]
async fn the_bytes_of_finished_messages_are_bounded_too() {
    let served = Served::start(Options { kept_bytes: 5_000, ..one_queue() }).await;
    for _ in 0..10 {
        let body = vec![b'x'; 1_000].into();
        served.broker.publish(NewMessage { body, ..NewMessage::default() }).await.unwrap();
    }
    let consumer = Consumer::join(served.broker.broker(Clock::new())).await;
    for position in 1..=10 {
        consumer.commit(position).await;
    }
    let (_, status) = served.get("/").await;
    assert_eq!(status["queues"][0]["start"], 6, "four records of 1,000 bytes and a head fit: {status}");
}

#[tokio::test]
async fn a_second_consumer_waits_for_the_end_of_the_first() {
    let broker = Embedded::open(tempfile::tempdir().unwrap().path().join("q"), one_queue()).unwrap();
    let clock = Clock::new();
    let first = Consumer::join(broker.broker(clock)).await;
    let (_reader, _settler, mut second) = broker.broker(clock).split();
    second.join();
    let event = timeout(PATIENCE, second.next()).await.unwrap();
    let LeaseEvent::Source(state) = event else { panic!("{event:?}") };
    assert_eq!(state.problem.unwrap().reason, "MoreReplicasThanQueues");
    let ended = first.epoch;
    drop(first.keeper);
    let (epoch, _) = acquired(&mut second).await;
    assert!(epoch > ended);
    // The ended consumer's other halves are fenced.
    let request = FetchRequest { queue: Q0, epoch: ended, from: Position(0), count: 1, bytes: 1 };
    assert_eq!(first.reader.fetch(request).await.unwrap_err().problem.reason, "NotOwner");
}

#[tokio::test]
async fn commits_of_many_queues_and_publishes_share_transactions() {
    let options = Options { queues: NonZero::new(16), ..Options::default() };
    let broker = Embedded::open(tempfile::tempdir().unwrap().path().join("q"), options).unwrap();
    publish(&broker, 0..64).await;
    let (_reader, settler, mut keeper) = broker.broker(Clock::new()).split();
    keeper.join();
    let mut epochs = BTreeMap::new();
    while epochs.len() < 16 {
        if let LeaseEvent::Acquired { queue, epoch, .. } = timeout(PATIENCE, keeper.next()).await.unwrap() {
            epochs.insert(queue, epoch);
        }
    }
    let commits = epochs.iter().map(|(queue, epoch)| {
        let (queue, epoch, position) = (*queue, *epoch, Position(4));
        settler.commit(Commit { queue, epoch, position, last: Identity::None, not_after: None })
    });
    for result in futures_util::future::join_all(commits).await {
        result.unwrap();
    }
    assert_eq!(broker.unfinished(), 0);
}
