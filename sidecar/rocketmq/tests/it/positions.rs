use lockstep_broker::LeaseEvent;
use lockstep_model::Position;
use lockstep_rocketmq::{StartPosition, codec::Command};

use crate::{
    fake::{Fake, stored},
    member::{Member, Owned, config},
};

/// A member that starts by a time behind everything that is there.
async fn late_owner(fake: &Fake) -> (Member, Owned) {
    let mut late = config(fake, "me");
    late.start = StartPosition::At(4_000_000_000_000);
    let mut member = Member::join(late);
    let owned = member.acquired().await;
    (member, owned)
}

/// A broker with so many messages, and the member that has committed the first `done` of them.
async fn committed(count: usize, done: usize) -> (Fake, Member) {
    let fake = Fake::start(1).await;
    fake.store(0, &vec!["a"; count]);
    let (member, owned) = Member::owner(&fake).await;
    let (read, _) = member.read(&owned, 0).await;
    member.commit(&owned, done as u64, read[done - 1].identity.clone(), None).await.unwrap();
    (fake, member)
}

async fn after_doubt(member: &mut Member) {
    member.find("the doubt", |event| matches!(event, LeaseEvent::Doubtful { .. }).then_some(())).await;
    member.find("a renewal", |event| matches!(event, LeaseEvent::Renewed { .. }).then_some(())).await;
}

async fn moved(member: &mut Member) -> Position {
    let moved = |event| if let LeaseEvent::Moved { to, .. } = event { Some(to) } else { None };
    member.find("the move", moved).await
}

#[tokio::test]
async fn messages_of_the_retry_topic_are_the_groups_whenever_they_were_sent_back() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a"]);
    fake.script().retry = Some(1);
    let (mut member, first) = late_owner(&fake).await;
    let second = member.acquired().await;
    let mut cursors = [(first.name, first.cursor.0), (second.name, second.cursor.0)];
    cursors.sort();
    assert_eq!(cursors, [("%RETRY%g/b/0".to_owned(), 0), ("t/b/0".to_owned(), 2)]);
}

#[tokio::test]
async fn a_start_that_the_broker_forgot_is_committed_again_as_long_as_its_place_is_known() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a"]);
    let (mut member, owned) = late_owner(&fake).await;
    assert_eq!(owned.cursor, Position(2));
    fake.script().committed.insert(0, 1);
    fake.cut();
    after_doubt(&mut member).await;
    assert_eq!(fake.script().committed[&0], 2);
}

#[tokio::test]
async fn a_place_that_is_not_known_any_more_begins_as_a_new_one_when_the_broker_forgot_it() {
    let (fake, mut member) = committed(2, 2).await;
    {
        let mut script = fake.script();
        script.committed.clear();
        script.min = 1;
        script.log.get_mut(&0).unwrap()[1] = stored(0, 1, 7_777, "a", b"another");
    }
    fake.cut();
    assert_eq!(moved(&mut member).await, Position(1));
    assert_eq!(fake.script().committed[&0], 1);
}

#[tokio::test]
async fn a_place_whose_message_retention_removed_is_committed_again() {
    let (fake, mut member) = committed(3, 2).await;
    {
        let mut script = fake.script();
        script.committed.insert(0, 1);
        let gone = Command::response(20, 0).field("nextBeginOffset", 2);
        script.answers.insert(11, gone.field("minOffset", 2).field("maxOffset", 3));
    }
    fake.cut();
    after_doubt(&mut member).await;
    assert_eq!(fake.script().committed[&0], 2);
}

#[tokio::test]
async fn an_empty_queue_does_not_prove_that_retention_removed_our_place() {
    let (fake, mut member) = committed(3, 2).await;
    {
        let mut script = fake.script();
        script.committed.insert(0, 1);
        let gone = Command::response(20, 0).field("nextBeginOffset", 3);
        script.answers.insert(11, gone.field("minOffset", 3).field("maxOffset", 3));
    }
    fake.cut();
    assert_eq!(moved(&mut member).await, Position(1));
}

#[tokio::test]
async fn a_reset_that_our_look_after_doubt_brings_to_light_is_followed() {
    let (fake, mut member) = committed(3, 3).await;
    {
        let mut script = fake.script();
        script.committed.insert(0, 2);
        let reset = Command::response(21, 0).remark("OFFSET_RESET").field("nextBeginOffset", 1);
        script.answers.insert(11, reset.field("minOffset", 0).field("maxOffset", 3));
    }
    fake.cut();
    assert_eq!(moved(&mut member).await, Position(1));
    assert_eq!(fake.script().committed[&0], 2, "the broker keeps its reset until the next pull");
}

#[tokio::test]
async fn an_old_broker_that_can_not_say_whether_it_means_zero_means_it() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a"]);
    {
        let mut script = fake.script();
        script.version = "V4_9_7";
        script.committed.insert(0, 0);
        script.answers.insert(43, Command::response(16, 0).remark("no permission"));
    }
    assert_eq!(late_owner(&fake).await.1.cursor, Position(0));
    let silent = Fake::start(1).await;
    silent.store(0, &["a", "a"]);
    {
        let mut script = silent.script();
        script.version = "V4_9_7";
        script.committed.insert(0, 0);
        script.deaf.insert(43);
    }
    assert_eq!(late_owner(&silent).await.1.cursor, Position(0));
}

#[tokio::test]
async fn a_start_by_time_goes_on_behind_messages_that_are_too_old() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a"; 40]);
    fake.script().answers.insert(29, Command::response(0, 0).field("offset", 0));
    let mut timed = config(&fake, "me");
    timed.start = StartPosition::At(1_700_000_000_035);
    assert_eq!(Member::join(timed).acquired().await.cursor, Position(35));
    // Of several messages of one time old brokers find any.
    let script = fake.script();
    let search = script.journal.iter().find(|c| c.code == 29).unwrap();
    assert_eq!(search.fields.get("timestamp"), Some("1700000000034"));
}

#[tokio::test]
async fn a_start_by_time_is_a_place_that_the_queue_can_have() {
    let far = stored(0, 1 << 40, 1, "a", b"far");
    // The time of a damaged head is not to be believed either.
    let old = stored(0, 1, 1, "a", b"old");
    let absurd = Command::response(0, 0).field("nextBeginOffset", i64::MAX).field("minOffset", 0);
    let absurd = absurd.field("maxOffset", 1).body(far.clone());
    // When the broker's own word does not show the damage either, the end of the queue is the most.
    for (far, answer, start) in [(&far, None, 0), (&old, None, 0), (&far, Some(absurd), 1)] {
        let fake = Fake::start(1).await;
        {
            let mut script = fake.script();
            script.log.insert(0, vec![far.clone()]);
            script.answers.insert(29, Command::response(0, 0).field("offset", 0));
            script.answers.extend(answer.map(|answer| (11, answer)));
        }
        let mut timed = config(&fake, "me");
        timed.start = StartPosition::At(1_700_000_000_005);
        assert_eq!(Member::join(timed).acquired().await.cursor, Position(start));
    }
}
