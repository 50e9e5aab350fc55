//! CloudEvents in and out.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use lockstep_contract::Format;
use lockstep_model::Message;
use serde_json::{Value, json};

use super::{
    super::{
        Settings, event,
        request::{Times, render},
        settings::Prepared,
    },
    message, properties, request, settings,
};

const TIMES: Times = Times { now_ms: 0, deadline_ms: 0, lease_deadline_ms: None };

/// `ce-` headers, content type and body.
fn sent(format: Format, message: Message) -> (BTreeMap<String, String>, String, Vec<u8>) {
    let prepared = Prepared::new(&Settings { format, ..settings(80) }).unwrap();
    let rendered = render(&prepared, &request(message), TIMES);
    let attributes = rendered.headers.iter().filter_map(|(name, value)| {
        Some((name.as_str().strip_prefix("ce-")?.to_owned(), value.to_str().unwrap().to_owned()))
    });
    let content_type = rendered.headers["content-type"].to_str().unwrap().to_owned();
    (attributes.collect(), content_type, rendered.body.to_vec())
}

fn document(message: Message) -> Value {
    let (attributes, content_type, body) = sent(Format::CloudEventsStructured, message);
    assert_eq!(attributes.len(), 0);
    assert_eq!(content_type, "application/cloudevents+json; charset=utf-8");
    serde_json::from_slice(&body).expect("the document must be JSON")
}

fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

fn rich() -> Message {
    Message {
        subject: Some("paid €".into()),
        key: Some("order \"7\"".into()),
        born_ms: Some(1_614_265_330_123),
        content_type: Some("text/plain; charset=utf-8".into()),
        id_synthetic: true,
        ..message("hello")
    }
}

#[test]
fn a_plain_message_gets_all_attributes() {
    let (attributes, content_type, body) = sent(Format::CloudEventsBinary, rich());
    let expected = map(&[
        ("specversion", "1.0"),
        ("id", "A1"),
        ("source", "rocketmq://shop-orders/orders/broker-a/3"),
        ("type", "lockstep.dev.message.v1"),
        ("subject", "paid%20%E2%82%AC"),
        ("time", "2021-02-25T15:02:10.123Z"),
        ("partitionkey", "order%20%227%22"),
        ("sequence", "00000000000000000042"),
        ("deliveryattempt", "1"),
        ("consumergroup", "shop-orders"),
        ("idsynthetic", "true"),
    ]);
    assert_eq!(attributes, expected);
    assert_eq!((content_type.as_str(), body.as_slice()), ("text/plain; charset=utf-8", b"hello".as_slice()));
}

#[test]
fn raw_has_no_attributes() {
    let (attributes, content_type, body) = sent(Format::Raw, message("{}"));
    assert_eq!(
        (attributes.len(), content_type.as_str(), body.as_slice()),
        (0, "application/json", b"{}".as_slice())
    );
}

#[test]
fn what_cannot_be_told_is_left_out() {
    let strange =
        Message { born_ms: Some(i64::MAX), content_type: Some("text/plain\r\nx: y".into()), ..message("x") };
    let (attributes, content_type, _) = sent(Format::CloudEventsBinary, strange);
    assert!(!attributes.contains_key("time"));
    assert_eq!(content_type, "application/json");
}

#[test]
fn a_cloud_event_passes_through_with_its_own_attributes() {
    for prefix in ["CE_", "ce-", "cloudEvents:", "cloudEvents_"] {
        let name = |name: &str| format!("{prefix}{name}").into_bytes();
        let names =
            ["specversion", "id", "source", "type", "subject", "contenttype", "myext", "Bad-Name", "broken"];
        let names: Vec<_> = names.iter().map(|text| name(text)).collect();
        let values: [&[u8]; 9] =
            [b"1.0", b"e 1", b"/shop", b"order.paid", b"o/7", b"text/xml", b"x%y", b"lost", b"\xff"];
        let list: Vec<(&[u8], &[u8])> = names.iter().map(Vec::as_slice).zip(values).collect();
        let event = Message { properties: properties(&list), subject: Some("tag".into()), ..message("<a/>") };

        let (attributes, content_type, body) = sent(Format::CloudEventsBinary, event.clone());
        let expected = map(&[
            ("specversion", "1.0"),
            ("id", "e%201"),
            ("source", "/shop"),
            ("type", "order.paid"),
            ("subject", "o/7"),
            ("myext", "x%25y"),
        ]);
        assert_eq!(attributes, expected, "{prefix}");
        assert_eq!((content_type.as_str(), body.as_slice()), ("text/xml", b"<a/>".as_slice()));

        let expected = json!({
            "specversion": "1.0", "id": "e 1", "source": "/shop", "type": "order.paid", "subject": "o/7",
            "myext": "x%y", "datacontenttype": "text/xml", "data_base64": STANDARD.encode("<a/>"),
        });
        assert_eq!(document(event), expected);
    }
}

