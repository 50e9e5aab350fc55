use lockstep_broker::LeaseEvent;
use lockstep_model::Position;
use lockstep_rocketmq::{Severity, StartPosition, check, codec::Command, reason};

use crate::{
    fake::Fake,
    member::{Member, config},
};

#[tokio::test]
async fn a_topic_that_is_missing_is_told_with_its_cure_and_taken_when_it_is_made() {
    let fake = Fake::start(1).await;
    fake.script().queues = None;
    let mut member = Member::join(config(&fake, "me"));
    let state = member.problem(reason::TOPIC_NOT_FOUND).await;
    assert!(state.problem.unwrap().remedy.contains("mqadmin updateTopic"));
    fake.script().queues = Some(1);
    member.source("no problem", |state| state.connected && state.problem.is_none()).await;
    fake.until("the lock", |script| script.locks.contains_key(&0)).await;
}

#[tokio::test]
async fn queues_that_appear_later_start_at_their_beginning() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a"]);
    fake.store(1, &["a"]);
    let mut later = config(&fake, "me");
    // Far in the future: everything that is there now is passed over.
    later.start = StartPosition::At(4_000_000_000_000);
    let mut member = Member::join(later);
    assert_eq!(member.acquired().await.cursor, Position(2));
    fake.script().queues = Some(2);
    // The route is looked at again at once after a broker refused a queue that it does not know.
    fake.cut();
    let name = member
        .find("the new queue", |event| match event {
            LeaseEvent::Acquired { name, cursor: Position(0), .. } => Some(name),
            _ => None,
        })
        .await;
    assert_eq!(&*name, "t/b/1");
}

#[tokio::test]
async fn queues_are_shared_with_members_that_come() {
    let fake = Fake::start(2).await;
    let mut member = Member::join(config(&fake, "b"));
    member.acquired().await;
    member.acquired().await;
    fake.script().others = vec!["a".to_owned()];
    fake.push(&Command::request(40).field("consumerGroup", "g").oneway());
    // The average share of the second of two members is the second queue.
    assert!(matches!(member.event().await, LeaseEvent::Revoking { .. }));
    fake.script().others.clear();
    fake.push(&Command::request(40).field("consumerGroup", "g").oneway());
    assert!(matches!(member.event().await, LeaseEvent::RevocationCancelled { .. }));
}

#[tokio::test]
async fn a_member_without_a_queue_says_so() {
    let fake = Fake::start(1).await;
    fake.script().others = vec!["a".to_owned()];
    let mut member = Member::join(config(&fake, "me"));
    let state = member.problem(reason::MORE_MEMBERS_THAN_QUEUES).await;
    assert!(state.connected);
}

#[tokio::test]
async fn a_client_id_in_use_is_not_used_again() {
    let fake = Fake::start(1).await;
    fake.script().others = vec!["me".to_owned()];
    let mut member = Member::join(config(&fake, "me"));
    member.problem(reason::DUPLICATE_CLIENT_ID).await;
    assert_eq!((fake.count(34), fake.count(41)), (0, 0));
    fake.script().others.clear();
    member.acquired().await;
}

#[tokio::test]
async fn a_client_id_that_is_used_later_stops_new_locks() {
    let fake = Fake::start(1).await;
    fake.script().locks.insert(0, "other".to_owned());
    let mut member = Member::join(config(&fake, "me"));
    fake.until("a refusal", |script| script.journal.iter().any(|c| c.code == 41)).await;
    fake.script().others = vec!["me".to_owned()];
    member.problem(reason::DUPLICATE_CLIENT_ID).await;
    fake.script().locks.clear();
    fake.script().others.clear();
    member.acquired().await;
}

#[tokio::test]
async fn a_group_that_can_not_be_made_is_told_with_its_cure() {
    let fake = Fake::start(1).await;
    fake.script().registers = false;
    let mut member = Member::join(config(&fake, "me"));
    let state = member.problem(reason::GROUP_NOT_FOUND).await;
    assert!(state.problem.unwrap().remedy.contains("mqadmin updateSubGroup"));
    assert_eq!(fake.count(41), 0);
    fake.script().registers = true;
    member.acquired().await;
}

