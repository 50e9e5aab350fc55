use lockstep_broker::{FetchRequest, Fetched, Reader};
use lockstep_model::{Identity, KeyHash, Position};
use lockstep_rocketmq::{
    Filter, KeySource,
    codec::{Command, sys_flag},
    reason,
};

use crate::{
    fake::{Fake, stored, stored_with},
    member::{Member, config},
};

#[tokio::test]
async fn messages_are_told_with_what_the_producer_and_the_broker_say_of_them() {
    let fake = Fake::start(1).await;
    fake.store(0, &["paid"]);
    let (member, owned) = Member::owner(&fake).await;
    let (read, next) = member.read(&owned, 0).await;
    let [delivery] = &read[..] else { panic!("{read:?}") };
    assert_eq!(next, Position(1));
    assert_eq!(
        delivery.identity,
        Identity::Position { offset: 0, stored_ms: 1_700_000_000_000, log_offset: 1_000 }
    );
    let message = &delivery.message;
    assert_eq!(
        (&*message.id, message.subject.as_deref(), message.key.as_deref()),
        ("id-0-0", Some("paid"), Some("k"))
    );
    assert_eq!(message.body, "m0");
    assert!(delivery.key.is_some());
}

#[tokio::test]
async fn a_tag_that_only_shares_the_hash_is_left_out() {
    let fake = Fake::start(1).await;
    fake.store(0, &["BBBB", "AaAa", "BBBB"]);
    let mut tagged = config(&fake, "me");
    tagged.subscriptions[0].filter = Filter::Tags("AaAa".to_owned());
    let mut member = Member::join(tagged);
    let owned = member.acquired().await;
    let (read, next) = member.read(&owned, 0).await;
    let positions: Vec<_> = read.iter().map(|delivery| delivery.position).collect();
    assert_eq!((positions, next), (vec![Position(1)], Position(3)));
    let pull = fake.script().journal.iter().rev().find(|c| c.code == 11).cloned().unwrap();
    assert_eq!((pull.fields.get("subscription"), pull.fields.get("sysFlag")), (Some("AaAa"), Some("6")));
}

#[tokio::test]
async fn a_position_that_the_broker_moved_is_told_until_it_is_followed() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a", "a"]);
    let (member, owned) = Member::owner(&fake).await;
    let moved = Command::response(21, 0).remark("OFFSET_RESET");
    let moved = moved.field("nextBeginOffset", 2).field("minOffset", 0).field("maxOffset", 3);
    fake.script().answers.insert(11, moved);
    let told = |fetched: &Fetched| matches!(fetched, Fetched::Moved { to: Position(2), reset: true });
    assert!(told(&member.fetch(&owned, 0).await.unwrap()));
    fake.script().answers.clear();
    // The first telling may have been dropped with a cancelled call.
    assert!(told(&member.fetch(&owned, 0).await.unwrap()));
    let error = member.commit(&owned, 1, Identity::None, None).await.unwrap_err();
    assert_eq!(error.problem.reason, reason::POSITION_MOVED);
    assert_eq!(member.read(&owned, 2).await.0.len(), 1);
    member.commit(&owned, 3, Identity::None, None).await.unwrap();
}

#[tokio::test]
async fn retention_that_overtook_us_is_no_reset() {
    let fake = Fake::start(1).await;
    let (member, owned) = Member::owner(&fake).await;
    let moved = Command::response(21, 0).remark("OFFSET_TOO_SMALL");
    fake.script()
        .answers
        .insert(11, moved.field("nextBeginOffset", 9).field("minOffset", 9).field("maxOffset", 9));
    let fetched = member.fetch(&owned, 0).await.unwrap();
    assert!(matches!(fetched, Fetched::Moved { to: Position(9), reset: false }), "{fetched:?}");
}

