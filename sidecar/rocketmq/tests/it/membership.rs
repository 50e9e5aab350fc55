use std::{collections::BTreeMap, time::Duration};

use lockstep_broker::{LeaseEvent, Severity};
use lockstep_model::{Identity, Position};
use lockstep_rocketmq::{StartPosition, check, codec::Command, reason};

use tokio::time::timeout;

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
async fn a_member_that_is_listed_for_dead_connections_too_has_one_share() {
    let fake = Fake::start(4).await;
    fake.script().others = vec!["a".to_owned(); 3];
    let mut member = Member::join(config(&fake, "b"));
    // Of four queues two are the second of two members', and one the last of four.
    let mut names = [member.acquired().await.name, member.acquired().await.name];
    names.sort();
    assert_eq!([&*names[0], &*names[1]], ["t/b/2", "t/b/3"]);
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
async fn queues_of_the_retry_topic_do_not_hide_that_there_are_more_members_than_queues() {
    let fake = Fake::start(1).await;
    // The topic's queue and the first of the retry topic are the other's, so that only the second is ours.
    fake.script().retry = Some(2);
    fake.script().others = vec!["a".to_owned()];
    let mut member = Member::join(config(&fake, "me"));
    let state = member.problem(reason::MORE_MEMBERS_THAN_QUEUES).await;
    fake.until("the lock", |script| script.locks.contains_key(&1)).await;
    assert_eq!((state.connected, state.queues_total), (true, 1));
}

#[tokio::test]
async fn a_member_without_a_queue_whose_broker_is_gone_is_not_connected() {
    let fake = Fake::start(1).await;
    fake.script().others = vec!["a".to_owned()];
    let mut member = Member::join(config(&fake, "me"));
    member.source("the group", |state| state.connected).await;
    fake.script().deaf.extend([28, 34, 38]);
    fake.cut();
    member.source("no connection", |state| !state.connected).await;
    fake.script().deaf.clear();
    member.source("the group again", |state| state.connected).await;
}

#[tokio::test]
async fn a_slave_that_becomes_the_master_serves_its_queues_and_a_master_that_becomes_a_slave_does_not() {
    let fake = Fake::start(1).await;
    fake.script().broker_id = 1;
    let mut member = Member::join(config(&fake, "me"));
    member.problem(reason::BROKER_WITHOUT_MASTER).await;
    fake.until("the session with the slave", |script| script.is_member("me")).await;
    fake.script().broker_id = 0;
    let owned = member.acquired().await;
    fake.script().broker_id = 1;
    // The route is looked at again at once when the connection was lost.
    fake.cut();
    let over = |event| if let LeaseEvent::Lost { epoch, .. } = event { Some(epoch) } else { None };
    assert_eq!(member.find("the loss", over).await, owned.epoch);
    assert!(member.commit(&owned, 0, Identity::None, None).await.is_err());
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
async fn an_owner_whose_client_id_is_used_by_another_process_stops_and_leaves_the_lock_to_it() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    fake.script().others = vec!["me".to_owned()];
    fake.push(&Command::request(40).field("consumerGroup", "g").oneway());
    assert_eq!(member.lost().await, owned.epoch);
    member.problem(reason::DUPLICATE_CLIENT_ID).await;
    fake.until("the farewell", |script| script.journal.iter().any(|c| c.code == 35)).await;
    let (locks, heartbeats) = (fake.count(41), fake.count(34));
    // It asks whether the other is still there.
    let questions = fake.count(38);
    fake.until("questions", |script| script.journal.iter().filter(|c| c.code == 38).count() > questions + 2)
        .await;
    assert_eq!((fake.count(41), fake.count(34), fake.count(42)), (locks, heartbeats, 0));
    fake.script().others.clear();
    member.source("no problem", |state| state.connected && state.problem.is_none()).await;
    fake.until("a lock", |script| script.journal.iter().filter(|c| c.code == 41).count() > locks).await;
}

#[tokio::test]
async fn who_steps_back_while_a_session_opens_is_no_second_process_to_itself() {
    let (fake, slow) = (Fake::start(1).await, Fake::start(1).await);
    fake.script().second = Some(slow.address);
    slow.script().beat_takes = Duration::from_secs(3);
    let mut member = Member::join(config(&fake, "me"));
    slow.until("a heartbeat", |script| script.is_member("me")).await;
    fake.until("a lock", |script| script.journal.iter().any(|c| c.code == 41)).await;
    fake.script().others = vec!["me".to_owned()];
    fake.push(&Command::request(40).field("consumerGroup", "g").oneway());
    member.problem(reason::DUPLICATE_CLIENT_ID).await;
    slow.script().beat_takes = Duration::ZERO;
    fake.script().others.clear();
    member.source("no problem", |state| state.connected && state.problem.is_none()).await;
    slow.until("a lock", |script| script.journal.iter().any(|c| c.code == 41)).await;
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
async fn a_start_by_time_does_not_pass_over_what_can_not_be_decoded() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a", "a"]);
    {
        let mut script = fake.script();
        let log = script.log.get_mut(&0).unwrap();
        let mut damaged = log[1].to_vec();
        let body = damaged.windows(2).position(|part| part == b"m1").unwrap();
        damaged[body] = b'x';
        log[1] = damaged.into();
        script.answers.insert(29, Command::response(0, 0).field("offset", 0));
    }
    let mut timed = config(&fake, "me");
    timed.start = StartPosition::At(1_700_000_000_001);
    assert_eq!(Member::join(timed).acquired().await.cursor, Position(1));
}

#[tokio::test]
async fn a_reset_that_waits_for_the_next_pull_is_not_lost_with_our_own_look() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a", "a"]);
    let moved = Command::response(21, 0).remark("OFFSET_RESET");
    {
        let mut script = fake.script();
        script.committed.insert(0, 3);
        let moved = moved.field("nextBeginOffset", 1).field("minOffset", 0).field("maxOffset", 3);
        script.answers.insert(11, moved);
    }
    let mut member = Member::join(config(&fake, "me"));
    assert_eq!(member.acquired().await.cursor, Position(1));
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

#[tokio::test]
async fn members_that_could_not_be_asked_for_are_asked_for_again_soon() {
    let fake = Fake::start(1).await;
    fake.script().answers.insert(38, Command::response(1, 0));
    let mut member = Member::join(config(&fake, "me"));
    // The first question comes before the session, the second is about the members.
    fake.until("a refusal", |script| script.journal.iter().filter(|c| c.code == 38).count() > 1).await;
    fake.script().answers.clear();
    // Half of the time between two regular rounds.
    let soon = Duration::from_secs(10);
    timeout(soon, member.acquired()).await.expect("the members must be asked for again within seconds");
}

#[tokio::test]
async fn of_two_masters_with_one_name_the_later_serves_and_the_other_follows_when_it_is_lost() {
    let (fake, later) = (Fake::start(1).await, Fake::start(1).await);
    {
        let mut script = fake.script();
        (script.retry, script.retry_at) = (Some(1), Some(later.address));
    }
    later.script().deaf.insert(34);
    let mut member = Member::join(config(&fake, "me"));
    member.acquired().await;
    later.script().deaf.clear();
    // Its lock lies with the first.
    let doubt = |event| if let LeaseEvent::Doubtful { epoch, .. } = event { Some(epoch) } else { None };
    member.find("the doubt", doubt).await;
    later.until("a lock", |script| script.journal.iter().any(|c| c.code == 41)).await;
    let locks = fake.count(41);
    later.script().deaf.extend([28, 34, 38]);
    later.cut();
    fake.until("a lock", |script| script.journal.iter().filter(|c| c.code == 41).count() > locks).await;
}

#[tokio::test]
async fn queues_of_the_retry_topic_are_told_as_added_by_the_broker() {
    let fake = Fake::start(1).await;
    fake.script().retry = Some(1);
    let mut member = Member::join(config(&fake, "me"));
    let mut told = BTreeMap::new();
    while told.len() < 2 {
        let acquired = |event| match event {
            LeaseEvent::Acquired { name, extra, .. } => Some((name.to_string(), extra)),
            _ => None,
        };
        told.extend([member.find("both queues", acquired).await]);
    }
    assert_eq!(told, [("%RETRY%g/b/0".to_owned(), true), ("t/b/0".to_owned(), false)].into());
}
