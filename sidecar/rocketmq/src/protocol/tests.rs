use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde_json::json;

use super::{
    BrokerRequest, CheckClientConfig, ClusterInfoRequest, ConsumerStatus, CreateGroup, GroupConfig,
    GroupConfigRequest, Heartbeat, LockQueues, MemberList, MessageQueue, Pull, PullStatus, QueryOffset,
    QueueStatus, ReplyError, Request, ResponseCode, RouteRequest, RunningInfo, RuntimeInfoRequest, SendBack,
    SendMessage, SendStatus, SubscriptionData, TopicConfigRequest, UnlockQueues, Unregister, UpdateOffset,
};
use crate::codec::{Command, lenient};

fn ok(body: &str) -> Command {
    Command::response(0, 1).body(body.to_owned())
}

fn fields(command: &Command) -> BTreeMap<&str, &str> {
    command.fields.iter().collect()
}

fn body(command: &Command) -> serde_json::Value {
    serde_json::from_slice(&command.body).unwrap()
}

fn queue(topic: &str, queue_id: i32) -> MessageQueue {
    MessageQueue { topic: topic.into(), broker_name: "broker-a".into(), queue_id }
}

const ROUTE: &str = r#"{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},
    "brokerName":"broker-a","cluster":"C","enableActingMaster":false}],"filterServerTable":{},
    "queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":8,"topicSynFlag":0,"writeQueueNums":4},
    {"brokerName":"broker-b","perm":2,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}"#;

#[test]
fn a_route_is_read_with_integer_keys_and_with_strict_ones() {
    let request = RouteRequest { topic: "T".to_owned() };
    assert_eq!(fields(&request.command())["topic"], "T");
    let lenient = request.reply(ok(ROUTE)).unwrap();
    let strict = request.reply(ok(&ROUTE.replace("{0:", "{\"0\":").replace(",1:", ",\"1\":"))).unwrap();
    assert_eq!(lenient, strict);
    assert_eq!(lenient.brokers[0].master(), Some("10.0.0.1:10911"));
    assert_eq!(lenient.brokers[0].addresses[&1], "10.0.0.2:10911");
    let readable: Vec<_> =
        lenient.queues.iter().map(|q| (q.broker.as_str(), q.read_queues, q.readable())).collect();
    assert_eq!(readable, [("broker-a", 8, true), ("broker-b", 8, false)]);
    assert!(!lenient.logical);
}