#[tokio::test]
async fn what_can_not_be_decoded_stays_in_its_place() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a", "a"]);
    {
        let mut script = fake.script();
        let log = script.log.get_mut(&0).unwrap();
        let mut damaged = log[1].to_vec();
        let body = damaged.windows(2).position(|part| part == b"m1").unwrap();
        damaged[body] = b'x';
        log[1] = damaged.into();
    }
    let (member, owned) = Member::owner(&fake).await;
    let (read, next) = member.read(&owned, 0).await;
    let undecodable: Vec<_> = read.iter().map(|delivery| delivery.undecodable.is_some()).collect();
    assert_eq!((undecodable, next), (vec![false, true, false], Position(3)));
    assert!(read[1].undecodable.as_ref().unwrap().reason.contains("checksum"));
    assert_eq!(read[1].position, Position(1));
    let identity = Identity::Position { offset: 1, stored_ms: 1_700_000_000_001, log_offset: 1_001 };
    assert_eq!(read[1].identity, identity);
}

#[tokio::test]
async fn a_body_that_can_not_be_unpacked_is_told_as_stored_with_all_else_of_its_message() {
    let fake = Fake::start(1).await;
    let message = stored_with(0, (0, 1), (sys_flag::COMPRESSED, 0), "UNIQ_KEY\u{1}id\u{2}", b"not packed");
    fake.script().log.insert(0, vec![message]);
    let (member, owned) = Member::owner(&fake).await;
    let delivery = member.read(&owned, 0).await.0.remove(0);
    assert_eq!(delivery.undecodable.unwrap().raw, "not packed");
    assert_eq!(&*delivery.message.id, "id");
}

#[tokio::test]
async fn keys_and_kinds_of_content_come_from_properties_and_an_id_is_always_there() {
    let fake = Fake::start(1).await;
    let properties = "order\u{1}o-1\u{2}content-type\u{1}text/plain\u{2}__SHARDINGKEY\u{1}k\u{2}";
    fake.script().log.insert(0, vec![stored_with(0, (0, 1), (0, 3), properties, b"m")]);
    let mut keyed = config(&fake, "me");
    keyed.key = KeySource::Property("order".into());
    let mut member = Member::join(keyed);
    let owned = member.acquired().await;
    let delivery = member.read(&owned, 0).await.0.remove(0);
    assert_eq!((delivery.key, delivery.redeliveries), (Some(KeyHash::of(b"o-1")), 3));
    let message = delivery.message;
    assert_eq!((message.key.as_deref(), message.content_type.as_deref()), (Some("o-1"), Some("text/plain")));
    // The broker's own: its address and the place in its log.
    assert_eq!(&*message.id, "7F000001000000010000000000000001");
}

#[tokio::test]
async fn a_fetch_brings_no_more_than_is_asked_for_and_at_least_one() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a", "a"]);
    let (member, owned) = Member::owner(&fake).await;
    let request = |count, bytes| FetchRequest {
        queue: owned.queue,
        epoch: owned.epoch,
        from: Position(0),
        count,
        bytes,
    };
    for (count, bytes, expected) in [(2, 1 << 20, 2), (100, 1 << 20, 3), (32, 1, 1)] {
        let fetched = member.reader.fetch(request(count, bytes)).await.unwrap();
        let Fetched::Deliveries { deliveries, next, .. } = fetched else { panic!("{fetched:?}") };
        assert_eq!((deliveries.len(), next), (expected, Position(expected as u64)));
    }
    // Brokers give 32 at most.
    let script = fake.script();
    let pulls = script.journal.iter().filter(|c| c.code == 11);
    let counts: Vec<_> = pulls.filter_map(|c| c.fields.get("maxMsgNums")).collect();
    assert_eq!(counts, ["2", "32", "32"]);
}

#[tokio::test]
async fn a_broker_that_knows_less_than_we_do_is_told_or_looked_for_again() {
    let fake = Fake::start(1).await;
    let (member, owned) = Member::owner(&fake).await;
    // The subscription, then the topic.
    for (refusal, code) in [(24, 34), (17, 105)] {
        let before = fake.count(code);
        fake.script().answers.insert(11, Command::response(refusal, 0).remark("unknown"));
        member.fetch(&owned, 0).await.unwrap_err();
        fake.until("a new word", |script| script.journal.iter().filter(|c| c.code == code).count() > before)
            .await;
    }
}

