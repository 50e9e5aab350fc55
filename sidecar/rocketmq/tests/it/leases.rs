use std::time::Duration;

use lockstep_broker::{Certainty, LeaseEvent, LeaseKeeper};
use lockstep_model::{Identity, Position};
use lockstep_rocketmq::{codec::Command, reason};
use tokio::time::timeout;

use crate::{
    fake::{Fake, stored},
    member::{LOCK_LIFE, Member, config},
};

#[tokio::test]
async fn a_refused_lock_is_asked_for_until_it_is_granted() {
    let fake = Fake::start(1).await;
    fake.script().locks.insert(0, "other".to_owned());
    let mut member = Member::join(config(&fake, "me"));
    fake.until("three refusals", |script| script.journal.iter().filter(|c| c.code == 41).count() >= 3).await;
    fake.script().locks.clear();
    let owned = member.acquired().await;
    assert_eq!((owned.name.as_str(), owned.cursor), ("t/b/0", Position(0)));
    assert_eq!(fake.script().locks[&0], "me");
    assert_eq!(fake.script().committed[&0], 0, "the start position is committed at once");
}

#[tokio::test]
async fn leases_are_renewed_while_nobody_reads_settles_or_listens() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    let renewals = fake.count(41);
    fake.until("renewals", |script| script.journal.iter().filter(|c| c.code == 41).count() >= renewals + 2)
        .await;
    let event = member.keeper.next().await;
    let renewed =
        |event: &LeaseEvent| matches!(event, LeaseEvent::Renewed { epoch, .. } if *epoch == owned.epoch);
    if !renewed(&event) {
        member.find("a renewal", |event| renewed(&event).then_some(())).await;
    }
}

#[tokio::test]
async fn a_lease_that_can_not_be_renewed_is_lost_at_its_deadline_and_nothing_is_written_then() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    fake.script().answers.insert(41, Command::response(1, 0).remark("no"));
    assert_eq!(member.lost().await, owned.epoch);
    let error = member.commit(&owned, 0, Identity::None, None).await.unwrap_err();
    assert_eq!((error.problem.reason, error.certainty), (reason::NOT_OWNED, Certainty::NotDone));
    assert!(member.fetch(&owned, 0).await.is_err());
    fake.script().answers.clear();
    let again = member.acquired().await;
    assert!(again.epoch > owned.epoch);
}

#[tokio::test]
async fn a_refused_renewal_is_a_loss() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    fake.script().locks.insert(0, "thief".to_owned());
    assert_eq!(member.lost().await, owned.epoch);
}

#[tokio::test]
async fn a_cut_connection_is_a_doubt_that_ends_with_the_same_epoch() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a"]);
    let (mut member, owned) = Member::owner(&fake).await;
    let (read, _) = member.read(&owned, 0).await;
    member.commit(&owned, 1, read[0].identity.clone(), None).await.unwrap();
    fake.cut();
    assert!(matches!(member.event().await, LeaseEvent::Doubtful { epoch, .. } if epoch == owned.epoch));
    let epoch = member
        .find("the end of the doubt", |event| match event {
            LeaseEvent::Renewed { epoch, .. } => Some(epoch),
            LeaseEvent::Lost { .. } => panic!("lost"),
            _ => None,
        })
        .await;
    assert_eq!(epoch, owned.epoch);
    member.commit(&owned, 2, Identity::None, None).await.unwrap();
    assert_eq!(fake.script().committed[&0], 2);
}

#[tokio::test]
async fn after_doubt_a_commit_that_the_broker_forgot_is_repeated() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a"]);
    let (mut member, owned) = Member::owner(&fake).await;
    let (read, _) = member.read(&owned, 0).await;
    member.commit(&owned, 2, read[1].identity.clone(), None).await.unwrap();
    fake.script().committed.insert(0, 0);
    fake.cut();
    member.find("a renewal", |event| matches!(event, LeaseEvent::Renewed { .. }).then_some(())).await;
    fake.until("the repeated commit", |script| script.committed[&0] == 2).await;
}

#[tokio::test]
async fn after_doubt_the_brokers_position_holds_when_another_message_stands_in_our_place() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a"]);
    let (mut member, owned) = Member::owner(&fake).await;
    let (read, _) = member.read(&owned, 0).await;
    member.commit(&owned, 2, read[1].identity.clone(), None).await.unwrap();
    {
        let mut script = fake.script();
        script.committed.insert(0, 1);
        script.log.get_mut(&0).unwrap()[1] = stored(0, 1, 7_777, "a", b"another");
    }
    fake.cut();
    let to = member
        .find("the move", |event| if let LeaseEvent::Moved { to, .. } = event { Some(to) } else { None })
        .await;
    assert_eq!(to, Position(1));
    let error = member.commit(&owned, 2, Identity::None, None).await.unwrap_err();
    assert_eq!(error.problem.reason, reason::POSITION_MOVED);
    assert_eq!(member.read(&owned, 1).await.0[0].message.body, "another");
    member.commit(&owned, 2, Identity::None, None).await.unwrap();
}

