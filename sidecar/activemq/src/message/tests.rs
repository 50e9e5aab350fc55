use lockstep_openwire::{Blob, Kind, MessageId, ProducerId, write_map};

use super::*;

fn id() -> MessageId {
    let producer = ProducerId { connection: "ID:p".into(), value: 2, session: 1 };
    MessageId { text: None, producer, producer_sequence: 7, broker_sequence: 42 }
}

/// A text as Java writes it behind its length.
fn long(text: &str) -> Bytes {
    let text = WireText::from(text);
    let mut content = u32::try_from(text.bytes().len()).unwrap().to_be_bytes().to_vec();
    content.extend_from_slice(text.bytes());
    content.into()
}

fn map(entries: &[(&str, Value)]) -> Bytes {
    let entries: Map = entries.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    let mut out = bytes::BytesMut::new();
    write_map(&mut out, &entries).unwrap();
    out.freeze()
}

fn stored(kind: Kind, content: Option<Bytes>, properties: &[(&str, Value)]) -> Stored {
    let mut stored = Stored { kind, ..Stored::default() };
    stored.fields.content = content;
    stored.fields.destination = Some(Destination::queue("q"));
    stored.fields.priority = 4;
    stored.fields.persistent = true;
    stored.fields.raw_properties = (!properties.is_empty()).then(|| map(properties));
    stored
}

fn dispatch(message: Result<Stored, Unread>) -> Dispatch {
    let message = message.map(Box::new);
    Dispatch { destination: Destination::queue("q"), id: id(), redeliveries: 3, message }
}

fn read_by(key: &KeySource, message: Result<Stored, Unread>) -> Delivery {
    delivery(Context { queue: QueueId(5), key, most: 1 << 20 }, Position(9), dispatch(message))
}

fn read(message: Stored) -> Delivery {
    read_by(&KeySource::Native, Ok(message))
}

