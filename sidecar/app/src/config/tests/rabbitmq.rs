//! What of a manifest reaches RabbitMQ's adapter.

use std::time::Duration;

use lockstep_broker::Clock;
use lockstep_contract::SourceKind;
use lockstep_rabbitmq::{
    Config, Credentials, CredentialsSource, DeadLetter, Endpoint, KeySource, Ordering, TlsFiles,
};
use tokio::sync::watch;

use super::*;

/// The settings of a manifest with that source and that rest of a spec.
fn config(source: &str, more: &str, hint: Hint) -> Config {
    let text = format!(
        "
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: orders}}
spec:
  source: {source}
{more}"
    );
    let group = parse(&text, Strictness::Strict).unwrap_or_else(|mistakes| panic!("{mistakes}")).group;
    let Some(SourceKind::RabbitMq(source)) = group.spec.source.kind() else { panic!("another source") };
    let member = Member {
        secrets: Path::new("/secrets"),
        state: &State::none(),
        client_id: "pod-1",
        hint: watch::Sender::new(hint).subscribe(),
        clock: Clock::new(),
    };
    rabbitmq_config(&group, source, &member)
}

fn endpoint(host: &str, port: u16) -> Endpoint {
    Endpoint { host: host.to_owned(), port }
}

#[tokio::test]
async fn defaults_reach_the_adapter() {
    let config = config("{rabbitmq: {urls: ['amqp://rabbit.mq'], queues: [orders]}}", "", None);
    assert_eq!(config.nodes, [endpoint("rabbit.mq", 5672)]);
    assert_eq!((config.vhost.as_str(), config.queues.as_slice()), ("/", ["orders".to_owned()].as_slice()));
    assert_eq!((config.heartbeat.as_secs(), config.acknowledgement_timeout.as_secs()), (10, 1800));
    assert_eq!((config.management, config.assumed, config.block), (None, false, true));
    assert_eq!((config.ordering, config.key), (Ordering::PerQueue, KeySource::RoutingKey));
    assert_eq!(config.dead_letter, DeadLetter::Broker);
    assert_eq!(config.credentials, CredentialsSource::Fixed(Credentials::default()));
    assert_eq!((config.tls, config.name.as_str()), (None, "lockstep orders pod-1"));
    assert_eq!((config.prefetch.in_flight, config.prefetch.timeout), (32, Duration::from_secs(30)));
    assert_eq!(*config.hint.borrow(), None);
}

#[tokio::test]
async fn fields_reach_the_adapter() {
    let source = "
    rabbitmq:
      urls: ['amqps://rabbit-0.mq', 'amqps://[::1]:15671/', 'amqps://10.0.0.7:5671']
      vhost: shop
      queues: [orders-0, orders-1]
      management: {url: 'https://rabbit.mq:15671'}
      heartbeatSeconds: 20
      acknowledgementTimeoutSeconds: 600
      ownership: Assumed
    credentialsSecretRef: {name: c}
    tls: {caSecretRef: {name: ca, key: k}, clientCertSecretRef: {name: t}}";
    let more = "  ordering: {mode: PerKey, key: {from: Header, header: customer}}
  delivery: {timeoutSeconds: 5, maxInFlight: 7}
  retry: {whenExhausted: DeadLetter}
  deadLetter: {policy: Queue, name: orders-dead}
";
    let config = config(source, more, Some(vec!["orders-1".to_owned()]));
    let nodes = [endpoint("rabbit-0.mq", 5671), endpoint("::1", 15671), endpoint("10.0.0.7", 5671)];
    assert_eq!(config.nodes, nodes);
    assert_eq!((config.vhost.as_str(), config.queues.len()), ("shop", 2));
    assert_eq!(config.management.as_deref(), Some("https://rabbit.mq:15671"));
    assert_eq!((config.heartbeat.as_secs(), config.acknowledgement_timeout.as_secs()), (20, 600));
    assert_eq!((config.assumed, config.block), (true, false));
    assert_eq!((config.ordering, config.key), (Ordering::PerKey, KeySource::Header("customer".into())));
    assert_eq!(config.dead_letter, DeadLetter::Queue("orders-dead".to_owned()));
    assert_eq!(config.credentials, CredentialsSource::Folder("/secrets/credentials".into()));
    let tls = TlsFiles {
        ca: Some("/secrets/tls-ca/ca.crt".into()),
        identity: Some(("/secrets/tls-client/tls.crt".into(), "/secrets/tls-client/tls.key".into())),
    };
    assert_eq!(config.tls, Some(tls));
    assert_eq!((config.prefetch.in_flight, config.prefetch.timeout), (7, Duration::from_secs(5)));
    assert_eq!(*config.hint.borrow(), Some(vec!["orders-1".to_owned()]));
}

#[tokio::test]
async fn a_certificate_alone_is_a_user() {
    let source = "
    rabbitmq: {urls: ['amqps://rabbit.mq'], queues: [orders]}
    tls: {clientCertSecretRef: {name: t}}";
    let config = config(source, "", None);
    assert_eq!(config.credentials, CredentialsSource::Fixed(Credentials::External));
    assert!(config.tls.is_some_and(|tls| tls.identity.is_some() && tls.ca.is_none()));
}
