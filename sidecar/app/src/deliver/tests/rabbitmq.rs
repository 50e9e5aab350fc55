//! Messages of RabbitMQ as the application sees them.

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

fn headers(vhost: &str, identity: Identity, message: Message) -> Vec<(String, String)> {
    let source = SourceInfo::rabbitmq(vhost);
    let prepared =
        Prepared::new(&Settings { source, format: Format::CloudEventsBinary, ..settings(80) }).unwrap();
    let delivery = Arc::new(lockstep_model::Delivery { identity, ..delivery(message.clone()) });
    let request = AttemptRequest { delivery, queue_name: Arc::from("orders-0"), ..request(message) };
    let times = Times { now_ms: 0, deadline_ms: 0, lease_deadline_ms: None };
    let rendered = render(&prepared, &request, times);
    let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.as_str().to_owned(), value.to_str().unwrap().to_owned())
    };
    rendered.headers.iter().map(text).collect()
}

fn get<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

fn plain() -> Message {
    let list: [(&[u8], &[u8]); 4] = [
        (b"tenant", b"north"),
        (b"x-delivery-count", b"3"),
        (b"x-acquired-count", b"4"),
        (b"x-death", br#"[{"reason":"rejected","count":1}]"#),
    ];
    Message {
        subject: Some("orders.created".into()),
        key: Some("orders.created".into()),
        properties: properties(&list),
        ..message("{}")
    }
}

#[test]
fn a_message_of_rabbitmq_is_an_event_of_its_queue_and_routing_key() {
    let headers = headers("/", Identity::Unique("m-1".into()), plain());
    for (name, value) in [
        ("ce-source", "rabbitmq:///orders-0"),
        ("ce-subject", "orders.created"),
        ("ce-partitionkey", "orders.created"),
        ("webhook-id", "/orders-0/-/m-1"),
        ("lockstep-property-tenant", "north"),
        ("lockstep-property-x-death", "[{%22reason%22:%22rejected%22,%22count%22:1}]"),
    ] {
        assert_eq!(get(&headers, name), Some(value), "{name}");
    }
    for name in ["lockstep-property-x-delivery-count", "lockstep-property-x-acquired-count", "ce-idsynthetic"]
    {
        assert_eq!(get(&headers, name), None, "{name}");
    }
}

#[test]
fn virtual_hosts_are_told_apart() {
    let source = |vhost| {
        let headers = headers(vhost, Identity::None, plain());
        (get(&headers, "ce-source").unwrap().to_owned(), get(&headers, "webhook-id").unwrap().to_owned())
    };
    assert_eq!(source("shop"), ("rabbitmq://shop/orders-0".to_owned(), "shop/orders-0/-/A1".to_owned()));
    // Percent-encoded as an authority, and again as a header's value.
    assert_eq!(
        source("/shop"),
        ("rabbitmq://%252Fshop/orders-0".to_owned(), "%2Fshop/orders-0/-/A1".to_owned())
    );
}

#[test]
fn an_id_that_was_made_up_is_marked() {
    let synthetic = Message { id: "orders-0-1700000000000-42".into(), id_synthetic: true, ..plain() };
    let headers = headers("/", Identity::None, synthetic);
    assert_eq!(get(&headers, "ce-idsynthetic"), Some("true"));
    assert_eq!(get(&headers, "webhook-id"), Some("/orders-0/-/orders-0-1700000000000-42"));
}

#[test]
fn events_in_headers_pass_through() {
    for prefix in ["cloudEvents_", "cloudEvents:", "ce-"] {
        let names: Vec<_> = ["specversion", "id", "source", "type", "subject"]
            .iter()
            .map(|name| format!("{prefix}{name}").into_bytes())
            .collect();
        let values: [&[u8]; 5] = [b"1.0", b"e-1", b"/shop", b"order.paid", b"o/7"];
        let mut list: Vec<(&[u8], &[u8])> = names.iter().map(Vec::as_slice).zip(values).collect();
        list.push((b"x-delivery-count", b"1"));
        let event = Message { properties: properties(&list), id_synthetic: true, ..plain() };
        let headers = headers("/", Identity::None, event);
        for (name, value) in [
            ("ce-id", "e-1"),
            ("ce-source", "/shop"),
            ("ce-type", "order.paid"),
            ("ce-subject", "o/7"),
            ("lockstep-message-id", "A1"),
        ] {
            assert_eq!(get(&headers, name), Some(value), "{prefix}{name}");
        }
        assert!(!headers.iter().any(|(name, _)| name.starts_with("lockstep-property-")), "{headers:?}");
    }
}