#[tokio::test]
async fn after_doubt_a_commit_beyond_ours_means_that_another_owned_the_queue() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a"]);
    let (mut member, owned) = Member::owner(&fake).await;
    fake.script().committed.insert(0, 2);
    fake.cut();
    assert!(matches!(member.event().await, LeaseEvent::Doubtful { .. }));
    assert_eq!(member.lost().await, owned.epoch);
    let again = member.acquired().await;
    assert_eq!(again.cursor, Position(2));
    assert!(again.epoch > owned.epoch);
}

#[tokio::test]
async fn after_doubt_a_refused_lock_is_a_loss() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    fake.script().locks.insert(0, "thief".to_owned());
    fake.cut();
    assert!(matches!(member.event().await, LeaseEvent::Doubtful { .. }));
    assert_eq!(member.lost().await, owned.epoch);
}

#[tokio::test]
async fn a_broker_that_falls_silent_makes_doubt_and_then_loss() {
    let fake = Fake::start(1).await;
    // The connection is given up a second after the first renewal, and that must be before the lease ends.
    let mut patient = config(&fake, "me");
    patient.lock_lifetime = LOCK_LIFE * 2;
    let mut member = Member::join(patient);
    let owned = member.acquired().await;
    fake.script().deaf.extend([11, 14, 15, 28, 34, 38, 41, 105]);
    assert!(matches!(member.event().await, LeaseEvent::Doubtful { epoch, .. } if epoch == owned.epoch));
    assert_eq!(member.lost().await, owned.epoch);
    fake.script().deaf.clear();
    member.acquired().await;
}

#[tokio::test]
async fn on_a_broker_just_started_a_newcomer_waits_for_one_lease() {
    let fake = Fake::start(1).await;
    fake.script().uptime = 0;
    let mut member = Member::join(config(&fake, "me"));
    let begin = member.clock.now();
    member.problem(reason::BROKER_RESTARTED).await;
    assert_eq!(fake.count(41), 0);
    member.acquired().await;
    assert!(member.clock.now().since(begin) >= LOCK_LIFE / 2);
}

#[tokio::test]
async fn a_restarted_broker_gives_back_what_we_held() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    {
        let mut script = fake.script();
        script.uptime = 0;
        script.locks.clear();
    }
    fake.cut();
    let epoch = member
        .find("the end of the doubt", |event| match event {
            LeaseEvent::Renewed { epoch, .. } => Some(epoch),
            _ => None,
        })
        .await;
    assert_eq!(epoch, owned.epoch);
}

#[tokio::test]
async fn what_is_too_late_is_not_sent() {
    let fake = Fake::start(1).await;
    let (member, owned) = Member::owner(&fake).await;
    let commits = fake.count(15);
    let error = member.commit(&owned, 0, Identity::None, Some(member.clock.now())).await.unwrap_err();
    assert_eq!(error.certainty, Certainty::NotDone);
    assert_eq!(fake.count(15), commits);
    let soon = member.clock.now() + Duration::from_secs(1);
    member.commit(&owned, 0, Identity::None, Some(soon)).await.unwrap();
}

#[tokio::test]
async fn leaving_unlocks_what_is_released_before_it_unregisters_and_keeps_the_rest() {
    let fake = Fake::start(2).await;
    let mut member = Member::join(config(&fake, "me"));
    let (first, second) = (member.acquired().await, member.acquired().await);
    member.keeper.leave();
    member.keeper.release(first.queue, first.epoch);
    assert!(matches!(member.event().await, LeaseEvent::Released { queue, .. } if queue == first.queue));
    fake.until("the farewell", |script| script.journal.iter().any(|c| c.code == 35)).await;
    let codes: Vec<i32> =
        fake.script().journal.iter().map(|c| c.code).filter(|c| matches!(c, 35 | 42)).collect();
    assert_eq!(codes, [42, 35]);
    let renewals = fake.count(41);
    fake.until("renewals of the slow queue", |script| {
        script.journal.iter().filter(|c| c.code == 41).count() > renewals
    })
    .await;
    assert!(!fake.script().is_member("me"));
    member.commit(&second, 0, Identity::None, None).await.unwrap();
    member.keeper.release(second.queue, second.epoch);
    assert!(matches!(member.event().await, LeaseEvent::Released { queue, .. } if queue == second.queue));
    assert!(matches!(member.event().await, LeaseEvent::Left));
    assert!(fake.script().locks.is_empty());
    member.keeper.join();
    assert!(member.acquired().await.epoch > first.epoch);
}

