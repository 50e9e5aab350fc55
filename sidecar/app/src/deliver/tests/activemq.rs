//! Messages of ActiveMQ as the application sees them.

use std::sync::Arc;

use lockstep_contract::Format;
use lockstep_model::{Identity, Message};

use super::{
    super::{
        AttemptRequest, Settings, SourceInfo,
        request::{Times, render},
        settings::Prepared,
    },
    delivery, message, properties, request, settings,
};

fn headers(queue: &str, message: Message) -> Vec<(String, String)> {
    let source = SourceInfo::activemq();
    let prepared =
        Prepared::new(&Settings { source, format: Format::CloudEventsBinary, ..settings(80) }).unwrap();
    let identity = Identity::Unique("ID:a-1:1:1:1".into());
    let delivery = Arc::new(lockstep_model::Delivery { identity, ..delivery(message.clone()) });
    let request = AttemptRequest { delivery, queue_name: Arc::from(queue), ..request(message) };
    let times = Times { now_ms: 0, deadline_ms: 0, lease_deadline_ms: None };
    let rendered = render(&prepared, &request, times);
    let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.as_str().to_owned(), value.to_str().unwrap().to_owned())
    };
    rendered.headers.iter().map(text).collect()
}

#[test]
fn a_message_of_activemq_is_an_event_of_its_queue() {
    let list: [(&[u8], &[u8]); 3] =
        [(b"tenant", b"north"), (b"__AMQ_CID", b"c-1"), (b"dlqDeliveryFailureCause", b"no")];
    let event = Message {
        subject: Some("order".into()),
        key: Some("customer-7".into()),
        properties: properties(&list),
        ..message("{}")
    };
    let found = headers("Consumer.shop.VirtualTopic.orders", event.clone());
    let get = |name: &str| found.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    for (name, value) in [
        ("ce-source", "activemq:///Consumer.shop.VirtualTopic.orders"),
        ("ce-subject", "order"),
        ("ce-partitionkey", "customer-7"),
        ("lockstep-queue", "Consumer.shop.VirtualTopic.orders"),
        ("webhook-id", "/Consumer%2Eshop%2EVirtualTopic%2Eorders/-/ID%3Aa-1%3A1%3A1%3A1"),
        ("lockstep-property-tenant", "north"),
        ("lockstep-property-dlqdeliveryfailurecause", "no"),
    ] {
        assert_eq!(get(name), Some(value), "{name}");
    }
    assert_eq!(get("lockstep-property-__amq_cid"), None);
    // A name of Artemis with an address in it.
    let found = headers("orders::eu", event);
    assert!(
        found.iter().any(|(n, value)| n == "ce-source" && value == "activemq:///orders%253A%253Aeu"),
        "{found:?}"
    );
}
