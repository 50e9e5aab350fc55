//! Every rule with manifests that keep it and manifests that break it.

use super::{ACTIVEMQ, RABBITMQ, ROCKETMQ, patched, strict, valid};
use crate::Rule;

/// Where a case's text begins.
#[derive(Clone, Copy)]
enum Base {
    /// The text is laid over a RocketMQ manifest.
    Rocket,
    /// The text is laid over a RabbitMQ manifest.
    Rabbit,
    /// The text is laid over an ActiveMQ manifest.
    Active,
    /// The text is the manifest.
    None,
}
use Base::{Active, None as Whole, Rabbit, Rocket};

/// A rule, a text that keeps it, a text that breaks it, and where the mistake is told.
struct Case(Rule, Base, &'static str, &'static str, &'static str);

fn text(base: Base, over: &str) -> String {
    match base {
        Rocket => patched(ROCKETMQ, over),
        Rabbit => patched(RABBITMQ, over),
        Active => patched(ACTIVEMQ, over),
        Whole => over.to_owned(),
    }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case(Rule::Syntax, Whole, ROCKETMQ, "a: [b", ""),
    Case(Rule::Syntax, Whole, ROCKETMQ, "\tspec: x", ""),
    Case(Rule::Empty, Whole, ROCKETMQ, "", ""),
    Case(Rule::Empty, Whole, ROCKETMQ, "# nothing\n---\n", ""),
    Case(Rule::OneDocument, Whole, ROCKETMQ, "a: 1\n---\nb: 2\n", ""),
    Case(Rule::DuplicateKey, Whole, ROCKETMQ, "spec: {state: Running, state: Paused}", "spec.state"),
    Case(Rule::TextKey, Whole, ROCKETMQ, "spec: {1: a}", "spec"),
    Case(Rule::Missing, Whole, ROCKETMQ, "{}", "apiVersion"),
    Case(Rule::ApiVersion, Rocket, "{}", "apiVersion: lockstep.dev/v2", "apiVersion"),
    Case(Rule::Kind, Rocket, "{}", "kind: Deployment", "kind"),
    Case(Rule::UnknownField, Rocket, "status: {}", "spec: {retry: {maxAttempt: 3}}", "spec.retry.maxAttempt"),
    Case(Rule::UnknownField, Rocket, "spec: {replicas: 3, template: {x: 1}}", "statuss: {}", "statuss"),
    Case(Rule::Missing, Rocket, "{}", "spec: {source: {rocketmq: {consumerGroup: null}}}", "spec.source.rocketmq.consumerGroup"),
    Case(Rule::Missing, Rocket, "spec: {state: null}", "spec: null", "spec"),
    Case(Rule::Type, Rocket, "spec: {retry: {maxAttempts: 3}}", "spec: {retry: {maxAttempts: many}}", "spec.retry.maxAttempts"),
    Case(Rule::Type, Rocket, "spec: {retry: {maxAttempts: 3}}", "spec: {retry: {maxAttempts: '3'}}", "spec.retry.maxAttempts"),
    Case(Rule::Type, Rocket, "spec: {retry: {}}", "spec: {retry: [1]}", "spec.retry"),
    Case(Rule::Type, Rabbit, "{}", "spec: {source: {rabbitmq: {queues: orders}}}", "spec.source.rabbitmq.queues"),
    Case(Rule::Type, Rabbit, "{}", "spec: {source: {rabbitmq: {queues: [1]}}}", "spec.source.rabbitmq.queues[0]"),
    Case(Rule::Fraction, Rocket, "spec: {delivery: {timeoutSeconds: 2}}", "spec: {delivery: {timeoutSeconds: 1.5}}", "spec.delivery.timeoutSeconds"),
    Case(Rule::Unit, Rocket, "spec: {delivery: {timeoutSeconds: 20}}", "spec: {delivery: {timeoutSeconds: 20s}}", "spec.delivery.timeoutSeconds"),
    Case(Rule::Range, Rocket, "spec: {delivery: {maxInFlight: 1024}}", "spec: {delivery: {maxInFlight: 1025}}", "spec.delivery.maxInFlight"),
    Case(Rule::Range, Rocket, "spec: {delivery: {maxInFlight: 1}}", "spec: {delivery: {maxInFlight: 0}}", "spec.delivery.maxInFlight"),
    Case(Rule::Range, Rocket, "spec: {retry: {maxAttempts: 0}}", "spec: {retry: {maxAttempts: -1}}", "spec.retry.maxAttempts"),
    Case(Rule::Range, Rocket, "spec: {delivery: {statusCodes: {done: [599]}}}", "spec: {delivery: {statusCodes: {done: [600]}}}", "spec.delivery.statusCodes.done[0]"),
    Case(Rule::Range, Rocket, "spec: {sidecar: {adminPort: 1024}}", "spec: {sidecar: {adminPort: 1023}}", "spec.sidecar.adminPort"),
    Case(Rule::Range, Rocket, "spec: {source: {rocketmq: {lockLifetimeSeconds: 10}}}", "spec: {source: {rocketmq: {lockLifetimeSeconds: 5}}}", "spec.source.rocketmq.lockLifetimeSeconds"),
    Case(Rule::Range, Rabbit, "spec: {source: {rabbitmq: {heartbeatSeconds: 20}}}", "spec: {source: {rabbitmq: {heartbeatSeconds: 9}}}", "spec.source.rabbitmq.heartbeatSeconds"),
    Case(Rule::Range, Rabbit, "spec: {source: {rabbitmq: {acknowledgementTimeoutSeconds: 86400}}}", "spec: {source: {rabbitmq: {acknowledgementTimeoutSeconds: 86401}}}", "spec.source.rabbitmq.acknowledgementTimeoutSeconds"),
    Case(Rule::Choice, Rabbit, "spec: {source: {rabbitmq: {ownership: Assumed}}}", "spec: {source: {rabbitmq: {ownership: Sure}}}", "spec.source.rabbitmq.ownership"),
    Case(Rule::Choice, Rocket, "spec: {state: Paused}", "spec: {state: paused}", "spec.state"),
    Case(Rule::Choice, Rocket, "spec: {sidecar: {logLevel: debug}}", "spec: {sidecar: {logLevel: loud}}", "spec.sidecar.logLevel"),
    Case(Rule::Choice, Rocket, "spec: {retry: {whenExhausted: Skip}}", "spec: {retry: {whenExhausted: Drop}}", "spec.retry.whenExhausted"),
    Case(Rule::Choice, Rocket, "spec: {ordering: {mode: PerKey}}", "spec: {ordering: {mode: true}}", "spec.ordering.mode"),
    Case(Rule::Length, Rocket, "{}", "spec: {source: {rocketmq: {subscriptions: []}}}", "spec.source.rocketmq.subscriptions"),
    Case(Rule::Length, Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: t, sql: 'a > 1'}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: t, sql: ''}]}}}", "spec.source.rocketmq.subscriptions[0].sql"),
    Case(Rule::Length, Rabbit, "{}", "spec: {source: {rabbitmq: {queues: ['']}}}", "spec.source.rabbitmq.queues[0]"),
    Case(Rule::Length, Active, "spec: {source: {activemq: {selector: 'a = 1'}}}", "spec: {source: {activemq: {selector: ''}}}", "spec.source.activemq.selector"),
    Case(Rule::KubernetesName, Rocket, "metadata: {name: a-1}", "metadata: {name: Orders}", "metadata.name"),
    Case(Rule::KubernetesName, Rocket, "metadata: {name: abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijab}", "metadata: {name: abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc}", "metadata.name"),
    Case(Rule::KubernetesName, Rocket, "spec: {delivery: {headersSecretRef: {name: a.b}}}", "spec: {delivery: {headersSecretRef: {name: a_b}}}", "spec.delivery.headersSecretRef.name"),
    Case(Rule::KubernetesName, Rocket, "spec: {delivery: {signing: {secretRefs: [{name: a, key: k_1}]}}}", "spec: {delivery: {signing: {secretRefs: [{name: a, key: 'k/1'}]}}}", "spec.delivery.signing.secretRefs[0].key"),
    Case(Rule::OneSource, Rocket, "{}", "spec: {source: {rocketmq: null}}", "spec.source"),
    Case(Rule::OneSource, Rocket, "{}", "spec: {source: {activemq: {urls: ['tcp://a:1'], queues: [a]}}}", "spec.source"),
    Case(Rule::Address, Rocket, "spec: {source: {rocketmq: {nameServers: ['[::1]:9876', '10.0.0.1:9876']}}}", "spec: {source: {rocketmq: {nameServers: ['a:1', namesrv]}}}", "spec.source.rocketmq.nameServers[1]"),
    Case(Rule::Address, Rocket, "spec: {source: {rocketmq: {addressOverrides: {'10.1.2.3:10911': 'broker.mq:10911'}}}}", "spec: {source: {rocketmq: {addressOverrides: {'10.1.2.3:10911': broker}}}}", "spec.source.rocketmq.addressOverrides.10.1.2.3:10911"),
    Case(Rule::Address, Rocket, "{}", "spec: {source: {rocketmq: {addressOverrides: {here: 'broker:1'}}}}", "spec.source.rocketmq.addressOverrides.here"),
    Case(Rule::Url, Rabbit, "{}", "spec: {source: {rabbitmq: {urls: ['http://rabbit']}}}", "spec.source.rabbitmq.urls[0]"),
    Case(Rule::Url, Active, "spec: {source: {activemq: {urls: ['tcp://[::1]:61616/']}}}", "spec: {source: {activemq: {urls: ['tcp://a:0']}}}", "spec.source.activemq.urls[0]"),
    Case(Rule::Url, Rabbit, "spec: {source: {rabbitmq: {management: {url: 'http://rabbit:15672'}}}}", "spec: {source: {rabbitmq: {management: {url: rabbit}}}}", "spec.source.rabbitmq.management.url"),
    Case(Rule::UrlCredentials, Rabbit, "{}", "spec: {source: {rabbitmq: {urls: ['amqp://me:secret@rabbit:5672']}}}", "spec.source.rabbitmq.urls[0]"),
    Case(Rule::UrlTls, Rabbit, "spec: {source: {tls: {}, rabbitmq: {urls: ['amqps://rabbit:5671']}}}", "spec: {source: {rabbitmq: {urls: ['amqps://rabbit:5671']}}}", "spec.source.rabbitmq.urls[0]"),
    Case(Rule::UrlTls, Active, "{}", "spec: {source: {tls: {mode: Verify}}}", "spec.source.activemq.urls[0]"),
    Case(Rule::GroupName, Rocket, "spec: {source: {rocketmq: {consumerGroup: 'ns%a|b_c-1'}}}", "spec: {source: {rocketmq: {consumerGroup: a.b}}}", "spec.source.rocketmq.consumerGroup"),
    Case(Rule::GroupName, Rocket, "{}", "spec: {source: {rocketmq: {consumerGroup: TOOLS_CONSUMER}}}", "spec.source.rocketmq.consumerGroup"),
    Case(Rule::TopicName, Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: '%DLQ%orders'}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a b}]}}}", "spec.source.rocketmq.subscriptions[0].topic"),
    Case(Rule::TopicName, Rocket, "{}", "spec: {source: {rocketmq: {subscriptions: [{topic: TBW102}]}}}", "spec.source.rocketmq.subscriptions[0].topic"),
    Case(Rule::TopicName, Rocket, "{}", "spec: {source: {rocketmq: {subscriptions: [{topic: '%RETRY%shop-orders'}]}}}", "spec.source.rocketmq.subscriptions[0].topic"),
    Case(Rule::ListedOnce, Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: a}, {topic: b}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a}, {topic: a}]}}}", "spec.source.rocketmq.subscriptions[1].topic"),
    Case(Rule::ListedOnce, Active, "{}", "spec: {source: {activemq: {queues: [a, a]}}}", "spec.source.activemq.queues[1]"),
    Case(Rule::ListedOnce, Active, "spec: {source: {activemq: {queues: ['a?consumer.selector=x = 1', 'b?consumer.selector=x = 1']}}}", "spec: {source: {activemq: {queues: ['a?consumer.selector=x = 1', 'a?consumer.selector=x = 2']}}}", "spec.source.activemq.queues[1]"),
    Case(Rule::QueueName, Active, "spec: {source: {activemq: {queues: [Consumer.shop.VirtualTopic.orders]}}}", "spec: {source: {activemq: {queues: ['orders.>']}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::QueueName, Active, "spec: {source: {activemq: {queues: [\"orders?consumer.selector=a * 2 > 1 AND b IN ('x', 'y')\"]}}}", "spec: {source: {activemq: {queues: ['orders.*.eu']}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::QueueName, Active, "spec: {source: {activemq: {queues: [a, b]}}}", "spec: {source: {activemq: {queues: ['a,b']}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::QueueName, Active, "spec: {source: {activemq: {queues: ['orders::eu']}}}", "spec: {source: {activemq: {queues: ['queue://orders']}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::QueueName, Active, "{}", "spec: {source: {activemq: {queues: ['topic://orders']}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::QueueOptions, Active, "spec: {source: {activemq: {queues: ['orders?consumer.selector=a = 1']}}}", "spec: {source: {activemq: {queues: ['orders?consumer.prefetchSize=1']}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::QueueOptions, Active, "spec: {source: {activemq: {queues: ['orders?']}}}", "spec: {source: {activemq: {queues: ['orders?consumer.selecto=a']}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::QueueOptions, Active, "spec: {source: {activemq: {queues: [\"orders?consumer.selector=a LIKE 'x%25'\"]}}}", "spec: {source: {activemq: {queues: [\"orders?consumer.selector=a LIKE 'x%'\"]}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::QueueOptions, Active, "{}", "spec: {source: {activemq: {queues: ['orders?consumer.selector=a = 1&consumer.selector=b = 1']}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::OneSelector, Active, "spec: {source: {activemq: {queues: ['a?consumer.selector=x = 1', b]}}}", "spec: {source: {activemq: {queues: ['a?consumer.selector=x = 1', b], selector: y = 1}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::Length, Active, "{}", "spec: {source: {activemq: {queues: ['?consumer.selector=x = 1']}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::Length, Active, "{}", "spec: {source: {activemq: {queues: ['a?consumer.selector=']}}}", "spec.source.activemq.queues[0]"),
    Case(Rule::Url, Active, "spec: {source: {activemq: {urls: ['tcp://a:61616', 'tcp://b:61616']}}}", "spec: {source: {activemq: {urls: ['failover:(tcp://me:pw@a:61616,tcp://b:61616)?randomize=false']}}}", "spec.source.activemq.urls[0]"),
    Case(Rule::OneFilter, Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: a, sql: b = 1}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a, sql: b = 1, tags: x}]}}}", "spec.source.rocketmq.subscriptions[0]"),
    Case(Rule::Tags, Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: a, tags: '*'}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a, tags: 'x | y'}]}}}", "spec.source.rocketmq.subscriptions[0].tags"),
    Case(Rule::Tags, Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: a, tags: 'x||y'}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a, tags: 'x||'}]}}}", "spec.source.rocketmq.subscriptions[0].tags"),
    Case(Rule::StartTime, Rocket, "spec: {source: {rocketmq: {startPosition: {type: Timestamp, time: '2026-11-30T08:00:00Z'}}}}", "spec: {source: {rocketmq: {startPosition: {type: Timestamp}}}}", "spec.source.rocketmq.startPosition.time"),
    Case(Rule::StartTime, Rocket, "spec: {source: {rocketmq: {startPosition: {type: Earliest}}}}", "spec: {source: {rocketmq: {startPosition: {time: '2026-11-30T08:00:00Z'}}}}", "spec.source.rocketmq.startPosition.time"),
    Case(Rule::Moment, Rocket, "spec: {source: {rocketmq: {startPosition: {type: Timestamp, time: '2026-11-30T08:00:00+01:00'}}}}", "spec: {source: {rocketmq: {startPosition: {type: Timestamp, time: '2026-11-30'}}}}", "spec.source.rocketmq.startPosition.time"),
    Case(Rule::KeyHeader, Rocket, "spec: {ordering: {key: {from: Header, header: customer}}}", "spec: {ordering: {key: {from: Header}}}", "spec.ordering.key.header"),
    Case(Rule::KeyHeader, Rocket, "spec: {ordering: {key: {from: Native}}}", "spec: {ordering: {key: {header: customer}}}", "spec.ordering.key.header"),
    Case(Rule::Host, Rocket, "spec: {delivery: {host: '::1'}}", "spec: {delivery: {host: 'localhost:8080'}}", "spec.delivery.host"),
    Case(Rule::Port, Rocket, "spec: {delivery: {port: http}}", "spec: {delivery: {port: '8080'}}", "spec.delivery.port"),
    Case(Rule::Port, Rocket, "spec: {delivery: {port: 65535}}", "spec: {delivery: {port: 65536}}", "spec.delivery.port"),
    Case(Rule::Path, Rocket, "spec: {delivery: {path: /a/b?c=d}}", "spec: {delivery: {path: messages}}", "spec.delivery.path"),
    Case(Rule::Path, Rocket, "spec: {delivery: {healthCheck: {path: /healthz}}}", "spec: {delivery: {healthCheck: {path: '/a b'}}}", "spec.delivery.healthCheck.path"),
    Case(Rule::ContentType, Rocket, "spec: {delivery: {contentType: text/plain; charset=utf-8}}", "spec: {delivery: {contentType: json}}", "spec.delivery.contentType"),
    Case(Rule::StatusOnce, Rocket, "spec: {delivery: {statusCodes: {done: [409], again: [404]}}}", "spec: {delivery: {statusCodes: {done: [409], again: [409]}}}", "spec.delivery.statusCodes.again[0]"),
    Case(Rule::StatusSuccess, Rocket, "spec: {delivery: {statusCodes: {done: [204]}}}", "spec: {delivery: {statusCodes: {again: [202]}}}", "spec.delivery.statusCodes.again[0]"),
    Case(Rule::BackoffOrder, Rocket, "spec: {retry: {backoff: {initialMilliseconds: 1000, maxSeconds: 1}}}", "spec: {retry: {backoff: {initialMilliseconds: 1001, maxSeconds: 1}}}", "spec.retry.backoff.initialMilliseconds"),
    Case(Rule::DrainTimeout, Rocket, "spec: {drain: {timeoutSeconds: 30}}", "spec: {drain: {timeoutSeconds: 29}}", "spec.drain.timeoutSeconds"),
    Case(Rule::DeadLetterPolicy, Rocket, "spec: {deadLetter: {policy: Broker}}", "spec: {deadLetter: {policy: Queue, name: dead}}", "spec.deadLetter.policy"),
    Case(Rule::DeadLetterName, Rabbit, "spec: {deadLetter: {policy: Queue, name: dead}}", "spec: {deadLetter: {policy: Queue}}", "spec.deadLetter.name"),
    Case(Rule::DeadLetterName, Rabbit, "spec: {deadLetter: {policy: Broker}}", "spec: {deadLetter: {name: dead}}", "spec.deadLetter.name"),
    Case(Rule::DeadLetterLoop, Rabbit, "spec: {deadLetter: {policy: Queue, name: dead}}", "spec: {deadLetter: {policy: Queue, name: orders-1}}", "spec.deadLetter.name"),
    Case(Rule::AcknowledgementTimeout, Rabbit, "spec: {source: {rabbitmq: {acknowledgementTimeoutSeconds: 60}}}", "spec: {delivery: {timeoutSeconds: 901}}", "spec.source.rabbitmq.acknowledgementTimeoutSeconds"),
    Case(Rule::AcknowledgementTimeout, Rabbit, "spec: {delivery: {timeoutSeconds: 900}}", "spec: {source: {rabbitmq: {acknowledgementTimeoutSeconds: 60}}, delivery: {timeoutSeconds: 31}}", "spec.source.rabbitmq.acknowledgementTimeoutSeconds"),
    Case(Rule::PortClash, Rocket, "spec: {delivery: {port: 15464}, sidecar: {adminPort: 15465}}", "spec: {delivery: {port: 15464}}", "spec.sidecar.adminPort"),
];

