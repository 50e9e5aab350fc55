use std::num::NonZeroU64;

use super::*;
use crate::amqp::{Array, BadProperties, Fields, HeaderDefect, Properties};

fn raw(properties: &Properties) -> RawDelivery {
    RawDelivery {
        tag: NonZeroU64::new(7).unwrap(),
        redelivered: false,
        exchange: Bytes::from_static(b"shop"),
        routing_key: Bytes::from_static(b"orders.new"),
        properties: Ok(properties.to_raw()),
        body: BodyState::Whole(Bytes::from_static(b"body")),
    }
}

fn read_by(key: &KeySource, raw: RawDelivery) -> Delivery {
    let name: QueueName = Arc::from("q");
    delivery(&Context { queue: QueueId(3), name: &name, epoch: Epoch(5), key }, raw)
}

fn read(raw: RawDelivery) -> Delivery {
    read_by(&KeySource::RoutingKey, raw)
}

fn shown(delivery: &Delivery, name: &str) -> Option<String> {
    let value = delivery.message.properties.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[test]
fn properties_are_where_they_belong() {
    let properties = Properties::new()
        .with_text(Field::MessageId, "m-1")
        .with_text(Field::ContentType, "text/plain")
        .with_text(Field::CorrelationId, "c")
        .with_byte(Field::Priority, 4)
        .with_timestamp(1_700_000_000)
        .with_headers(Fields::new().text("colour", "red").int("size", -3).flag("new", true));
    let delivery = read(raw(&properties));
    assert_eq!((delivery.queue, delivery.position), (QueueId(3), Position(7)));
    assert_eq!(delivery.identity, Identity::Unique(Bytes::from_static(b"m-1")));
    assert_eq!(delivery.redeliveries, 0);
    let message = &delivery.message;
    assert_eq!((&*message.id, message.id_synthetic), ("m-1", false));
    assert_eq!(&*message.body, b"body");
    assert_eq!(message.subject.as_deref(), Some("orders.new"));
    assert_eq!(message.key.as_deref(), Some("orders.new"));
    assert_eq!(delivery.key, Some(KeyHash::of(b"orders.new")));
    assert_eq!(message.content_type.as_deref(), Some("text/plain"));
    assert_eq!(message.born_ms, Some(1_700_000_000_000));
    for (name, value) in [
        ("colour", "red"),
        ("size", "-3"),
        ("new", "true"),
        ("amqp-correlation-id", "c"),
        ("amqp-priority", "4"),
        ("amqp-exchange", "shop"),
    ] {
        assert_eq!(shown(&delivery, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(message.properties.len(), 6);
}

#[test]
fn without_an_id_one_is_made_up_and_nothing_is_the_same() {
    let delivery = read(raw(&Properties::new()));
    assert_eq!((&*delivery.message.id, delivery.message.id_synthetic), ("q-5-7", true));
    assert_eq!(delivery.identity, Identity::None);
    // A CloudEvent's is the producer's.
    for name in ["cloudEvents_id", "cloudEvents:id", "ce-id"] {
        let properties = Properties::new().with_headers(Fields::new().text(name, "e-1"));
        let delivery = read(raw(&properties));
        assert_eq!((&*delivery.message.id, delivery.message.id_synthetic), ("e-1", false));
        assert_eq!(delivery.identity, Identity::None);
        assert_eq!(shown(&delivery, name).as_deref(), Some("e-1"));
    }
}

#[test]
fn the_key_is_the_header_s_where_one_is_named() {
    let key = KeySource::Header(Text::from_static("customer"));
    let properties = Properties::new().with_headers(Fields::new().text("customer", "c-9"));
    let delivery = read_by(&key, raw(&properties));
    assert_eq!(delivery.message.key.as_deref(), Some("c-9"));
    assert_eq!(delivery.key, Some(KeyHash::of(b"c-9")));
    assert_eq!(delivery.message.subject.as_deref(), Some("orders.new"));
    let numbered = Properties::new().with_headers(Fields::new().int("customer", 9));
    assert_eq!(read_by(&key, raw(&numbered)).key, Some(KeyHash::of(b"9")));
    let bytes = Value::Text(Bytes::from_static(b"\xff"));
    let strange = Properties::new().with_headers(Fields::new().value("customer", &bytes));
    let delivery = read_by(&key, raw(&strange));
    assert_eq!((delivery.message.key, delivery.key), (None, Some(KeyHash::of(b"\xff"))));
    assert_eq!(read_by(&key, raw(&Properties::new())).key, None);
}

#[test]
fn redeliveries_are_counted_as_far_as_the_broker_does() {
    let counted = Properties::new().with_headers(Fields::new().int("x-delivery-count", 4));
    assert_eq!(read(raw(&counted)).redeliveries, 4);
    let flagged = RawDelivery { redelivered: true, ..raw(&Properties::new()) };
    assert_eq!(read(flagged).redeliveries, 1);
    let uncounted = Properties::new().with_headers(Fields::new().int("x-delivery-count", 0));
    assert_eq!(read(RawDelivery { redelivered: true, ..raw(&uncounted) }).redeliveries, 1);
}

#[test]
fn nested_headers_are_json_and_what_is_too_long_keeps_its_length() {
    let inner = Fields::new().text("a", "b").int("n", 1);
    let properties = Properties::new().with_headers(Fields::new().table("nested", &inner));
    assert_eq!(shown(&read(raw(&properties)), "nested").as_deref(), Some(r#"{"a":"b","n":1}"#));
    let long = "x".repeat(JSON_MOST);
    let inner = Fields::new().text("a", &long);
    let properties = Properties::new().with_headers(Fields::new().table("nested", &inner));
    assert!(shown(&read(raw(&properties)), "nested").unwrap().len() > JSON_MOST);
    let array = Value::Array(Array::default());
    let properties = Properties::new().with_headers(Fields::new().value("list", &array));
    assert_eq!(shown(&read(raw(&properties)), "list").as_deref(), Some("[]"));
}

#[test]
fn what_can_t_be_read_keeps_its_body_its_id_and_its_place() {
    let mut deep = Fields::new();
    for _ in 0..5000 {
        deep = Fields::new().table("n", &deep);
    }
    let properties = Properties::new().with_text(Field::MessageId, "m").with_headers(deep);
    let delivery = read(raw(&properties));
    let undecodable = delivery.undecodable.unwrap();
    assert_eq!(&*undecodable.raw, b"body");
    assert!(undecodable.reason.contains("deeper"), "{}", undecodable.reason);
    assert_eq!((&*delivery.message.id, delivery.position), ("m", Position(7)));
    assert!(delivery.message.body.is_empty() && delivery.message.properties.is_empty());

    let bad = BadProperties { raw: Bytes::new(), defect: HeaderDefect::Flags(1) };
    let delivery = read(RawDelivery { properties: Err(bad), ..raw(&Properties::new()) });
    assert!(delivery.undecodable.is_some() && delivery.message.id_synthetic);

    let stub = BodyState::Stub { size: 1 << 40 };
    let delivery = read(RawDelivery { body: stub, ..raw(&Properties::new()) });
    assert!(delivery.undecodable.unwrap().reason.contains("1099511627776"));
}
