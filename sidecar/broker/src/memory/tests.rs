use std::time::Duration;

use lockstep_model::{Delivery, Epoch, Identity, Position, QueueId};
use tokio::time::timeout;

use super::{MemoryBroker, MemoryKeeper, MemoryOptions, MemoryReader, MemorySettler, MemorySource};
use crate::{Broker, Clock, Commit, FetchRequest, Fetched, LeaseEvent, LeaseKeeper, Reader, Settler};

const Q0: QueueId = QueueId(0);

/// The next event that is about a lease.
async fn lease_event(keeper: &mut MemoryKeeper) -> LeaseEvent {
    loop {
        let event = timeout(Duration::from_secs(300), keeper.next()).await.expect("an event must come");
        if !matches!(event, LeaseEvent::Source(_)) {
            return event;
        }
    }
}

async fn join(broker: MemoryBroker) -> (MemoryReader, MemorySettler, MemoryKeeper, Epoch) {
    let (reader, settler, mut keeper) = broker.split();
    keeper.join();
    let LeaseEvent::Acquired { epoch, .. } = lease_event(&mut keeper).await else { panic!("not acquired") };
    (reader, settler, keeper, epoch)
}

async fn fetch(reader: &MemoryReader, epoch: Epoch, from: u64) -> Vec<Delivery> {
    let request = FetchRequest { queue: Q0, epoch, from: Position(from), count: 10, bytes: 1_000 };
    match reader.fetch(request).await {
        Ok(Fetched::Deliveries { deliveries, .. }) => deliveries,
        other => panic!("unexpected {other:?}"),
    }
}

fn commit(epoch: Epoch, position: u64) -> Commit {
    let position = Position(position);
    Commit { queue: Q0, epoch, position, last: Identity::None, not_after: None }
}

fn log() -> MemorySource {
    MemorySource::new(MemoryOptions::cumulative(), Clock::new(), &["q"])
}

#[tokio::test(start_paused = true)]
async fn doubt_ends_with_the_connection_and_keeps_the_epoch() {
    let source = log();
    let (reader, settler, mut keeper, epoch) = join(source.member("a")).await;
    source.publish(Q0, None, "1");
    source.cut("a");
    assert!(matches!(lease_event(&mut keeper).await, LeaseEvent::Doubtful { .. }));
    assert!(settler.commit(commit(epoch, 1)).await.is_err());
    source.restore("a");
    assert!(matches!(lease_event(&mut keeper).await, LeaseEvent::Renewed { epoch: e, .. } if e == epoch));
    settler.commit(commit(epoch, 1)).await.unwrap();
    assert!(fetch(&reader, epoch, 1).await.is_empty());
    assert_eq!(source.committed(Q0), Some(Position(1)));
}

#[tokio::test(start_paused = true)]
async fn doubt_ends_with_the_deadline_as_a_loss() {
    let source = log();
    let (_reader, _settler, mut keeper, epoch) = join(source.member("a")).await;
    source.cut("a");
    assert!(matches!(lease_event(&mut keeper).await, LeaseEvent::Doubtful { .. }));
    assert!(matches!(lease_event(&mut keeper).await, LeaseEvent::Lost { epoch: e, .. } if e == epoch));
    source.restore("a");
    assert!(matches!(lease_event(&mut keeper).await, LeaseEvent::Acquired { epoch: e, .. } if e > epoch));
}

#[tokio::test(start_paused = true)]
async fn a_restart_forgets_locks_and_their_holder_takes_them_again() {
    let source = log();
    let (_reader, settler, mut keeper, epoch) = join(source.member("a")).await;
    source.restart();
    assert!(source.owners().is_empty());
    assert!(matches!(lease_event(&mut keeper).await, LeaseEvent::Renewed { .. }));
    assert_eq!(source.owned_by("a"), 1);
    settler.commit(commit(epoch, 0)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_seized_queue_comes_back_when_the_outsiders_lock_ran_out() {
    let source = log();
    let (_reader, _settler, mut keeper, epoch) = join(source.member("a")).await;
    source.seize(Q0, Duration::from_secs(60));
    assert!(matches!(lease_event(&mut keeper).await, LeaseEvent::Lost { .. }));
    assert_eq!(source.owned_by("outsider"), 1);
    assert!(matches!(lease_event(&mut keeper).await, LeaseEvent::Acquired { epoch: e, .. } if e > epoch));
}

#[tokio::test(start_paused = true)]
async fn a_reset_is_told_and_refuses_the_older_cursor() {
    let source = log();
    let (_reader, settler, mut keeper, epoch) = join(source.member("a")).await;
    source.publish(Q0, None, "1");
    source.publish(Q0, None, "2");
    settler.commit(commit(epoch, 2)).await.unwrap();
    source.reset(Q0, Position(0));
    assert!(settler.commit(commit(epoch, 2)).await.is_err());
    let moved = lease_event(&mut keeper).await;
    assert!(matches!(moved, LeaseEvent::Moved { to: Position(0), .. }), "{moved:?}");
}

#[tokio::test(start_paused = true)]
async fn retention_moves_the_reader() {
    let source = log();
    let (reader, _settler, _keeper, epoch) = join(source.member("a")).await;
    for body in ["1", "2", "3"] {
        source.publish(Q0, None, body);
    }
    source.trim(Q0, Position(2));
    let request = FetchRequest { queue: Q0, epoch, from: Position(0), count: 10, bytes: 10 };
    let fetched = reader.fetch(request).await.unwrap();
    assert!(matches!(fetched, Fetched::Moved { to: Position(2), reset: false }), "{fetched:?}");
    assert_eq!(fetch(&reader, epoch, 2).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_queue_created_later_is_acquired() {
    let source = MemorySource::new(MemoryOptions::cumulative(), Clock::new(), &[]);
    let (_reader, _settler, mut keeper) = source.member("a").split();
    keeper.join();
    assert!(matches!(keeper.next().await, LeaseEvent::Source(state) if state.problem.is_some()));
    source.create_queue("late");
    assert!(matches!(lease_event(&mut keeper).await, LeaseEvent::Acquired { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_cut_exclusive_consumer_gets_its_deliveries_again_in_order() {
    let source = MemorySource::new(MemoryOptions::per_delivery(), Clock::new(), &["q"]);
    let (reader, _settler, mut keeper, epoch) = join(source.member("a")).await;
    source.publish(Q0, None, "1");
    source.publish(Q0, None, "2");
    assert_eq!(fetch(&reader, epoch, 0).await.len(), 2);
    source.cut("a");
    assert!(matches!(lease_event(&mut keeper).await, LeaseEvent::Doubtful { .. }));
    source.restore("a");
    assert!(matches!(lease_event(&mut keeper).await, LeaseEvent::Lost { .. }));
    let LeaseEvent::Acquired { epoch, .. } = lease_event(&mut keeper).await else { panic!("not acquired") };
    let again = fetch(&reader, epoch, 0).await;
    let seen: Vec<_> = again.iter().map(|d| (d.message.body.as_ref(), d.redeliveries)).collect();
    assert_eq!(seen, [(b"1".as_ref(), 1), (b"2".as_ref(), 1)]);
}