#[tokio::test]
async fn who_never_joined_has_left_at_once_and_can_join() {
    let fake = Fake::start(1).await;
    let mut member = Member::apart(config(&fake, "me"));
    member.keeper.leave();
    assert!(matches!(member.event().await, LeaseEvent::Left));
    member.keeper.leave();
    assert!(matches!(member.event().await, LeaseEvent::Left));
    assert_eq!(fake.script().journal.len(), 0);
    member.keeper.join();
    member.acquired().await;
}

#[tokio::test]
async fn a_second_wish_to_leave_does_not_begin_the_leave_anew() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    member.keeper.leave();
    fake.until("the farewell", |script| script.journal.iter().any(|c| c.code == 35)).await;
    member.keeper.leave();
    member.keeper.release(owned.queue, owned.epoch);
    assert!(matches!(member.event().await, LeaseEvent::Released { .. }));
    assert!(matches!(member.event().await, LeaseEvent::Left));
    assert_eq!(fake.count(35), 1);
}

#[tokio::test]
async fn who_has_no_queue_and_comes_back_at_once_is_a_member_at_once() {
    let fake = Fake::start(1).await;
    fake.script().others = vec!["a".to_owned()];
    let mut member = Member::join(config(&fake, "me"));
    member.source("the group", |state| state.connected).await;
    member.keeper.leave();
    member.keeper.join();
    member.source("the end", |state| !state.connected).await;
    // Half of the time between two regular rounds.
    let again = member.source("the group again", |state| state.connected);
    timeout(Duration::from_secs(10), again).await.expect("it must not wait for the next regular round");
}

#[tokio::test]
async fn who_comes_back_shares_by_what_the_group_is_then() {
    let fake = Fake::start(2).await;
    let mut member = Member::join(config(&fake, "b"));
    let owned = [member.acquired().await, member.acquired().await];
    member.keeper.leave();
    for queue in owned {
        member.keeper.release(queue.queue, queue.epoch);
    }
    member.find("the end", |event| matches!(event, LeaseEvent::Left).then_some(())).await;
    fake.script().others = vec!["a".to_owned()];
    let locks = fake.count(41);
    member.keeper.join();
    assert_eq!(member.acquired().await.name, "t/b/1");
    let script = fake.script();
    let asked = script.journal.iter().filter(|c| c.code == 41).nth(locks).unwrap();
    assert!(!String::from_utf8_lossy(&asked.body).contains(r#""queueId":0"#), "{asked:?}");
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_farewell_is_made_again_for_what_is_still_busy() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    member.keeper.leave();
    fake.until("the farewell", |script| script.journal.iter().any(|c| c.code == 35)).await;
    let heartbeats = fake.count(34);
    fake.cut();
    assert!(matches!(member.event().await, LeaseEvent::Doubtful { .. }));
    member
        .find("the end of the doubt", |event| matches!(event, LeaseEvent::Renewed { .. }).then_some(()))
        .await;
    member.commit(&owned, 0, Identity::None, None).await.unwrap();
    member.keeper.release(owned.queue, owned.epoch);
    assert!(matches!(member.event().await, LeaseEvent::Released { .. }));
    assert!(matches!(member.event().await, LeaseEvent::Left));
    assert!(fake.script().locks.is_empty());
    assert_eq!(fake.count(34), heartbeats, "it is no member again");
}

#[tokio::test]
async fn who_leaves_and_comes_back_at_once_keeps_the_queue() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    member.keeper.leave();
    member.keeper.join();
    member.source("the group", |state| !state.connected).await;
    member.source("the group again", |state| state.connected && state.problem.is_none()).await;
    member.commit(&owned, 0, Identity::None, None).await.unwrap();
    assert_eq!((fake.count(35), fake.count(42)), (0, 0));
}

#[tokio::test]
async fn who_comes_back_during_the_farewell_is_a_member_again() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    member.keeper.leave();
    member.keeper.release(owned.queue, owned.epoch);
    fake.until("the farewell", |script| script.journal.iter().any(|c| c.code == 35)).await;
    member.keeper.join();
    let again = member
        .find("the queue again", |event| match event {
            LeaseEvent::Acquired { epoch, .. } => Some(epoch),
            LeaseEvent::Source(state) => state.problem.map(|problem| panic!("{problem}")),
            _ => None,
        })
        .await;
    assert!(again > owned.epoch);
    assert!(fake.script().is_member("me"));
}