#[test]
fn a_static_topic_is_recognised_and_nonsense_is_refused() {
    let request = RouteRequest { topic: "T".to_owned() };
    let mapped = r#"{"brokerDatas":[],"queueDatas":[],"topicQueueMappingByBroker":{"broker-a":{"epoch":1}}}"#;
    assert!(request.reply(ok(mapped)).unwrap().logical);
    let broken = ROUTE.replace(r#""perm":6,"#, "");
    assert_eq!(request.reply(ok(&broken)), Err(ReplyError::Part("perm")));
    assert!(matches!(request.reply(ok("<html>")), Err(ReplyError::Json(_))));
    let missing = Command::response(17, 1).remark("No topic route\n\tat java.lang");
    let refused =
        ReplyError::Refused { code: ResponseCode::TopicNotExist, remark: "No topic route".to_owned() };
    assert_eq!(request.reply(missing), Err(refused));
}

#[test]
fn a_remark_is_kept_in_moderation() {
    let request = Unregister { client_id: "me".to_owned(), group: "g".to_owned() };
    let endless = Command::response(1, 1).remark("订".repeat(100_000));
    let Err(ReplyError::Refused { remark, .. }) = request.reply(endless) else { panic!() };
    assert_eq!(remark.chars().count(), 300);
}

#[test]
fn a_heartbeat_is_what_java_sends() {
    let heartbeat = Heartbeat {
        client_id: "me".to_owned(),
        group: "g".to_owned(),
        subscriptions: vec![
            SubscriptionData::tags("T", " TagA || TagB ", 7),
            SubscriptionData::sql("S", "a > 1", 8),
            SubscriptionData::tags("%RETRY%g", "*", 9),
        ],
    };
    let command = heartbeat.command();
    assert_eq!(command.code, 34);
    let expected = json!({
        "clientID": "me", "producerDataSet": [], "heartbeatFingerprint": 0, "withoutSub": false,
        "consumerDataSet": [{
            "groupName": "g", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": false,
            "subscriptionDataSet": [
                {"topic": "T", "subString": "TagA || TagB", "tagsSet": ["TagA", "TagB"],
                 "codeSet": [2598919, 2598920], "subVersion": 7, "expressionType": "TAG", "classFilterMode": false},
                {"topic": "S", "subString": "a > 1", "tagsSet": [], "codeSet": [], "subVersion": 8,
                 "expressionType": "SQL92", "classFilterMode": false},
                {"topic": "%RETRY%g", "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 9,
                 "expressionType": "TAG", "classFilterMode": false},
            ],
        }],
    });
    assert_eq!(body(&command), expected);
}

#[test]
fn tags_are_compared_whole_since_brokers_compare_hashes() {
    let some = SubscriptionData::tags("T", "AaAa||x", 1);
    assert!(some.matches(Some("AaAa")) && some.matches(Some("x")));
    assert!(!some.matches(Some("BBBB")) && !some.matches(None));
    for all in ["*", "", " * ", "a || *"] {
        let all = SubscriptionData::tags("T", all, 1);
        assert_eq!(all.expression, "*");
        assert!(all.matches(None) && all.matches(Some("y")));
    }
    assert!(SubscriptionData::sql("T", "a = 1", 1).matches(None));
}

#[test]
fn members_are_listed_and_none_is_no_error() {
    let request = MemberList { group: "g".to_owned() };
    let members = request.reply(ok(r#"{"consumerIdList":["b","a","a"]}"#)).unwrap();
    assert_eq!(members, ["b", "a", "a"]);
    let none = Command::response(1, 1).remark("no consumer for this group, g");
    assert_eq!(request.reply(none), Ok(Vec::new()));
    let broken = Command::response(1, 1).remark("java.lang.NullPointerException");
    assert!(matches!(request.reply(broken), Err(ReplyError::Refused { .. })));
}

#[test]
fn only_what_is_granted_is_locked() {
    let queues = vec![queue("T", 0), queue("T", 1)];
    let lock = LockQueues { group: "g".to_owned(), client_id: "me".to_owned(), queues: queues.clone() };
    let expected = json!({
        "consumerGroup": "g", "clientId": "me", "onlyThisBroker": false,
        "mqSet": [{"topic": "T", "brokerName": "broker-a", "queueId": 0},
                  {"topic": "T", "brokerName": "broker-a", "queueId": 1}],
    });
    assert_eq!((lock.command().code, body(&lock.command())), (41, expected.clone()));
    let reply = ok(r#"{"lockOKMQSet":[{"queueId":1,"topic":"T","brokerName":"broker-a"}]}"#);
    assert_eq!(lock.reply(reply).unwrap().into_iter().collect::<Vec<_>>(), [queue("T", 1)]);
    assert_eq!(lock.reply(ok("{}")), Err(ReplyError::Part("lockOKMQSet")));
    let unlock = UnlockQueues { group: "g".to_owned(), client_id: "me".to_owned(), queues };
    assert_eq!((unlock.command().code, body(&unlock.command())), (42, expected));
}

#[test]
fn offsets_that_were_never_committed_are_none() {
    let request = QueryOffset { group: "g".into(), topic: "T".into(), queue_id: 3 };
    let command = request.command();
    let expected = [("consumerGroup", "g"), ("queueId", "3"), ("setZeroIfNotFound", "false"), ("topic", "T")];
    assert_eq!(fields(&command), BTreeMap::from(expected));
    assert_eq!(request.reply(Command::response(22, 1)), Ok(None));
    assert_eq!(request.reply(Command::response(0, 1).field("offset", 12)), Ok(Some(12)));
    assert_eq!(request.reply(Command::response(0, 1)), Err(ReplyError::Part("offset")));
}

#[test]
fn a_commit_that_a_reset_swallowed_is_told() {
    let request = UpdateOffset { group: "g".into(), topic: "T".into(), queue_id: 3, offset: 12 };
    assert_eq!(fields(&request.command())["commitOffset"], "12");
    assert_eq!(request.reply(Command::response(0, 1)), Ok(true));
    let reset = Command::response(0, 1).remark("Offset has been previously reset");
    assert_eq!(request.reply(reset), Ok(false));
}

fn pull(hold: Duration) -> Pull {
    Pull {
        group: "g".into(),
        topic: "T".into(),
        queue_id: 3,
        offset: 100,
        count: 32,
        hold,
        expression: "TagA || TagB".into(),
        expression_type: "TAG",
        version: 7,
    }
}

#[test]
fn a_pull_carries_its_subscription_and_never_a_commit() {
    for (hold, flags) in [(Duration::ZERO, "4"), (Duration::from_secs(15), "6")] {
        let command = pull(hold).command();
        let fields = fields(&command);
        assert_eq!(fields["sysFlag"], flags);
        assert_eq!(fields["sysFlag"].parse::<i32>().unwrap() & 1, 0);
        assert_eq!(fields["subscription"], "TagA || TagB");
        assert_eq!(fields["suspendTimeoutMillis"], hold.as_millis().to_string());
    }
}

#[test]
fn a_pull_always_says_where_to_go_on() {
    let request = pull(Duration::ZERO);
    let reply = |code| {
        Command::response(code, 1)
            .field("nextBeginOffset", 132)
            .field("minOffset", 5)
            .field("maxOffset", 900)
            .remark("FOUND")
            .body("messages")
    };
    for (code, status) in [
        (0, PullStatus::Found),
        (19, PullStatus::NotFound),
        (20, PullStatus::NoMatch),
        (21, PullStatus::OffsetMoved),
    ] {
        let found = request.reply(reply(code)).unwrap();
        assert_eq!((found.status, found.next, found.min, found.max), (status, 132, 5, 900));
        assert_eq!((found.offset_delta, &found.messages[..]), (0, &b"messages"[..]));
    }
    assert_eq!(request.reply(Command::response(0, 1)).unwrap_err(), ReplyError::Part("nextBeginOffset"));
    let refused = request.reply(reply(24)).unwrap_err();
    assert!(matches!(refused, ReplyError::Refused { code: ResponseCode::SubscriptionNotExist, .. }));
}

#[test]
fn sending_back_and_sending() {
    let back = SendBack {
        group: "g".into(),
        topic: "T".into(),
        log_offset: 1000,
        message_id: "id".to_owned(),
        delay_level: -1,
        max_reconsume_times: None,
    };
    let command = back.command();
    let expected = [
        ("delayLevel", "-1"),
        ("group", "g"),
        ("offset", "1000"),
        ("originMsgId", "id"),
        ("originTopic", "T"),
        ("unitMode", "false"),
    ];
    assert_eq!((command.code, fields(&command)), (36, BTreeMap::from(expected)));

    let send = SendMessage {
        group: "p".into(),
        topic: "T".into(),
        queue_id: -1,
        sys_flag: 0,
        flag: 0,
        born_ms: 5,
        properties: "a\u{1}b\u{2}".to_owned(),
        reconsume_times: 0,
        body: Bytes::from_static(b"hello"),
    };
    assert_eq!(fields(&send.command())["i"], "a\u{1}b\u{2}");
    let reply =
        |code| Command::response(code, 1).field("msgId", "id").field("queueId", 2).field("queueOffset", 9);
    for (code, status) in [
        (0, SendStatus::Stored),
        (10, SendStatus::FlushDiskTimeout),
        (11, SendStatus::SlaveNotAvailable),
        (12, SendStatus::FlushSlaveTimeout),
    ] {
        let stored = send.reply(reply(code)).unwrap();
        assert_eq!((stored.status, stored.queue_id, stored.queue_offset), (status, 2, 9));
    }
    assert!(send.reply(reply(14)).is_err());
}

#[test]
fn what_brokers_say_about_themselves_and_their_settings() {
    let info = r#"{"table":{"bootTimestamp":"1700000000000","brokerVersionDesc":"V5_3_3","x":"y"}}"#;
    let info = RuntimeInfoRequest.reply(ok(info)).unwrap();
    assert_eq!((info.boot_ms, info.version.as_deref()), (Some(1_700_000_000_000), Some("V5_3_3")));
    assert_eq!(RuntimeInfoRequest.reply(ok(r#"{"table":{}}"#)).unwrap().boot_ms, None);

    let topic = r#"{"attributes":{"queue.type":"BatchCQ"},"readQueueNums":8,"writeQueueNums":8,"perm":6}"#;
    let topic = TopicConfigRequest { topic: "T".to_owned() }.reply(ok(topic)).unwrap();
    assert_eq!((topic.read_queues, topic.attributes["queue.type"].as_str()), (8, "BatchCQ"));

    let group = GroupConfigRequest { group: "g".to_owned() };
    let disabled = r#"{"groupName":"g","consumeEnable":false,"retryMaxTimes":3}"#;
    let expected = GroupConfig { consume_enable: false, retry_max_times: 3, ..GroupConfig::new("g") };
    assert_eq!(group.reply(ok(disabled)), Ok(expected.clone()));
    assert_eq!(body(&CreateGroup(expected).command())["consumeEnable"], json!(false));

    let cluster =
        r#"{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"a:1"},"brokerName":"broker-a","cluster":"C"}}}"#;
    let cluster = ClusterInfoRequest.reply(ok(cluster)).unwrap();
    assert_eq!(cluster.brokers[0].master(), Some("a:1"));

    let subscription = SubscriptionData::sql("T", "a >", 1);
    let check = CheckClientConfig { client_id: "me".to_owned(), group: "g".to_owned(), subscription };
    assert_eq!(body(&check.command())["subscriptionData"]["subString"], json!("a >"));
}

fn asked(command: Command) -> BrokerRequest {
    BrokerRequest::parse(&command).unwrap().unwrap()
}

#[test]
fn a_reset_is_read_in_each_form_that_peers_write() {
    let forms = [
        r#"{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:12,{"brokerName":"broker-a","queueId":1,"topic":"T"}:0}}"#,
        r#"{"offsetTable":[[{"brokerName":"broker-a","queueId":0,"topic":"T"},12],[{"brokerName":"broker-a","queueId":1,"topic":"T"},0]]}"#,
        r#"{"offsetTable":{"{\"brokerName\":\"broker-a\",\"queueId\":0,\"topic\":\"T\"}":12,"{\"brokerName\":\"broker-a\",\"queueId\":1,\"topic\":\"T\"}":"0"}}"#,
        r#"{"offsetTable":[{"brokerName":"broker-a","queueId":0,"topic":"T","offset":12},{"brokerName":"broker-a","queueId":1,"topic":"T","offset":0}]}"#,
        r#"[{"brokerName":"broker-a","queueId":0,"topic":"T","offset":12},{"brokerName":"broker-a","queueId":1,"topic":"T","offset":0}]"#,
    ];
    for form in forms {
        let command = Command::request(220).field("group", "g").field("topic", "T").body(form);
        let BrokerRequest::ResetOffsets(reset) = asked(command) else { panic!("{form}") };
        assert_eq!((reset.group.as_str(), reset.topic.as_str()), ("g", "T"));
        assert_eq!(reset.offsets, BTreeMap::from([(queue("T", 0), 12), (queue("T", 1), 0)]), "{form}");
    }
    let half = r#"{"offsetTable":[{"brokerName":"broker-a","queueId":0,"topic":"T"}]}"#;
    let command = Command::request(220).field("group", "g").field("topic", "T").body(half);
    assert!(BrokerRequest::parse(&command).unwrap().is_err());
}

#[test]
fn other_questions_of_brokers() {
    let direct = Command::request(309)
        .field("consumerGroup", "g")
        .field("clientId", "me")
        .field("msgId", "id")
        .body("stored");
    let BrokerRequest::ConsumeDirectly(direct) = asked(direct) else { panic!() };
    assert_eq!((direct.message_id.as_str(), &direct.message[..]), ("id", &b"stored"[..]));
    let status = Command::request(221).field("group", "g").field("topic", "T");
    assert!(matches!(asked(status), BrokerRequest::QueryStatus { topic, .. } if topic == "T"));
    assert!(BrokerRequest::parse(&Command::request(4711)).is_none());
    assert!(BrokerRequest::parse(&Command::request(40)).unwrap().is_err());
}

#[test]
fn answers_have_queues_as_keys() {
    let offsets = BTreeMap::from([(queue("T", 0), 7), (queue("T", 1), 8)]);
    let status = ConsumerStatus { offsets: offsets.clone() }.body();
    let value = lenient::parse(&status).unwrap();
    let table = value.get("messageQueueTable").unwrap().members().unwrap();
    let read: BTreeMap<_, _> = table
        .iter()
        .map(|(key, offset)| (MessageQueue::from_value(key).unwrap(), offset.as_i64().unwrap()))
        .collect();
    assert_eq!(read, offsets);

    let info = RunningInfo {
        properties: BTreeMap::from([("PROP_CONSUMEORDERLY", "true".to_owned())]),
        subscriptions: vec![SubscriptionData::tags("T", "*", 1)],
        queues: BTreeMap::from([(queue("T", 0), QueueStatus { commit_offset: 5, ..QueueStatus::default() })]),
    };
    let text = info.body();
    let value = lenient::parse(&text).unwrap();
    assert_eq!(value.get("subscriptionSet").unwrap().items().unwrap().len(), 1);
    let (key, status) = &value.get("mqTable").unwrap().members().unwrap()[0];
    assert_eq!(MessageQueue::from_value(key), Some(queue("T", 0)));
    assert_eq!(status.get("commitOffset").unwrap().as_i64(), Some(5));
}
