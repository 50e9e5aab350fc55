use std::{sync::Arc, thread, time::Duration};

use futures_util::poll;
use lockstep_broker::{Certainty, LeaseEvent, LeaseKeeper, Settle, Settlement, Settler};
use lockstep_model::{Delivery, Identity};
use lockstep_rocketmq::{codec::Command, reason};

use crate::{
    fake::Fake,
    member::{LOCK_LIFE, Member, Owned},
};

fn dead_letter(owned: &Owned, delivery: &Arc<Delivery>) -> Settle {
    Settle {
        epoch: owned.epoch,
        delivery: Arc::clone(delivery),
        settlement: Settlement::DeadLetter,
        attempts: 3,
        not_after: None,
    }
}

#[tokio::test]
async fn a_commit_that_a_reset_swallowed_is_not_repeated_after_doubt() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a"]);
    let (mut member, owned) = Member::owner(&fake).await;
    let (read, _) = member.read(&owned, 0).await;
    let swallowed = Command::response(0, 0).remark("Offset has been previously reset");
    fake.script().answers.insert(15, swallowed);
    member.commit(&owned, 2, read[1].identity.clone(), None).await.unwrap();
    fake.script().answers.clear();
    fake.cut();
    member
        .find("the end of the doubt", |event| matches!(event, LeaseEvent::Renewed { .. }).then_some(()))
        .await;
    assert_eq!(fake.script().committed[&0], 0);
}

#[tokio::test]
async fn what_a_frozen_process_was_about_to_write_is_not_written_behind_the_lease() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a"]);
    let (member, owned) = Member::owner(&fake).await;
    let delivery = Arc::new(member.read(&owned, 0).await.0.remove(0));
    let commits = fake.count(15);
    let mut commit = Box::pin(member.commit(&owned, 1, Identity::None, None));
    let mut settle = Box::pin(member.settler.settle(vec![dead_letter(&owned, &delivery)]));
    assert!(poll!(&mut commit).is_pending() && poll!(&mut settle).is_pending());
    // All tasks of the test run on this thread, and none beyond the lease.
    let over = member.clock.now() + LOCK_LIFE / 2;
    while member.clock.now() <= over {
        thread::park_timeout(Duration::from_millis(10));
    }
    let late = [commit.await.unwrap_err(), settle.await.remove(0).unwrap_err()];
    assert_eq!(late.map(|error| error.certainty), [Certainty::NotDone; 2]);
    assert_eq!((fake.count(15), fake.count(36)), (commits, 0));
}

#[tokio::test]
async fn nothing_is_written_under_a_queue_that_is_being_released() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    fake.script().deaf.insert(42);
    member.keeper.release(owned.queue, owned.epoch);
    fake.until("the unlock", |script| script.journal.iter().any(|c| c.code == 42)).await;
    let error = member.commit(&owned, 0, Identity::None, None).await.unwrap_err();
    assert_eq!((error.problem.reason, error.certainty), (reason::NOT_OWNED, Certainty::NotDone));
}

#[tokio::test]
async fn a_dead_letter_that_is_refused_or_not_answered_is_not_published_as_well() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a"]);
    let (member, owned) = Member::owner(&fake).await;
    let delivery = Arc::new(member.read(&owned, 0).await.0.remove(0));
    for code in [2, 16, 26] {
        fake.script().answers.insert(36, Command::response(code, 0).remark("no"));
        assert!(member.settler.settle(vec![dead_letter(&owned, &delivery)]).await[0].is_err());
    }
    fake.script().answers.clear();
    fake.script().deaf.insert(36);
    let error = member.settler.settle(vec![dead_letter(&owned, &delivery)]).await.remove(0).unwrap_err();
    // The copy may have been made.
    assert_eq!((error.certainty, fake.count(310)), (Certainty::Unknown, 0));
}

#[tokio::test]
async fn a_dead_letter_is_not_published_when_the_lease_ended_before_the_refusal_came() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a"]);
    let (mut member, owned) = Member::owner(&fake).await;
    let delivery = Arc::new(member.read(&owned, 0).await.0.remove(0));
    fake.script().deaf.insert(36);
    let (settler, settle) = (member.settler.clone(), dead_letter(&owned, &delivery));
    let settling = tokio::spawn(async move { settler.settle(vec![settle]).await.remove(0) });
    fake.until("the question", |script| script.journal.iter().any(|c| c.code == 36)).await;
    member.keeper.release(owned.queue, owned.epoch);
    assert!(matches!(member.event().await, LeaseEvent::Released { .. }));
    let opaque = fake.script().journal.iter().find(|c| c.code == 36).unwrap().opaque;
    fake.push(&Command::response(1, opaque).remark("look message by offset failed"));
    let error = settling.await.unwrap().unwrap_err();
    assert_eq!((error.problem.reason, fake.count(310)), (reason::NOT_OWNED, 0));
}

#[tokio::test]
async fn a_dead_letter_is_copied_by_the_broker_or_published_when_it_can_not() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a"]);
    let (member, owned) = Member::owner(&fake).await;
    let delivery = Arc::new(member.read(&owned, 0).await.0.remove(0));
    let settle = || dead_letter(&owned, &delivery);
    assert!(member.settler.settle(vec![settle()]).await[0].is_ok());
    let sent = |code| fake.script().journal.iter().find(|c| c.code == code).cloned();
    let back = sent(36).unwrap();
    assert_eq!((back.fields.get("delayLevel"), back.fields.get("offset")), (Some("-1"), Some("1000")));
    assert!(sent(310).is_none());

    fake.script().answers.insert(36, Command::response(1, 0).remark("look message by offset failed, 1000"));
    let reply = Command::response(0, 0).field("msgId", "x").field("queueId", 0).field("queueOffset", 0);
    fake.script().answers.insert(310, reply);
    assert!(member.settler.settle(vec![settle()]).await[0].is_ok());
    let published = sent(310).unwrap();
    assert_eq!((published.fields.get("b"), published.body), (Some("%RETRY%g"), "m0".into()));
    assert!(published.fields.get("i").unwrap().contains("RETRY_TOPIC\u{1}t\u{2}"));

    let mut stale = settle();
    stale.epoch.0 -= 1;
    assert_eq!(
        member.settler.settle(vec![stale]).await[0].as_ref().unwrap_err().problem.reason,
        reason::NOT_OWNED
    );
    let accept = Settle { settlement: Settlement::Accept, ..settle() };
    assert_eq!(
        member.settler.settle(vec![accept]).await[0].as_ref().unwrap_err().problem.reason,
        reason::NOT_SUPPORTED
    );
}