#[test]
fn every_case_holds() {
    for Case(rule, base, keeps, breaks, path) in CASES {
        valid(&text(*base, keeps));
        let broken = text(*base, breaks);
        let mistakes = strict(&broken).expect_err(&broken);
        let told = mistakes.iter().any(|mistake| mistake.rule == *rule && mistake.path == *path);
        assert!(told, "no {rule:?} at {path} but\n{mistakes}\nin\n{broken}");
    }
}

/// A case that breaks one rule must not be told as several, but where a whole part is missing.
#[test]
fn one_mistake_is_told_once() {
    for Case(rule, base, _, breaks, _) in CASES {
        if matches!(base, Whole) {
            continue;
        }
        let broken = text(*base, breaks);
        let mistakes = strict(&broken).expect_err(&broken);
        assert_eq!(mistakes.len(), 1, "{rule:?}:\n{mistakes}\nin\n{broken}");
    }
}

#[test]
fn every_rule_has_a_case() {
    // Their texts are too large for the table.
    let elsewhere = [Rule::Size, Rule::Nesting];
    for rule in Rule::ALL {
        let has = CASES.iter().any(|case| case.0 == *rule) || elsewhere.contains(rule);
        assert!(has, "{rule:?} has no case");
    }
}

#[test]
fn a_large_text_is_refused() {
    let fill = |bytes: usize| format!("{ROCKETMQ}# {}", "x".repeat(bytes));
    valid(&fill(1000));
    let mistakes = strict(&fill(1024 * 1024)).expect_err("too large");
    assert!(mistakes.iter().all(|mistake| mistake.rule == Rule::Size), "{mistakes}");
}

#[test]
fn nesting_and_aliases_are_bounded() {
    valid(&patched(ROCKETMQ, "spec: {template: {a: [[[[[[{b: 1}]]]]]]}}"));
    let block = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect::<String>();
    let laughs = (1..12).fold("a0: &a0 [x]\n".to_owned(), |text, n| {
        let previous = format!("*a{},", n - 1).repeat(9);
        format!("{text}a{n}: &a{n} [{}]\n", previous.trim_end_matches(','))
    });
    let wide = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(50_000), "*a,".repeat(50_000));
    for text in ["[".repeat(1_000_000), "{a: ".repeat(200_000), "- ".repeat(500_000), block, laughs, wide] {
        let started = std::time::Instant::now();
        let mistakes = strict(&text).expect_err("too deep");
        assert!(mistakes.iter().any(|mistake| mistake.rule == Rule::Nesting), "{mistakes}");
        assert!(started.elapsed().as_secs() < 20, "took {:?}", started.elapsed());
    }
}
