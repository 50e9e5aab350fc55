//! What a request carries.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_contract::Format;
use lockstep_model::{Epoch, Identity, Message, PropertiesBuilder};

use super::{
    super::{
        AttemptRequest, Endpoint, ROCKETMQ_HIDDEN, Settings, SettingsError,
        request::{Rendered, Times, render},
        settings::Prepared,
        signing,
    },
    delivery, message, properties, request, settings,
};

const TIMES: Times =
    Times { now_ms: 1_614_265_330_500, deadline_ms: 1_614_265_360_500, lease_deadline_ms: None };

fn rendered(settings: &Settings, request: &AttemptRequest) -> Rendered {
    render(&Prepared::new(settings).unwrap(), request, TIMES)
}

fn headers(settings: &Settings, request: &AttemptRequest) -> BTreeMap<String, String> {
    let rendered = rendered(settings, request);
    let all: Vec<_> = rendered
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().expect("values must be ASCII").to_owned()))
        .collect();
    let mut map: BTreeMap<_, _> = all.iter().cloned().collect();
    assert_eq!(map.len(), all.len(), "no header may be there twice: {all:?}");
    // What every HTTP request has, whoever sends it.
    assert_eq!(map.remove("accept").as_deref(), Some("*/*"));
    assert_eq!(map.remove("content-length"), Some(rendered.body.len().to_string()));
    assert!(map.remove("host").is_some_and(|host| host.starts_with("localhost")));
    map
}

fn raw() -> Settings {
    Settings { format: Format::Raw, ..settings(80) }
}

fn with_properties(list: &[(&[u8], &[u8])]) -> AttemptRequest {
    request(Message { properties: properties(list), ..message("b") })
}

fn webhook_id(identity: Identity, id: &str, position: u64, queue: &str) -> String {
    let mut request = request(message("b"));
    let mut delivery = delivery(Message { id: id.into(), ..message("b") });
    delivery.identity = identity;
    delivery.position.0 = position;
    request.delivery = delivery.into();
    request.queue_name = queue.into();
    headers(&raw(), &request).remove("webhook-id").unwrap()
}