fn shown(delivery: &Delivery, name: &str) -> Option<String> {
    let value = delivery.message.properties.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn kind(delivery: &Delivery) -> Option<&str> {
    delivery.message.content_type.as_deref()
}

#[test]
fn what_jms_says_of_a_message_is_where_it_belongs() {
    let mut message = stored(Kind::Bytes, Some(Bytes::from_static(b"\x00\xff")), &[]);
    let fields = &mut message.fields;
    fields.subject = Some("order".into());
    fields.timestamp = 1_700_000_000_001;
    fields.stored = 1_700_000_000_002;
    fields.correlation = Some("c".into());
    fields.reply_to = Some(Destination::topic("answers"));
    fields.original_destination = Some(Destination::topic("VirtualTopic.x"));
    fields.group = Some("g".into());
    fields.group_sequence = 3;
    fields.first_of_group = true;
    fields.expiration = 1_800_000_000_000;
    fields.user = Some("me".into());
    fields.persistent = false;
    let delivery = read(message);
    assert_eq!((delivery.queue, delivery.position, delivery.redeliveries), (QueueId(5), Position(9), 3));
    assert_eq!(delivery.identity, Identity::Unique(Bytes::from_static(b"ID:p:1:2:7")));
    assert_eq!(delivery.key, Some(KeyHash::of(b"g")));
    let message = &delivery.message;
    assert_eq!((&*message.id, message.id_synthetic), ("ID:p:1:2:7", false));
    assert_eq!((message.key.as_deref(), message.subject.as_deref()), (Some("g"), Some("order")));
    assert_eq!((message.born_ms, message.stored_ms), (Some(1_700_000_000_001), Some(1_700_000_000_002)));
    assert_eq!((&*message.body, kind(&delivery)), (&b"\x00\xff"[..], None));
    for (name, value) in [
        ("JMSDestination", "queue://q"),
        ("JMSReplyTo", "topic://answers"),
        ("originalDestination", "topic://VirtualTopic.x"),
        ("JMSCorrelationID", "c"),
        ("JMSXUserID", "me"),
        ("JMSXGroupID", "g"),
        ("JMSXGroupSeq", "3"),
        ("JMSXGroupFirstForConsumer", "true"),
        ("JMSPriority", "4"),
        ("JMSDeliveryMode", "NON_PERSISTENT"),
        ("JMSExpiration", "1800000000000"),
    ] {
        assert_eq!(shown(&delivery, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(message.properties.len(), 11);
}

#[test]
fn what_is_not_said_is_left_out() {
    let delivery = read(stored(Kind::Plain, None, &[]));
    let message = &delivery.message;
    assert_eq!((delivery.key, &message.key, &message.subject), (None, &None, &None));
    assert_eq!((message.born_ms, message.stored_ms, kind(&delivery)), (None, None, None));
    assert!(message.body.is_empty() && delivery.undecodable.is_none());
    let names: Vec<_> = message.properties.iter().map(|(name, _)| name).collect();
    assert_eq!(names, [&b"JMSDestination"[..], b"JMSPriority", b"JMSDeliveryMode"]);
}

#[test]
fn a_text_is_utf8_whatever_its_client_wrote() {
    let delivery = read(stored(Kind::Text, Some(long("ä\0\u{1f600}")), &[]));
    assert_eq!(&*delivery.message.body, "ä\0\u{1f600}".as_bytes());
    assert_eq!(kind(&delivery), Some("text/plain; charset=utf-8"));
    // ActiveMQ's STOMP connector stores plain UTF-8.
    let mut plain = 4_u32.to_be_bytes().to_vec();
    plain.extend("\u{1f600}".as_bytes());
    assert_eq!(&*read(stored(Kind::Text, Some(plain.into()), &[])).message.body, "\u{1f600}".as_bytes());
    let none = read(stored(Kind::Text, None, &[]));
    assert!(none.message.body.is_empty() && none.undecodable.is_none());
}

#[test]
fn the_producer_names_the_type_of_what_is_passed_on_as_it_is() {
    for name in ["content-type", "contentType", "Content-Type", "JMS_AMQP_ContentType"] {
        let named = [(name, Value::from("application/xml"))];
        let text = read(stored(Kind::Text, Some(long("<a/>")), &named));
        assert_eq!(kind(&text), Some("application/xml"), "{name}");
        let bytes = read(stored(Kind::Bytes, Some(Bytes::from_static(b"<a/>")), &named));
        assert_eq!(kind(&bytes), Some("application/xml"), "{name}");
    }
    let named = [("content-type", Value::from("application/xml"))];
    let written_here = read(stored(Kind::Map, Some(map(&[])), &named));
    assert_eq!(kind(&written_here), Some("application/json"));
    let empty = read(stored(Kind::Text, Some(long("a")), &[("content-type", Value::from(""))]));
    assert_eq!(kind(&empty), Some("text/plain; charset=utf-8"));
}

#[test]
fn maps_and_streams_are_json() {
    let content = map(&[
        ("text", Value::from("a\"b\n\u{1f600}")),
        ("null", Value::Null),
        ("flag", Value::Bool(true)),
        ("byte", Value::Byte(-1)),
        ("char", Value::Char(0xe4)),
        ("short", Value::Short(-2)),
        ("int", Value::Int(i32::MIN)),
        ("long", Value::Long(i64::MAX)),
        ("double", Value::Double(1.5)),
        ("nan", Value::Float(f32::NAN)),
        ("bytes", Value::Bytes(Bytes::from_static(b"\x00\x01"))),
        ("list", Value::List(vec![Value::Int(1), Value::Map(vec![("a".into(), Value::Null)])])),
    ]);
    let delivery = read(stored(Kind::Map, Some(content), &[]));
    let expected = "{\"text\":\"a\\\"b\\n\u{1f600}\",\"null\":null,\"flag\":true,\"byte\":-1,\"char\":\"ä\",\"short\":-2,\
                    \"int\":-2147483648,\"long\":9223372036854775807,\"double\":1.5,\"nan\":\"NaN\",\"bytes\":\"AAE=\",\
                    \"list\":[1,{\"a\":null}]}";
    assert_eq!(String::from_utf8_lossy(&delivery.message.body), expected);
    let stream = read(stored(Kind::Stream, Some(Bytes::from_static(&[1, 1, 5, 0, 0, 0, 7])), &[]));
    assert_eq!((&*stream.message.body, kind(&stream)), (&b"[true,7]"[..], Some("application/json")));
}

#[test]
fn objects_are_passed_on_untouched_and_blobs_say_where_they_lie() {
    let object = read(stored(Kind::Object, Some(Bytes::from_static(b"\xac\xed\x00\x05")), &[]));
    assert_eq!(&*object.message.body, b"\xac\xed\x00\x05");
    assert_eq!(kind(&object), Some("application/x-java-serialized-object"));
    let mut message = stored(Kind::Blob, None, &[]);
    message.blob = Some(Blob { url: Some("http://x/y".into()), media_type: None, deleted_by_broker: false });
    let blob = read(message);
    assert_eq!(&*blob.message.body, br#"{"url":"http://x/y","mime":null}"#);
    assert_eq!(kind(&blob), Some("application/json"));
}

#[test]
fn properties_are_shown_as_people_read_them() {
    let delivery = read(stored(
        Kind::Plain,
        None,
        &[
            ("text", Value::from("ä\0")),
            ("empty", Value::from("")),
            ("null", Value::Null),
            ("flag", Value::Bool(false)),
            ("long", Value::Long(-9)),
            ("float", Value::Float(0.25)),
            ("bytes", Value::Bytes(Bytes::from_static(b"\xe9"))),
            ("list", Value::List(vec![Value::from("a")])),
        ],
    ));
    for (name, value) in [
        ("text", "ä\0"),
        ("empty", ""),
        ("null", ""),
        ("flag", "false"),
        ("long", "-9"),
        ("float", "0.25"),
        ("list", "[\"a\"]"),
    ] {
        assert_eq!(shown(&delivery, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(delivery.message.properties.get(b"bytes"), Some(&b"\xe9"[..]));
}

#[test]
fn the_key_is_a_property_s_where_one_is_named() {
    let by = |name: &'static str| KeySource::Property(Text::from_static(name));
    let mut message = stored(Kind::Plain, None, &[("customer", Value::Int(9))]);
    message.fields.group = Some("g".into());
    message.fields.correlation = Some("c".into());
    let delivery = read_by(&by("customer"), Ok(message.clone()));
    assert_eq!((delivery.message.key.as_deref(), delivery.key), (Some("9"), Some(KeyHash::of(b"9"))));
    let correlated = read_by(&by("JMSCorrelationID"), Ok(message.clone()));
    assert_eq!(correlated.message.key.as_deref(), Some("c"));
    assert_eq!(read_by(&by("other"), Ok(message)).key, None);
    let bytes = [("customer", Value::Bytes(Bytes::from_static(b"\xff")))];
    let strange = read_by(&by("customer"), Ok(stored(Kind::Plain, None, &bytes)));
    assert_eq!((strange.message.key, strange.key), (None, Some(KeyHash::of(b"\xff"))));
    let empty = read_by(&by("customer"), Ok(stored(Kind::Plain, None, &[("customer", Value::from(""))])));
    assert_eq!(empty.key, None);
}

#[test]
fn what_can_t_be_read_keeps_its_content_its_id_its_key_and_its_place() {
    let mut message = stored(Kind::Text, Some(Bytes::from_static(b"\x7f\xff\xff\xffab")), &[]);
    message.fields.group = Some("g".into());
    let delivery = read(message);
    let undecodable = delivery.undecodable.unwrap();
    assert_eq!(&*undecodable.raw, b"\x7f\xff\xff\xffab");
    assert!(!undecodable.reason.is_empty());
    assert_eq!((&*delivery.message.id, delivery.key), ("ID:p:1:2:7", Some(KeyHash::of(b"g"))));
    assert!(delivery.message.body.is_empty());

    let mut bad_properties = stored(Kind::Bytes, Some(Bytes::from_static(b"body")), &[]);
    bad_properties.fields.raw_properties = Some(Bytes::from_static(&[0, 0, 0, 9]));
    let undecodable = read(bad_properties).undecodable.unwrap();
    assert_eq!(&*undecodable.raw, b"body");

    let mut compressed = stored(Kind::Text, Some(Bytes::from_static(b"no zlib")), &[]);
    compressed.fields.compressed = true;
    assert!(read(compressed).undecodable.unwrap().reason.contains("inflated"));
}

#[test]
fn what_was_not_read_at_all_is_a_delivery_that_says_why() {
    let long = read_by(&KeySource::Native, Err(Unread::Oversize { size: 1 << 40 }));
    assert!(long.undecodable.unwrap().reason.contains("1099511627776"));
    assert_eq!((&*long.message.id, long.position), ("ID:p:1:2:7", Position(9)));
    let reason: Arc<str> = Arc::from("it ends within Fields.group");
    let malformed = read_by(&KeySource::Native, Err(Unread::Malformed { reason: Arc::clone(&reason) }));
    let undecodable = malformed.undecodable.unwrap();
    assert_eq!((undecodable.raw.len(), undecodable.reason), (0, reason));
}