#[tokio::test]
async fn an_old_broker_that_answers_zero_is_asked_whether_it_means_it() {
    let fake = Fake::start(2).await;
    fake.store(0, &["a", "a"]);
    fake.store(1, &["a", "a"]);
    {
        let mut script = fake.script();
        script.version = "V4_9_7";
        script.committed = [(0, 0), (1, 0)].into();
        // Queue 0 was committed at 0, queue 1 never.
        script.answers.insert(43, Command::response(0, 0).body(r#"{"offsetTable":{"t@g":{0:0}}}"#));
    }
    let mut later = config(&fake, "me");
    later.start = StartPosition::At(4_000_000_000_000);
    let mut member = Member::join(later);
    let mut cursors = [member.acquired().await, member.acquired().await];
    cursors.sort_by(|a, b| a.name.cmp(&b.name));
    let cursors: Vec<_> = cursors.iter().map(|owned| owned.cursor).collect();
    assert_eq!(cursors, [Position(0), Position(2)]);
}

#[tokio::test]
async fn a_position_set_by_hand_is_committed_and_told() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a"]);
    let (mut member, owned) = Member::owner(&fake).await;
    let body = r#"{"offsetTable":{{"topic":"t","brokerName":"b","queueId":0}:1}}"#;
    fake.push(&Command::request(220).field("topic", "t").field("group", "g").oneway().body(body));
    assert!(
        matches!(member.event().await, LeaseEvent::Moved { to: Position(1), epoch, .. } if epoch == owned.epoch)
    );
    assert_eq!(fake.script().committed[&0], 1);
}

#[tokio::test]
async fn questions_of_the_brokers_tools_are_answered_and_direct_consumption_is_refused() {
    let fake = Fake::start(1).await;
    let (_member, _) = Member::owner(&fake).await;
    let about_us = |code| Command::request(code).field("consumerGroup", "g").field("clientId", "me");
    fake.push(&Command { opaque: 900, ..about_us(307).field("jstackEnable", false) });
    fake.push(&Command { opaque: 901, ..about_us(309).field("msgId", "x") });
    let answer = |opaque| move |c: &&Command| c.is_response() && c.opaque == opaque;
    fake.until("two answers", |script| script.journal.iter().filter(|c| c.is_response()).count() == 2).await;
    let script = fake.script();
    let info = script.journal.iter().find(answer(900)).unwrap();
    assert!(String::from_utf8_lossy(&info.body).contains(r#"{"topic":"t","brokerName":"b","queueId":0}"#));
    assert_eq!(script.journal.iter().find(answer(901)).unwrap().code, 1);
}

#[tokio::test]
async fn a_check_names_what_is_in_the_way_and_joins_nothing() {
    let fake = Fake::start(1).await;
    let fine = config(&fake, "me");
    fake.script()
        .answers
        .insert(352, Command::response(0, 0).body(r#"{"groupName":"g","consumeEnable":true}"#));
    fake.script()
        .answers
        .insert(351, Command::response(0, 0).body(r#"{"readQueueNums":1,"writeQueueNums":1,"perm":6}"#));
    assert_eq!(check(&fine).await, []);
    assert_eq!((fake.count(34), fake.count(41)), (0, 0));

    fake.script().answers.insert(352, Command::response(26, 0).remark("no such group"));
    let reasons: Vec<_> = check(&fine).await.into_iter().map(|finding| finding.problem.reason).collect();
    assert_eq!(reasons, [reason::GROUP_NOT_FOUND]);

    fake.script().queues = None;
    let findings = check(&fine).await;
    assert_eq!(findings[0].problem.reason, reason::TOPIC_NOT_FOUND);

    let mut lost = fine.clone();
    lost.name_servers = vec!["127.0.0.1:1".to_owned()];
    let findings = check(&lost).await;
    assert_eq!(
        (findings[0].severity, findings[0].problem.reason),
        (Severity::Error, reason::NAME_SERVER_UNREACHABLE)
    );
    lost.name_servers.push(fake.address.to_string());
    fake.script().queues = Some(1);
    assert_eq!(check(&lost).await.last().unwrap().severity, Severity::Warning);
}
