use lockstep_broker::Fetched;
use lockstep_model::{Identity, Position};
use lockstep_rocketmq::{Filter, codec::Command, reason};

use crate::{
    fake::{Fake, stored},
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
