use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use crate::amqp::{Budget, budget::Place};

const WITHIN: Option<Place> = Some(Place::Within);
const BEYOND: Option<Place> = Some(Place::Beyond);

#[test]
fn what_fits_is_admitted_and_one_that_never_would_beside_it() {
    let budget = Budget::new(100);
    assert_eq!([60, 40, 1].map(|size| budget.take(size)), [WITHIN, WITHIN, None]);
    assert_eq!([101, 101].map(|size| budget.take(size)), [BEYOND, None]);
    assert_eq!(budget.held(), 201);
    budget.give(100, Place::Within);
    assert_eq!(budget.take(101), None);
    budget.give(101, Place::Beyond);
    assert_eq!([Budget::largest() + 1, u64::MAX].map(|size| budget.take(size)), [None, None]);
    assert_eq!(budget.held(), 0);
    assert_eq!(budget.take(Budget::largest()), BEYOND);
    assert_eq!(Budget::new(usize::MAX).take(Budget::largest() + 1), None);
}

#[tokio::test(start_paused = true)]
async fn room_is_waited_for_a_moment_and_then_taken_beyond_the_limit_by_one_at_a_time() {
    let soon = Duration::from_millis(900);
    let late = Duration::from_millis(1100);
    let budget = Budget::new(10_000);
    assert_eq!(budget.take(6000), WITHIN);
    let body = budget.lend(Bytes::from_static(b"x"), 6000, Place::Within);
    let part = body.clone();
    drop(body);
    assert!(timeout(soon, budget.reserve(5000)).await.is_err());
    // Room that becomes free is taken at once, with some for what the broker adds.
    let (reserved, ()) = tokio::join!(timeout(soon, budget.reserve(5000)), async { drop(part) });
    let reserved = reserved.unwrap();
    assert_eq!(budget.held(), 6024);
    let beyond = timeout(late, budget.reserve(5000)).await.unwrap();
    assert_eq!((budget.held(), budget.take(20_000)), (12_048, None));
    assert!(timeout(late, budget.reserve(5000)).await.is_err());
    assert!(beyond.is_for(6024) && !beyond.is_for(6025));
    assert_eq!(beyond.spend(5010), Place::Beyond);
    assert_eq!(budget.held(), 6024 + 5010);
    drop(reserved);
    budget.give(5010, Place::Beyond);
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn room_that_those_before_it_will_not_take_lies_beyond_the_limit() {
    let budget = Budget::new(10_000);
    // What is held has given its room back, and takes it again on the next channel.
    let reserved = budget.reserve_beyond(6000).await;
    assert_eq!(budget.take(6000), WITHIN);
    assert_eq!(reserved.spend(6000), Place::Beyond);
    // Where another is there, room within the limit is better than none.
    assert_eq!(budget.reserve_beyond(1000).await.spend(1000), Place::Within);
}
