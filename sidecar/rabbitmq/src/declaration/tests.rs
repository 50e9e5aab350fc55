use super::*;
use crate::{
    config::{Config, DeadLetter, Ordering, tests::config},
    problem::reason,
};

fn probed(words: &[&str]) -> Option<Declaration> {
    let mut probe = Probe::new();
    for words in words {
        if probe.learn(words) == Learned::Nothing {
            return None;
        }
    }
    Some(probe.agreed())
}

fn refusal(name: &str, received: &str, current: &str) -> String {
    format!(
        "PRECONDITION_FAILED - inequivalent arg '{name}' for queue 'q' in vhost '/': received {received} but current is \
         {current}"
    )
}

fn quorum() -> Declaration {
    Declaration {
        kind: Kind::Quorum,
        single_active: true,
        limit: None,
        dead_letter_exchange: false,
        overtaking: None,
        with_policies: false,
    }
}

#[test]
fn refusals_teach_what_a_queue_has() {
    assert_eq!(probed(&[]), Some(quorum()));
    let words = [
        refusal("x-queue-type", "'quorum'", "'classic'"),
        refusal("x-single-active-consumer", "the value 'true' of type 'bool'", "none"),
        refusal("x-dead-letter-exchange", "none", "the value 'dead letters' of type 'longstr'"),
        refusal("x-delivery-limit", "none", "the value '20' of type 'signedint'"),
        refusal("durable", "'true'", "'false'"),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let found = probed(&words).unwrap();
    let expected = Declaration {
        kind: Kind::Classic,
        single_active: false,
        limit: Some(20),
        dead_letter_exchange: true,
        overtaking: None,
        with_policies: false,
    };
    assert_eq!(found, expected);
    let mut probe = Probe::new();
    for words in &words {
        assert_eq!(probe.learn(words), Learned::Something);
    }
    assert!(!probe.durable());
    let exchange = Value::Text("dead letters".to_owned());
    assert!(probe.arguments().any(|(name, value)| name == "x-dead-letter-exchange" && *value == exchange));
    // A classic queue that was declared without a type.
    let words = refusal("x-queue-type", "the value 'quorum' of type 'longstr'", "none");
    assert_eq!(probed(&[&words]).unwrap().kind, Kind::Classic);
}

#[test]
fn refusals_that_teach_nothing_end_the_probing() {
    for words in [
        "PRECONDITION_FAILED - something else",
        "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue 'q' in vhost '/': received none but c...",
        &refusal("x-a", "none", "the value 'y' of type 'table'"),
        &refusal("exclusive", "'false'", "'true'"),
        &refusal("x-b", "'1'", "'2'"),
        &refusal("durable", "'true'", "'true'"),
        &refusal("x-queue-type", "'quorum'", "'quorum'"),
    ] {
        assert_eq!(Probe::new().learn(words), Learned::Nothing, "{words}");
    }
    let mut probe = Probe::new();
    let taught = (0..100)
        .take_while(|number| {
            probe.learn(&refusal(&format!("x-{number}"), "none", "the value '1' of type 'long'"))
                == Learned::Something
        })
        .count();
    assert_eq!(taught, 12);
}

#[test]
fn the_management_api_shows_policies_too() {
    let body = br#"{"name":"q","type":"quorum","durable":true,"arguments":{"x-queue-type":"quorum","x-single-active-consumer":true,
        "x-delivery-limit":7},"effective_policy_definition":{"delivery-limit":5,"dead-letter-exchange":"d"}}"#;
    let expected =
        Declaration { limit: Some(5), dead_letter_exchange: true, with_policies: true, ..quorum() };
    assert_eq!(of_json(body), Some(expected));
    let body = br#"{"type":"classic","arguments":[],"effective_policy_definition":[]}"#;
    let expected = Declaration { kind: Kind::Classic, single_active: false, with_policies: true, ..quorum() };
    assert_eq!(of_json(body), Some(expected));
    let body = br#"{"type":"quorum","arguments":{"x-delivery-limit":-1},"effective_policy_definition":{"delivery-limit":3}}"#;
    assert_eq!(of_json(body).unwrap().limit, Some(3));
    assert_eq!(of_json(b"not found"), None);
}