#[tokio::test]
async fn a_rest_that_can_not_be_parted_is_one_undecodable_message() {
    let fake = Fake::start(1).await;
    let (member, owned) = Member::owner(&fake).await;
    let mut body = stored(0, 0, 1, "a", b"m0").to_vec();
    body.extend([0xff; 100]);
    let answer =
        Command::response(0, 0).field("nextBeginOffset", 5).field("minOffset", 0).field("maxOffset", 5);
    fake.script().answers.insert(11, answer.body(body));
    let (read, next) = member.read(&owned, 0).await;
    assert_eq!((read.len(), next), (2, Position(2)));
    assert_eq!(read[1].undecodable.as_ref().unwrap().raw.len(), 100);
}

#[tokio::test]
async fn bytes_too_many_do_not_take_the_place_of_a_message_to_come() {
    let fake = Fake::start(1).await;
    let (member, owned) = Member::owner(&fake).await;
    let mut body = stored(0, 0, 1, "a", b"m0").to_vec();
    body.extend([0xff; 100]);
    let answer =
        Command::response(0, 0).field("nextBeginOffset", 1).field("minOffset", 0).field("maxOffset", 5);
    fake.script().answers.insert(11, answer.body(body));
    let error = member.fetch(&owned, 0).await.unwrap_err();
    assert_eq!(error.problem.reason, reason::UNEXPECTED_ANSWER);
}

#[tokio::test]
async fn answers_that_make_no_sense_are_errors() {
    let fake = Fake::start(1).await;
    let (member, owned) = Member::owner(&fake).await;
    let behind = stored(0, 1, 1, "a", b"behind");
    let answer = |code, next: i64| {
        Command::response(code, 0).field("nextBeginOffset", next).field("minOffset", 0).field("maxOffset", 9)
    };
    for nonsense in [answer(0, 6).body(behind), answer(19, 3), answer(20, -1), Command::response(0, 0)] {
        fake.script().answers.insert(11, nonsense);
        let error = member.fetch(&owned, 5).await.unwrap_err();
        assert_eq!(error.problem.reason, reason::UNEXPECTED_ANSWER);
    }
}

#[tokio::test]
async fn nothing_behind_the_end_of_the_queue_is_passed_over_whatever_the_broker_says() {
    let fake = Fake::start(1).await;
    let (mut member, owned) = Member::owner(&fake).await;
    let answer = |code, next: i64| {
        Command::response(code, 0).field("nextBeginOffset", next).field("minOffset", 0).field("maxOffset", 9)
    };
    for code in [0, 19, 20] {
        fake.script().answers.insert(11, answer(code, i64::MAX));
        assert_eq!(member.read(&owned, 5).await.1, Position(9), "code {code}");
    }
    // What it knows as the end may lag behind where we are.
    fake.script().answers.insert(11, answer(19, 12));
    assert_eq!(member.read(&owned, 12).await.1, Position(12));
    // A place is not covered by a message's checksum.
    let far = answer(0, 6).body(stored(0, 1 << 40, 1, "a", b"far"));
    for absurd in [far, answer(21, i64::MAX).remark("OFFSET_OVERFLOW_BADLY")] {
        fake.script().answers.insert(11, absurd);
        let error = member.fetch(&owned, 5).await.unwrap_err();
        assert_eq!(error.problem.reason, reason::UNEXPECTED_ANSWER);
        let state = member.problem(reason::UNEXPECTED_ANSWER).await;
        assert!(state.problem.unwrap().message.contains("t/b/0"));
        fake.script().answers.insert(11, answer(19, 5));
        member.read(&owned, 5).await;
        member.source("no problem", |state| state.problem.is_none()).await;
    }
}

#[tokio::test]
async fn a_place_that_can_not_be_read_costs_no_more_than_its_message() {
    let fake = Fake::start(1).await;
    fake.store(0, &["a", "a", "a"]);
    {
        let mut script = fake.script();
        let log = script.log.get_mut(&0).unwrap();
        let mut damaged = log[1].to_vec();
        // The offset's first byte and the body's last.
        damaged[20] ^= 0x7f;
        let body = damaged.windows(2).position(|part| part == b"m1").unwrap();
        damaged[body] = b'x';
        log[1] = damaged.into();
    }
    let (member, owned) = Member::owner(&fake).await;
    let (read, next) = member.read(&owned, 0).await;
    let places: Vec<_> = read.iter().map(|d| (d.position.0, d.undecodable.is_some())).collect();
    assert_eq!((places, next), (vec![(0, false), (1, true), (2, false)], Position(3)));
}