#[test]
fn every_format_carries_the_same_headers_of_ours() {
    let mut request = request(message(r#"{"a":1}"#));
    (request.number, request.max_attempts, request.epoch) = (3, 16, Epoch(1_700_000_000_123));
    for format in [Format::CloudEventsBinary, Format::CloudEventsStructured, Format::Raw] {
        let settings = Settings { format, ..settings(80) };
        let mut headers = headers(&settings, &request);
        headers.retain(|name, _| !name.starts_with("ce-") && name != "content-type");
        let expected = [
            ("lockstep-attempt", "3"),
            ("lockstep-consumer-group", "shop-orders"),
            ("lockstep-deadline", "1614265360500"),
            ("lockstep-lease-epoch", "1700000000123"),
            ("lockstep-max-attempts", "16"),
            ("lockstep-message-id", "A1"),
            ("lockstep-position", "42"),
            ("lockstep-queue", "orders/broker-a/3"),
            ("user-agent", concat!("lockstep/", env!("CARGO_PKG_VERSION"))),
            ("webhook-id", "shop-orders/orders/broker-a/3/42/A1"),
            ("webhook-timestamp", "1614265330"),
        ];
        let expected: BTreeMap<_, _> = expected.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        assert_eq!(headers, expected);
    }
    let leased = Times { lease_deadline_ms: Some(9), ..TIMES };
    let rendered = render(&Prepared::new(&raw()).unwrap(), &request, leased);
    assert_eq!(rendered.headers["lockstep-lease-deadline"], "9");
}

#[test]
fn the_body_is_a_slice_of_the_receive_buffer() {
    let request = request(message("the content"));
    for format in [Format::CloudEventsBinary, Format::Raw] {
        let rendered = rendered(&Settings { format, ..settings(80) }, &request);
        assert_eq!(rendered.body.as_ptr(), request.delivery.message.body.as_ptr());
    }
}

#[test]
fn properties_become_headers_that_nothing_can_forge() {
    let request = with_properties(&[
        (b"plain", b"value"),
        (b"Host", b"evil"),
        (b"Content-Length", b"0"),
        (b"a\r\nLockstep-Attempt: 9", b"1\r\nLockstep-Attempt: 9\r\n\r\nGET / HTTP/1.1"),
        (b"nul\0", b"\0"),
        (b"not utf8 \xff", b"\xff\xfe"),
        (b"sp ace:%41", b"100% \"sure\"\tyes"),
        ("schlüssel".as_bytes(), "größe €".as_bytes()),
        (b"", b"no name"),
        (b"empty", b""),
        (b"PLAIN", b"second of its name"),
        (b"UNIQ_KEY", b"hidden"),
        (b"__RMQ.TRANSIENT.X", b"hidden"),
        (b"TIMER_DELAY_MS", b"hidden"),
        (b"KEYS", b"k1 k2"),
    ]);
    let mut headers = headers(&raw(), &request);
    assert_eq!(headers.remove("lockstep-attempt").as_deref(), Some("1"));
    assert_eq!(headers.remove("lockstep-properties-dropped").as_deref(), Some("2"));
    headers.retain(|name, _| name.starts_with("lockstep-property-"));
    let expected = [
        ("plain", "value"),
        ("host", "evil"),
        ("content-length", "0"),
        ("a%0d%0alockstep-attempt%3a%209", "1%0D%0ALockstep-Attempt:%209%0D%0A%0D%0AGET%20/%20HTTP/1.1"),
        ("nul%00", "%00"),
        ("not%20utf8%20%ff", "%FF%FE"),
        ("sp%20ace%3a%2541", "100%25%20%22sure%22%09yes"),
        ("schl%c3%bcssel", "gr%C3%B6%C3%9Fe%20%E2%82%AC"),
        ("empty", ""),
        ("keys", "k1%20k2"),
    ];
    let expected: BTreeMap<_, _> =
        expected.map(|(n, v)| (format!("lockstep-property-{n}"), v.to_owned())).into();
    assert_eq!(headers, expected);
}

#[test]
fn properties_stay_within_their_budget_and_the_rest_is_counted() {
    let mut builder = PropertiesBuilder::default();
    for index in 0..10_000 {
        builder.push(format!("name-{index}").as_bytes(), b"value");
    }
    let many = request(Message { properties: builder.build(), ..message("b") });
    let found = headers(&raw(), &many);
    assert_eq!(found.keys().filter(|name| name.starts_with("lockstep-property-")).count(), 64);
    assert_eq!(found["lockstep-properties-dropped"], "9936");

    // Each escaped byte takes three: 32,000 raw bytes can't slip through, and smaller ones behind still fit.
    let big = vec![0xff; 32_000];
    let name = vec![b'\r'; 32_000];
    let wide = vec![b' '; 1500];
    let found = headers(
        &raw(),
        &with_properties(&[
            (b"big", &big),
            (&name, b"x"),
            (b"wide", &wide),
            (b"wide2", &wide),
            (b"small", b"fits"),
        ]),
    );
    assert_eq!(found["lockstep-properties-dropped"], "3");
    assert_eq!(found["lockstep-property-wide"].len(), 4500);
    assert_eq!(found["lockstep-property-small"], "fits");
}

#[test]
fn no_part_of_a_message_can_make_a_head_of_more_than_8_kib() {
    let long = "\u{7f}".repeat(20_000);
    let name = vec![b'n'; 20_000];
    let mut list: Vec<(&[u8], &[u8])> = vec![(b"CE_specversion", b"1.0"), (b"CE_subject", long.as_bytes())];
    let values: Vec<String> = (0..200).map(|index| format!("p{index}")).collect();
    list.extend(values.iter().map(|value| (value.as_bytes(), long.as_bytes())));
    list.push((&name, b"x"));
    let message = Message {
        id: long.as_str().into(),
        key: Some(long.as_str().into()),
        subject: Some(long.as_str().into()),
        content_type: Some(format!("text/{long}").as_str().into()),
        ..message("b")
    };
    for properties in [properties(&list), properties(&list[2..])] {
        for format in [Format::CloudEventsBinary, Format::CloudEventsStructured, Format::Raw] {
            let request = request(Message { properties: properties.clone(), ..message.clone() });
            let found = headers(&Settings { format, ..settings(80) }, &request);
            let size: usize = found.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
            assert!(size < 8 * 1024, "{size}");
            assert!(found["lockstep-message-id"].starts_with("sha256-"));
        }
    }
}

#[test]
fn a_webhook_id_is_the_same_for_one_message_and_no_other() {
    let at = |offset, stored_ms| Identity::Position { offset, stored_ms, log_offset: 5 };
    let unique = |id: &'static str| Identity::Unique(id.into());
    // Equal: what may differ between two deliveries of one message.
    assert_eq!(webhook_id(unique("u"), "A1", 1, "q"), webhook_id(unique("u"), "A1", 99, "q"));
    assert_eq!(webhook_id(Identity::None, "A1", 1, "q"), webhook_id(Identity::None, "A1", 2, "q"));
    assert_eq!(webhook_id(at(42, 1), "A1", 42, "q"), webhook_id(at(42, 2), "A1", 42, "q"));
    // Unequal: what belongs to different messages, however the parts are cut.
    let different = [
        webhook_id(at(42, 1), "A1", 42, "q"),
        webhook_id(at(43, 1), "A1", 43, "q"),
        webhook_id(at(42, 1), "A2", 42, "q"),
        webhook_id(at(42, 1), "A1", 42, "q2"),
        webhook_id(at(42, 1), "a1", 42, "q"),
        webhook_id(at(1, 1), "x", 1, "q/42"),
        webhook_id(at(42, 1), "1/x", 42, "q"),
        webhook_id(at(42, 1), "A.1", 42, "q"),
        webhook_id(at(42, 1), "A%2E1", 42, "q"),
        webhook_id(Identity::None, "A1", 42, "q"),
        webhook_id(at(42, 1), "", 42, "q"),
        webhook_id(at(42, 1), &"x".repeat(300), 42, "q"),
        webhook_id(at(42, 1), &"x".repeat(301), 42, "q"),
    ];
    for (index, id) in different.iter().enumerate() {
        assert!(!id.contains('.') && id.len() < 500, "{id}");
        assert!(different[..index].iter().all(|other| other != id), "{id} is there twice");
    }
}

#[test]
fn signatures_are_those_of_standard_webhooks() {
    // Computed apart with another implementation of HMAC.
    let key = signing::SigningKey::parse(" whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
    let body = r#"{"test": 2432232314}"#.into();
    let id = b"msg_p5jXN8AQM9LWM0D4loKWxJek";
    let signed = signing::signature(&[key.clone(), key], id, b"1614265330", &body);
    let one = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    assert_eq!(signed, format!("{one} {one}"));
}

#[test]
fn each_attempt_is_signed_over_what_is_sent() {
    let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    for format in [Format::CloudEventsStructured, Format::Raw] {
        let settings = Settings { format, signing_keys: vec![key.into()], ..settings(80) };
        let rendered = rendered(&settings, &request(message("b")));
        let parsed = signing::SigningKey::parse(key).unwrap();
        let part = |name| rendered.headers[name].as_bytes();
        let expected =
            signing::signature(&[parsed], part("webhook-id"), part("webhook-timestamp"), &rendered.body);
        assert_eq!(rendered.headers["webhook-signature"], expected);
    }
}

#[test]
fn unusable_keys_are_named_and_never_shown() {
    let short = "whsec_c2hvcnQ=";
    for (key, why) in [("secret", "begin"), ("whsec_!!!", "base64"), (short, "5 bytes")] {
        let error = Prepared::new(&Settings { signing_keys: vec![key.into()], ..settings(80) }).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("signing key 1") && text.contains(why), "{text}");
        assert!(!text.contains(key), "{text}");
    }
    let settings = Settings {
        signing_keys: vec!["whsec_topsecret".into()],
        headers: vec![("authorization".into(), "topsecret".into())],
        ..settings(80)
    };
    assert!(!format!("{settings:?}").contains("topsecret"));
}

#[test]
fn static_headers_are_sent_and_can_replace_nothing() {
    let with = |name: &str, value: &str| Settings { headers: vec![(name.into(), value.into())], ..raw() };
    let found = headers(&with("Authorization", "Bearer abc\n"), &request(message("b")));
    assert_eq!(found["authorization"], "Bearer abc");
    assert_eq!(headers(&with("User-Agent", "mine"), &request(message("b")))["user-agent"], "mine");
    assert!(
        !format!("{:?}", Prepared::new(&with("Authorization", "topsecret")).unwrap()).contains("topsecret")
    );
    let reserved = [
        "Host",
        "Content-Length",
        "content-type",
        "Transfer-Encoding",
        "Connection",
        "keep-alive",
        "TE",
        "Upgrade",
        "Expect",
        "Proxy-Authorization",
        "Lockstep-Attempt",
        "lockstep-new",
        "webhook-id",
        "ce-id",
        "trailer",
    ];
    for name in reserved {
        let error = Prepared::new(&with(name, "x")).unwrap_err();
        assert!(matches!(error, SettingsError::HeaderReserved { .. }), "{name}: {error}");
    }
    let name = Prepared::new(&with("a b", "x")).unwrap_err();
    assert!(matches!(name, SettingsError::HeaderName { .. }));
    for value in ["a\r\nb: c", "\0", "a\u{7f}"] {
        let value = Prepared::new(&with("x", value)).unwrap_err();
        assert!(matches!(value, SettingsError::HeaderValue { .. }));
    }
}

#[test]
fn endpoints_are_read_from_urls_and_checked() {
    let endpoint = |host: &str, port, path: &str| Endpoint { host: host.into(), port, path: path.into() };
    let good = [
        ("http://127.0.0.1:8080/messages", endpoint("127.0.0.1", 8080, "/messages")),
        ("http://[::1]:81/a?b=c", endpoint("::1", 81, "/a?b=c")),
        ("http://localhost", endpoint("localhost", 80, "/")),
    ];
    for (url, expected) in good {
        assert_eq!(Endpoint::from_url(url).unwrap(), expected);
        Prepared::new(&Settings { endpoint: expected, ..settings(80) }).unwrap();
    }
    for url in ["https://localhost/", "localhost:8080", "", "http://", "http://u:pw@h/", "http://h/#f"] {
        let error = Endpoint::from_url(url).unwrap_err().to_string();
        assert!(error.contains("give http://") && !error.contains("pw"), "{error}");
    }
    for (host, path) in [("a@b", "/"), ("", "/"), ("h/x", "/"), ("h", "x"), ("h", "/#f"), ("h h", "/")] {
        assert!(
            Prepared::new(&Settings { endpoint: endpoint(host, 1, path), ..settings(80) }).is_err(),
            "{host}"
        );
    }
    assert!(Prepared::new(&Settings { content_type: "nonsense".into(), ..settings(80) }).is_err());
    assert!(ROCKETMQ_HIDDEN.contains(&"UNIQ_KEY"));
}

/// The names in the first column of the tables between two headings of the page.
fn documented(from: &str, to: &str) -> BTreeSet<String> {
    let page = include_str!("../../../../../docs/callback.md");
    let (_, part) = page.split_once(from).unwrap();
    let (part, _) = part.split_once(to).unwrap();
    let names = part.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn the_page_lists_exactly_the_headers_that_are_set() {
    let source = include_str!("../names.rs");
    let quoted = |line: &str| Some(line.split_once('"')?.1.split_once('"')?.0.to_owned());
    let set: BTreeSet<_> =
        source.lines().filter(|line| line.contains("from_static(")).filter_map(quoted).collect();
    let mut page: BTreeSet<_> = documented("### Headers of every request", "### Properties and escaping")
        .iter()
        .map(|name| name.to_ascii_lowercase())
        .collect();
    // One for each property, and one that is not ours.
    assert!(page.remove("lockstep-property-<name>") && page.remove("content-type"), "{page:?}");
    let attributes = documented("### Formats", "**Messages that already are CloudEvents");
    let is_attribute = |name: &&String| name.bytes().all(|byte| byte.is_ascii_lowercase());
    page.extend(attributes.iter().filter(is_attribute).map(|name| format!("ce-{name}")));
    assert_eq!(set, page);
    assert!(set.len() > 20);
}
