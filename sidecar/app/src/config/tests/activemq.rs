//! What of a manifest reaches ActiveMQ's adapter.

use std::time::Duration;

use lockstep_activemq::{Config, CredentialsSource, Endpoint, KeySource, Mode, Ordering, Queue, TlsFiles};
use lockstep_broker::Clock;
use lockstep_contract::SourceKind;
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
    let Some(SourceKind::ActiveMq(source)) = group.spec.source.kind() else { panic!("another source") };
    let member = Member {
        secrets: Path::new("/secrets"),
        state: &State::none(),
        client_id: "pod-1",
        hint: watch::Sender::new(hint).subscribe(),
        clock: Clock::new(),
    };
    activemq_config(&group, source, &member)
}

fn endpoint(host: &str, port: u16, tls: bool) -> Endpoint {
    Endpoint { host: host.to_owned(), port, tls }
}

fn queue(name: &str, selector: Option<&str>) -> Queue {
    Queue { name: name.to_owned(), selector: selector.map(str::to_owned) }
}

#[tokio::test]
async fn defaults_reach_the_adapter() {
    let config = config("{activemq: {urls: ['tcp://activemq.mq'], queues: [orders]}}", "", None);
    assert_eq!(config.nodes, [endpoint("activemq.mq", 61616, false)]);
    assert_eq!(config.queues, [queue("orders", None)]);
    assert_eq!((config.mode, config.ordering, config.block), (Mode::Pull, Ordering::PerQueue, true));
    assert_eq!((config.key, config.credentials), (KeySource::Native, CredentialsSource::None));
    assert_eq!((config.tls, config.name.as_str()), (None, "lockstep orders pod-1"));
    assert_eq!((config.prefetch.in_flight, config.prefetch.timeout), (32, Duration::from_secs(30)));
    assert_eq!((config.inactivity, config.max_frame), (Duration::from_secs(30), 104_857_600));
    assert_eq!(*config.hint.borrow(), None);
}

#[tokio::test]
async fn fields_reach_the_adapter() {
    let source = "
    activemq:
      urls: ['ssl://activemq-0.mq', 'ssl://[::1]:1617/', 'ssl://10.0.0.7:61617']
      queues: ['orders-0?consumer.selector=amount+%3E+100', Consumer.shop.VirtualTopic.orders]
      mode: Push
    credentialsSecretRef: {name: c}
    tls: {caSecretRef: {name: ca, key: k}, clientCertSecretRef: {name: t}}";
    let more = "  ordering: {mode: PerKey, key: {from: Header, header: customer}}
  delivery: {timeoutSeconds: 5, maxInFlight: 7}
  retry: {whenExhausted: DeadLetter}
";
    let config = config(source, more, Some(vec!["orders-0".to_owned()]));
    let nodes = [
        endpoint("activemq-0.mq", 61617, true),
        endpoint("::1", 1617, true),
        endpoint("10.0.0.7", 61617, true),
    ];
    assert_eq!(config.nodes, nodes);
    let queues = [queue("orders-0", Some("amount > 100")), queue("Consumer.shop.VirtualTopic.orders", None)];
    assert_eq!(config.queues, queues);
    assert_eq!((config.mode, config.ordering, config.block), (Mode::Push, Ordering::PerKey, false));
    assert_eq!(config.key, KeySource::Property("customer".into()));
    assert_eq!(config.credentials, CredentialsSource::Folder("/secrets/credentials".into()));
    let tls = TlsFiles {
        ca: Some("/secrets/tls-ca/ca.crt".into()),
        identity: Some(("/secrets/tls-client/tls.crt".into(), "/secrets/tls-client/tls.key".into())),
    };
    assert_eq!(config.tls, Some(tls));
    assert_eq!((config.prefetch.in_flight, config.prefetch.timeout), (7, Duration::from_secs(5)));
    assert_eq!(*config.hint.borrow(), Some(vec!["orders-0".to_owned()]));
}

#[tokio::test]
async fn a_selector_of_all_queues_reaches_each() {
    let source = "{activemq: {urls: ['tcp://a'], queues: [a, b], selector: \"kind = 'x'\"}}";
    let more = "  ordering: {mode: Unordered}\n";
    let config = config(source, more, None);
    assert_eq!(config.queues, [queue("a", Some("kind = 'x'")), queue("b", Some("kind = 'x'"))]);
    assert_eq!(config.ordering, Ordering::Unordered);
}
