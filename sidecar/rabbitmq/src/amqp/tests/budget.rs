use std::time::Duration;

use tokio::time::timeout;

use crate::amqp::Budget;

#[test]
fn what_fits_is_admitted_and_something_always_is() {
    let budget = Budget::new(100);
    assert!(budget.take(500), "alone");
    assert!(!budget.take(0) && !budget.has_room(1));
    budget.give(500);
    assert!(budget.take(60) && budget.take(40) && !budget.take(1));
    assert_eq!(budget.held(), 100);
    budget.give(100);
    assert!(budget.has_room(Budget::largest()) && !budget.has_room(Budget::largest() + 1));
    assert!(!budget.take(u64::MAX));
    assert_eq!(budget.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn room_is_waited_for() {
    let budget = Budget::new(100);
    budget.room(500).await;
    assert!(budget.take(60));
    let body = budget.lend(vec![0; 60]);
    assert!(timeout(Duration::from_secs(9), budget.room(50)).await.is_err());
    let waits = budget.room(50);
    let (wait, ()) = tokio::join!(timeout(Duration::from_secs(9), waits), async { drop(body) });
    wait.unwrap();
}
