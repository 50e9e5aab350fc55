//! What a valid manifest becomes, and how mistakes are told.

use std::time::Duration;

use super::{ACTIVEMQ, RABBITMQ, ROCKETMQ, patched, strict, valid};
use crate::{
    BackoffPolicy, ConsumerGroup, OrderingMode, Port, Rule, SourceKind, Strictness, WhenExhausted, parse,
    parse_mounted, schema_of,
};

#[test]
fn the_smallest_manifest_has_every_default() {
    let group = valid(ROCKETMQ).group;
    assert_eq!(group.spec.ordering.mode, OrderingMode::PerQueue);
    assert_eq!(group.spec.delivery.port.to_string(), "8080");
    assert_eq!(group.spec.delivery.timeout, Duration::from_secs(30));
    assert_eq!(group.spec.delivery.max_in_flight.get(), 32);
    assert_eq!(group.spec.retry.backoff.policy, BackoffPolicy::Exponential);
    assert_eq!(group.spec.retry.when_exhausted, Some(WhenExhausted::Block));
    assert_eq!((group.spec.drain.timeout, group.drain_timeout()), (None, Duration::from_secs(35)));
    let Some(SourceKind::RocketMq(rocketmq)) = group.spec.source.kind() else { panic!("no RocketMQ") };
    assert_eq!(rocketmq.lock_lifetime, Duration::from_secs(60));
}

#[test]
fn defaults_depend_on_other_fields() {
    let text = patched(ROCKETMQ, "spec: {ordering: {mode: Unordered}, delivery: {timeoutSeconds: 90}}");
    let group = valid(&text).group;
    assert_eq!(group.when_exhausted(), WhenExhausted::DeadLetter);
    assert_eq!(group.drain_timeout(), Duration::from_secs(95));
    let text = patched(&text, "spec: {retry: {whenExhausted: Block}, drain: {timeoutSeconds: 100}}");
    let group = valid(&text).group;
    assert_eq!(group.when_exhausted(), WhenExhausted::Block);
    assert_eq!(group.drain_timeout(), Duration::from_secs(100));
}

#[test]
fn a_full_manifest_is_read() {
    let group = valid(FULL).group;
    assert_eq!(group.spec.delivery.port, Port::Name("http".to_owned()));
    assert_eq!(group.spec.delivery.status_codes.done, [409]);
    assert!(valid(RABBITMQ).group.spec.source.rabbitmq.is_some());
    assert!(valid(ACTIVEMQ).group.spec.source.activemq.is_some());
}

#[test]
fn the_resolved_manifest_is_read_as_the_same_group() {
    for text in [ROCKETMQ, RABBITMQ, ACTIVEMQ, FULL] {
        let mut group = valid(text).group;
        let resolved = group.to_yaml();
        group.spec.drain.timeout = Some(group.drain_timeout());
        assert_eq!(valid(&resolved).group, group, "{resolved}");
        assert!(resolved.contains("whenExhausted: Block"), "{resolved}");
    }
}

#[test]
fn five_mistakes_are_told_at_once() {
    let text = patched(
        ROCKETMQ,
        "
spec:
  source: {rocketmq: {nameServers: [namesrv], subscriptions: [{topic: orders}, {topic: 'a b'}]}}
  delivery: {timeoutSeconds: 30s, statusCodes: {again: [200]}}
  retry: {maxAttempt: 3}
",
    );
    let mistakes = strict(&text).expect_err("five mistakes");
    let told = mistakes.to_string();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 5, "{told}");
    for (line, wanted) in lines.iter().zip([
        "spec.delivery.statusCodes.again[0]: is 200, which always means that the message is done; remove it",
        "spec.delivery.timeoutSeconds: is \"30s\", a number with a unit of its own; give a whole number from 1 to 3600 (seconds), without a unit",
        "spec.retry.maxAttempt: is no field of a ConsumerGroup; did you mean `maxAttempts`?",
        "spec.source.rocketmq.nameServers[0]: is \"namesrv\"; write `host:port`",
        "spec.source.rocketmq.subscriptions[1].topic: is \"a b\"; use at most 127 letters",
    ]) {
        assert!(line.starts_with(wanted), "{line}\nis not\n{wanted}");
    }
}

#[test]
fn mistakes_stand_in_the_order_of_the_manifest_paths() {
    let queues = (0..12).map(|n| format!("'{}', ", " ".repeat(n))).collect::<String>();
    let text =
        patched(RABBITMQ, &format!("spec: {{source: {{rabbitmq: {{queues: [{queues}]}}}}, state: x}}"));
    let mistakes = strict(&text).expect_err("empty names");
    let paths: Vec<&str> = mistakes.iter().map(|mistake| mistake.path.as_str()).collect();
    let place = |wanted: &str| paths.iter().position(|path| path.ends_with(wanted)).unwrap();
    assert!(place("queues[2]") < place("queues[10]"), "{paths:?}");
    assert!(place("queues[10]") < place("spec.state"), "{paths:?}");
}

#[test]
fn mistakes_of_structure_and_of_meaning_are_told_together() {
    let text = "spec: {source: {}, state: 1, delivery: {path: x}, drain: {timeoutSeconds: 1}}";
    let mistakes = strict(text).expect_err("mistakes");
    let rules: Vec<Rule> = mistakes.iter().map(|mistake| mistake.rule).collect();
    for rule in [Rule::Missing, Rule::OneSource, Rule::Choice, Rule::Path, Rule::DrainTimeout] {
        assert!(rules.contains(&rule), "{rule:?} in\n{mistakes}");
    }
}