fn judged(
    config: &Config,
    version: Version,
    found: &Declaration,
) -> (Option<&'static str>, Vec<&'static str>) {
    let wanted = Wanted { queue: "q", config, version: Some(version) };
    let judgement = wanted.judge(found);
    for problem in judgement.refused.iter().chain(&judgement.warnings) {
        assert!(problem.message.contains("queue q ") && !problem.remedy.is_empty(), "{problem:?}");
    }
    let warnings = judgement.warnings.iter().map(|problem| problem.reason).collect();
    (judgement.refused.map(|problem| problem.reason), warnings)
}

const OLD: Version = Version(3, 10, 8);
const NEW: Version = Version(4, 0, 5);

#[tokio::test]
async fn order_wants_a_single_active_consumer_on_a_queue_that_keeps_it() {
    let config = config();
    let good = Declaration { with_policies: true, ..quorum() };
    assert_eq!(judged(&config, OLD, &good), (None, vec![]));
    let several = Declaration { single_active: false, ..good.clone() };
    assert_eq!(judged(&config, OLD, &several), (Some(reason::NOT_SINGLE_ACTIVE), vec![]));
    let classic = Declaration { kind: Kind::Classic, ..good };
    assert_eq!(judged(&config, OLD, &classic), (Some(reason::CLASSIC_QUEUE), vec![]));
    assert_eq!(judged(&config, Version(3, 11, 4), &classic), (Some(reason::CLASSIC_QUEUE), vec![]));
    for fixed in [Version(3, 10, 13), Version(3, 11, 5), NEW] {
        assert_eq!(judged(&config, fixed, &classic), (None, vec![reason::CLASSIC_QUEUE]));
    }
    let stream = Declaration { kind: Kind::Stream, ..good };
    assert_eq!(judged(&config, OLD, &stream).0, Some(reason::STREAM_UNSUPPORTED));
    let strange = Declaration { kind: Kind::Other("x-delayed".to_owned()), ..good };
    assert_eq!(judged(&config, OLD, &strange).0, Some(reason::QUEUE_TYPE_UNSUPPORTED));
    let unordered = Config { ordering: Ordering::Unordered, ..config };
    for found in [several, classic, strange] {
        assert_eq!(judged(&unordered, OLD, &found), (None, vec![]));
    }
    assert_eq!(judged(&unordered, OLD, &stream).0, Some(reason::STREAM_UNSUPPORTED));
}