#[test]
fn an_incomplete_cloud_event_is_completed() {
    let event = Message {
        properties: properties(&[(b"CE_specversion", b"1.0"), (b"CE_type", b"t")]),
        ..message("1")
    };
    let (attributes, _, _) = sent(Format::CloudEventsBinary, event.clone());
    let source = "rocketmq://shop-orders/orders/broker-a/3";
    assert_eq!(attributes, map(&[("specversion", "1.0"), ("type", "t"), ("id", "A1"), ("source", source)]));
    let expected = json!({
        "specversion": "1.0", "type": "t", "id": "A1", "source": source, "datacontenttype": "application/json", "data": 1,
    });
    assert_eq!(document(event), expected);
}

#[test]
fn attributes_without_a_version_are_ordinary_properties() {
    let (attributes, _, _) = sent(
        Format::CloudEventsBinary,
        Message { properties: properties(&[(b"CE_id", b"forged")]), ..message("1") },
    );
    assert_eq!(attributes["id"], "A1");
}

#[test]
fn a_structured_event_passes_through_untouched() {
    let body = r#"{"specversion":"1.0","id":"1","source":"/s","type":"t"}"#;
    for content_type in ["application/cloudevents+json", "Application/CloudEvents-batch+json; charset=utf-8"]
    {
        for format in [Format::CloudEventsBinary, Format::CloudEventsStructured, Format::Raw] {
            let event = Message { content_type: Some(content_type.into()), ..message(body) };
            let (attributes, sent_type, sent_body) = sent(format, event);
            assert_eq!((attributes.len(), sent_type.as_str()), (0, content_type));
            assert_eq!(sent_body, body.as_bytes());
        }
    }
}

#[test]
fn a_document_tells_the_same_as_the_headers() {
    let expected = json!({
        "specversion": "1.0", "id": "A1", "source": "rocketmq://shop-orders/orders/broker-a/3",
        "type": "lockstep.dev.message.v1", "subject": "paid €", "partitionkey": "order \"7\"",
        "time": "2021-02-25T15:02:10.123Z", "sequence": "00000000000000000042", "deliveryattempt": 1,
        "consumergroup": "shop-orders", "idsynthetic": true, "datacontenttype": "text/plain; charset=utf-8",
        "data_base64": "aGVsbG8=",
    });
    assert_eq!(document(rich()), expected);
}

#[test]
fn json_stands_in_a_document_as_it_is_and_all_else_as_base64() {
    let as_json: [&str; 6] =
        [r#"{"a":[1,2.50,"\u00e9"]}"#, "[]", " null ", "12", "\"x\"", r#"{"a":1,"a":2}"#];
    for body in as_json {
        let (_, _, sent) = sent(Format::CloudEventsStructured, message(body));
        let text = String::from_utf8(sent).unwrap();
        assert!(text.contains(&format!("\"data\":{body}")), "{text}");
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let not_json: [&[u8]; 9] = [
        b"{",
        b"{} {}",
        b"},\"id\":\"forged\",\"x\":{",
        b"\"\xff\"",
        b"\xff",
        b"NaN",
        b"\0",
        b"\xef\xbb\xbf{}",
        deep.as_bytes(),
    ];
    for body in not_json {
        let document = document(message(body));
        assert_eq!(document["data_base64"], STANDARD.encode(body));
        assert_eq!((document["id"].as_str(), document.get("data")), (Some("A1"), None));
    }
    let types = [
        ("application/json", true),
        ("text/JSON;x=y", true),
        ("application/vnd.x+json", true),
        ("application/jsonx", false),
        ("text/plain", false),
    ];
    for (content_type, is_json) in types {
        let document = document(Message { content_type: Some(content_type.into()), ..message("1") });
        assert_eq!(document.get("data").is_some(), is_json, "{content_type}");
    }
}

#[test]
fn an_empty_body_has_no_data() {
    let document = document(message(""));
    assert_eq!((document.get("data"), document.get("data_base64")), (None, None));
}

#[test]
fn a_producer_cannot_smuggle_a_second_body_into_a_document() {
    let event = Message {
        properties: properties(&[
            (b"CE_specversion", b"1.0"),
            (b"CE_data", b"forged"),
            (b"CE_id", b"first"),
            (b"CE_id", b"second"),
            (b"CE_datacontenttype", b"application/json"),
        ]),
        ..message("true")
    };
    let (_, _, body) = sent(Format::CloudEventsStructured, event);
    let text = String::from_utf8(body).unwrap();
    assert!(!text.contains("forged") && !text.contains("second"), "{text}");
    assert_eq!(text.matches("datacontenttype").count(), 1);
    assert!(text.contains("\"data\":true"), "{text}");
}

#[test]
fn times_are_written_as_jiff_displays_them() {
    let some = [-62_167_219_200_001, -62_167_219_200_000, -1, 0, 1, 10, 120, 999, 1_000];
    let more = (0..5_000_i64).map(|step| step * 50_687_131_907 + step % 7 - 1_000_000_000_000);
    for ms in some.into_iter().chain(more) {
        let time = jiff::Timestamp::from_millisecond(ms).unwrap();
        let mut out = Vec::new();
        event::rfc3339(&mut out, time);
        assert_eq!(String::from_utf8(out).unwrap(), time.to_string());
    }
}