#[test]
fn unknown_fields_are_passed_over_in_a_pod() {
    let text = patched(ROCKETMQ, "spec: {retry: {maxAttempt: 3}, delivery: {newThing: {a: 1}}}");
    assert_eq!(strict(&text).expect_err("strict").len(), 2);
    let parsed = parse(&text, Strictness::Tolerant).expect("tolerant");
    let paths: Vec<&str> = parsed.warnings.iter().map(|warning| warning.0.path.as_str()).collect();
    assert_eq!(paths, ["spec.delivery.newThing", "spec.retry.maxAttempt"]);
    assert_eq!(parsed.group, valid(ROCKETMQ).group);
    let wrong = patched(&text, "spec: {state: Sleeping}");
    assert!(parse(&wrong, Strictness::Tolerant).is_err(), "a wrong value is wrong everywhere");
}

#[test]
fn passwords_are_not_told() {
    let text = patched(RABBITMQ, "spec: {source: {rabbitmq: {urls: 'amqp://me:s3cret@rabbit:5672'}}}");
    let told = strict(&text).expect_err("no list").to_string();
    assert!(!told.contains("s3cret"), "{told}");
    let text = patched(RABBITMQ, "spec: {source: {rabbitmq: {urls: ['amqp://me:s3cret@rabbit:5672']}}}");
    let told = strict(&text).expect_err("password").to_string();
    assert!(!told.contains("s3cret"), "{told}");
}

#[test]
fn the_hot_file_wins() {
    let cold = patched(ROCKETMQ, "spec: {delivery: {path: /cold, timeoutSeconds: 20}}");
    let parsed =
        parse_mounted(&cold, "spec: {delivery: {timeoutSeconds: 25}, state: Paused}").expect("valid");
    assert_eq!(parsed.group.spec.delivery.path, "/cold");
    assert_eq!(parsed.group.spec.delivery.timeout, Duration::from_secs(25));
}

#[test]
fn the_schema_describes_every_field_and_is_small() {
    fn walk(schema: &serde_json::Value, path: &str, bare: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if !field["description"].is_string() {
                bare.push(path.clone());
            }
            walk(field, &path, bare);
            walk(&field["items"], &path, bare);
            for alternative in field["anyOf"].as_array().into_iter().flatten() {
                walk(alternative, &path, bare);
            }
        }
    }
    let schema = schema_of::<ConsumerGroup>();
    let mut bare = Vec::new();
    walk(&schema, "", &mut bare);
    assert_eq!(bare, Vec::<String>::new());
    // A custom resource definition has to stay below 100 KB with the pod template in it.
    let size = schema.to_string().len();
    assert!((4_000..32_000).contains(&size), "{size}");
    assert!(!schema.to_string().contains("$ref"), "{schema}");
}

pub(super) const FULL: &str = "
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: orders, namespace: shop, uid: 6f1c, labels: {a: b}, creationTimestamp: '2026-11-30T08:00:00Z'}
spec:
  replicas: 3
  state: Paused
  source:
    rocketmq:
      nameServers: ['a:9876', 'b:9876']
      consumerGroup: shop-orders
      subscriptions: [{topic: orders, tags: 'created || paid'}, {topic: bills, sql: 'amount > 100'}]
      startPosition: {type: Timestamp, time: '2026-11-30T08:00:00Z'}
      lockLifetimeSeconds: 10
      addressOverrides: {'10.1.2.3:10911': 'rocketmq-broker.mq:10911'}
    credentialsSecretRef: {name: orders-broker}
    tls: {mode: Verify, caSecretRef: {name: mq-ca, key: ca.crt}, clientCertSecretRef: {name: mq-client}}
  ordering: {mode: PerKey, key: {from: Header, header: customer}}
  delivery:
    containerName: app
    host: 127.0.0.1
    port: http
    path: /in
    format: CloudEventsStructured
    contentType: text/plain
    headersSecretRef: {name: hdrs}
    timeoutSeconds: 20
    maxInFlight: 64
    statusCodes: {done: [409], misconfigured: [418]}
    healthCheck: {path: /healthz, periodSeconds: 1, failureThreshold: 2, handOverSeconds: 0}
    signing: {secretRefs: [{name: hook-keys, key: current}, {name: hook-keys, key: previous}]}
  retry:
    maxAttempts: 0
    backoff: {policy: Constant, initialMilliseconds: 100, maxSeconds: 2}
    retryAfterMaxSeconds: 0
    whenExhausted: Block
    undecodable: DeadLetter
    onDataLoss: Stop
  deadLetter: {policy: Broker}
  drain: {timeoutSeconds: 40}
  podDisruptionBudget: None
  sidecar: {logLevel: debug, adminPort: 15465, image: x, resources: {}}
  template: {spec: {containers: [{name: app, args: [1.5, {x: null}]}]}}
status: {anything: 1}
";

#[test]
fn of_another_resource_only_its_kind_is_a_mistake() {
    let deployment =
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {selector: {}, replicas: 3}\n";
    let mistakes = parse(deployment, Strictness::Strict).unwrap_err();
    assert_eq!(mistakes.len(), 2, "{mistakes}");
    assert!(mistakes.to_string().contains("kind: ConsumerGroup"), "{mistakes}");
}

#[test]
fn a_source_that_is_a_word_is_one_mistake() {
    let manifest = "apiVersion: lockstep.dev/v1alpha1\nkind: ConsumerGroup\nmetadata: {name: a}\nspec: {source: rocketmq}\n";
    let mistakes = parse(manifest, Strictness::Strict).unwrap_err();
    assert_eq!(mistakes.len(), 1, "{mistakes}");
}