#[tokio::test]
async fn a_delivery_limit_that_loses_messages_is_refused() {
    let config = config();
    let seen = Declaration { with_policies: true, ..quorum() };
    // From 4.0 on there is one where none is set.
    assert_eq!(judged(&config, NEW, &seen), (Some(reason::DELIVERY_LIMIT_FINITE), vec![]));
    let unlimited = Declaration { limit: Some(-1), ..seen.clone() };
    assert_eq!(judged(&config, NEW, &unlimited), (None, vec![]));
    let limited = Declaration { limit: Some(5), ..seen.clone() };
    assert_eq!(judged(&config, OLD, &limited), (Some(reason::DELIVERY_LIMIT_FINITE), vec![]));
    let with_exchange = Declaration { dead_letter_exchange: true, ..limited.clone() };
    assert_eq!(judged(&config, OLD, &with_exchange), (None, vec![reason::DELIVERY_LIMIT_FINITE]));
    // It takes innocent messages out of their place, whatever becomes of guilty ones.
    let gives_up = Config { block: false, ..config.clone() };
    assert_eq!(judged(&gives_up, OLD, &with_exchange), (None, vec![reason::DELIVERY_LIMIT_FINITE]));
    assert!(right(&gives_up, "q", Some(NEW)).contains(r#""x-delivery-limit":-1"#));
    let unordered = Config { ordering: Ordering::Unordered, ..gives_up.clone() };
    assert_eq!(judged(&unordered, OLD, &with_exchange), (None, vec![]));
    assert_eq!(judged(&gives_up, OLD, &limited), (Some(reason::DELIVERY_LIMIT_FINITE), vec![]));
    // A policy that was not seen may name an exchange, or lift a limit that none was declared for.
    let probed = Declaration { with_policies: false, ..limited.clone() };
    assert_eq!(judged(&config, OLD, &probed), (None, vec![reason::DELIVERY_LIMIT_FINITE]));
    assert_eq!(judged(&config, NEW, &quorum()), (None, vec![reason::DELIVERY_LIMIT_FINITE]));
    let wanted = Wanted { queue: "q", config: &config, version: Some(NEW) };
    for (found, lifted) in [(&probed, false), (&quorum(), true)] {
        let message = &wanted.judge(found).warnings[0].message;
        assert!(message.contains("a policy's is not seen"), "{message}");
        assert_eq!(message.contains("unless a policy that is not seen lifts it"), lifted, "{message}");
    }
    let unordered = Config { ordering: Ordering::Unordered, ..config };
    assert_eq!(judged(&unordered, OLD, &limited), (None, vec![reason::DELIVERY_LIMIT_FINITE]));
    let classic = Declaration { kind: Kind::Classic, ..seen };
    assert_eq!(judged(&unordered, NEW, &classic), (None, vec![]));
}

#[tokio::test]
async fn dead_letters_by_the_broker_want_an_exchange() {
    let blocks = Config { dead_letter: DeadLetter::Broker, ..config() };
    let seen = Declaration { with_policies: true, ..quorum() };
    assert_eq!(judged(&blocks, OLD, &seen), (None, vec![]));
    let config = Config { block: false, ..blocks };
    assert_eq!(judged(&config, OLD, &seen), (None, vec![reason::DEAD_LETTER_UNSUPPORTED]));
    let with_exchange = Declaration { dead_letter_exchange: true, ..seen };
    assert_eq!(judged(&config, OLD, &with_exchange), (None, vec![]));
    // What is not seen of it is told as well, with another cure.
    assert_eq!(judged(&config, OLD, &quorum()), (None, vec![reason::DEAD_LETTER_UNSUPPORTED]));
    let unseen = |config: &Config| {
        Wanted { queue: "q", config, version: None }.dead_letters(None).map(|told| told.remedy)
    };
    assert!(unseen(&config).unwrap().contains("management.url"));
    assert_eq!(unseen(&Config { block: true, ..config.clone() }), None);
    assert_eq!(unseen(&Config { dead_letter: DeadLetter::Queue("d".to_owned()), ..config }), None);
}

#[tokio::test]
async fn what_lets_messages_overtake_is_told_where_order_is_wanted() {
    let config = config();
    let words = refusal("x-max-priority", "none", "the value '9' of type 'signedint'");
    let by_arguments =
        br#"{"type":"quorum","arguments":{"x-single-active-consumer":true,"x-delayed-retry-type":"all"}}"#;
    let by_policy = br#"{"type":"quorum","arguments":{"x-single-active-consumer":true},
        "effective_policy_definition":{"delayed-retry-type":"failed"}}"#;
    let founds = [probed(&[&words]), of_json(by_arguments), of_json(by_policy)].map(Option::unwrap);
    for found in &founds {
        assert_eq!(judged(&config, OLD, found), (None, vec![reason::MESSAGES_OVERTAKE]), "{found:?}");
    }
    let unordered = Config { ordering: Ordering::Unordered, ..config.clone() };
    assert_eq!(judged(&unordered, OLD, &founds[0]), (None, vec![]));
    let off = br#"{"type":"quorum","arguments":{"x-single-active-consumer":true,"x-delayed-retry-type":"disabled"}}"#;
    assert_eq!(judged(&config, OLD, &of_json(off).unwrap()), (None, vec![]));
}

#[tokio::test]
async fn the_right_declaration_is_that_of_the_mode_and_release() {
    let mut config = config();
    let old = right(&config, "q", Some(OLD));
    assert!(old.ends_with(r#"declare queue name='q' durable=true arguments='{"x-queue-type":"quorum","x-single-active-consumer":true}'"#), "{old}");
    assert!(right(&config, "q", Some(NEW)).contains(r#""x-delivery-limit":-1}"#));
    // Before 4.0 that would drop messages, so that nobody is told to write it who may have such a server.
    let unknown = right(&config, "q", None);
    assert!(unknown.contains(r#""x-single-active-consumer":true}'; on RabbitMQ 4.0"#), "{unknown}");
    config.ordering = Ordering::Unordered;
    assert!(!right(&config, "q", Some(OLD)).contains("single"));
}

#[test]
fn versions_are_read() {
    assert_eq!(Version::of("3.10.8"), Some(Version(3, 10, 8)));
    assert_eq!(Version::of("4.1"), Some(Version(4, 1, 0)));
    assert_eq!(Version::of("4.3.0-rc.1"), Some(Version(4, 3, 0)));
    assert_eq!(Version::of("3.x"), None);
}
