use bytes::Bytes;
use proptest::prelude::*;

use crate::codec::{Command, Credentials, MessageId, java_hash, parse_properties, write_properties};

#[test]
fn java_s_string_hashes() {
    assert_eq!(java_hash("TagA"), 2_598_919);
    assert_eq!(java_hash("TagB"), 2_598_920);
    assert_eq!(java_hash("AaAa"), 2_031_744);
    assert_eq!(java_hash("BBBB"), 2_031_744);
    assert_eq!(java_hash("订单"), 1_129_459);
    assert_eq!(java_hash(""), 0);
    // A character of two UTF-16 units, and a sum that wraps: computed by hand from the definition.
    assert_eq!(java_hash("😀"), 55_357_i32.wrapping_mul(31).wrapping_add(56_832));
    assert_eq!(java_hash("polygenelubricants"), i32::MIN);
}

#[test]
fn the_golden_signature() {
    let credentials =
        Credentials { access_key: "ak".to_owned(), secret_key: "sk".to_owned(), security_token: None };
    let mut request =
        Command::request(14).field("topic", "T").field("queueId", 0).field("consumerGroup", "g").body("body");
    credentials.sign(&mut request);
    assert_eq!(request.fields.get("AccessKey"), Some("ak"));
    assert_eq!(request.fields.get("Signature"), Some("btuui0H6T7Rw2v6W4oy1zjqcnxs="));
    let signed = request.clone();
    credentials.sign(&mut request);
    assert_eq!(request, signed, "signing again replaces the signature");
}

#[test]
fn a_token_is_signed_too_and_no_secret_is_shown() {
    let mut credentials = Credentials {
        access_key: "ak".to_owned(),
        secret_key: "topsecret".to_owned(),
        security_token: Some("token".to_owned()),
    };
    let signature = |credentials: &Credentials| {
        let mut request = Command::request(34);
        credentials.sign(&mut request);
        request.fields.get("Signature").unwrap().to_owned()
    };
    let with_token = signature(&credentials);
    let shown = format!("{credentials:?}");
    assert!(!shown.contains("topsecret") && !shown.contains("token"), "{shown}");
    credentials.security_token = None;
    assert_ne!(signature(&credentials), with_token);
}

#[test]
fn message_ids_of_both_lengths() {
    for text in
        ["7F00000100002A9F00000000000003E8", "FD00000000000000000000000000001700002A9F00000000000003E8"]
    {
        let id: MessageId = text.parse().unwrap();
        assert_eq!((id.host.port, id.log_offset), (10911, 1000));
        assert_eq!(id.to_string(), text);
    }
    for wrong in [
        "",
        "7F",
        "7F00000100002A9F00000000000003EG",
        "+F00000100002A9F00000000000003E8",
        "订订订订订订订订订订单订",
    ] {
        assert!(wrong.parse::<MessageId>().is_err(), "{wrong}");
    }
}

fn pairs(text: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let properties = parse_properties(Bytes::copy_from_slice(text));
    properties.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

#[test]
fn properties_are_found_as_java_finds_them() {
    let pair = |name: &[u8], value: &[u8]| (name.to_vec(), value.to_vec());
    assert_eq!(pairs(b""), []);
    assert_eq!(pairs(b"a\x01b\x02c\x01d"), [pair(b"a", b"b"), pair(b"c", b"d")]);
    assert_eq!(pairs(b"a\x01b\x02\x02\x02xy\x02long\x02"), [pair(b"a", b"b")]);
    assert_eq!(pairs(b"a\x01b\x01c\x02"), [pair(b"a", b"b\x01c")]);
    assert_eq!(pairs(b"\x01abc\x02"), []);
    assert_eq!(pairs(b"a\x01\x02bb\x01\x02"), [pair(b"bb", b"")]);
    assert_eq!(pairs(b"\xff\x00\x01\r\n\x02"), [pair(b"\xff\x00", b"\r\n")]);
}

#[test]
fn ten_thousand_properties_are_found_without_copying() {
    let text: Vec<u8> = (0..10_000).flat_map(|n| format!("k{n}\x01v{n}\x02").into_bytes()).collect();
    let text = Bytes::from(text);
    let properties = parse_properties(text.clone());
    assert_eq!(properties.len(), 10_000);
    assert_eq!(properties.get(b"k9999"), Some(&b"v9999"[..]));
    assert!(text.as_ptr_range().contains(&properties.get(b"k0").unwrap().as_ptr()));
}

#[test]
fn what_would_break_the_text_form_is_not_written() {
    let text = write_properties([(&b"a"[..], &b"1"[..]), (b"b\x01", b"2"), (b"c", b"3\x02"), (b"", b"4")]);
    assert_eq!(&text[..], b"a\x011\x02");
}

proptest! {
    #[test]
    fn what_is_written_is_found(written in prop::collection::vec(("[^\u{1}\u{2}]{1,9}", "[^\u{1}\u{2}]{1,9}"), 0..30)) {
        let text = write_properties(written.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let expected: Vec<_> =
            written.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes())).collect();
        prop_assert_eq!(pairs(&text), expected);
    }

    #[test]
    fn random_text_has_no_more_properties_than_it_has_room_for(text in prop::collection::vec(0_u8..5, 0..200)) {
        let found = pairs(&text);
        let bytes: usize = found.iter().map(|(name, value)| name.len() + value.len() + 1).sum();
        prop_assert!(bytes <= text.len());
    }

    #[test]
    fn message_ids_survive(ip in any::<std::net::IpAddr>(), port in any::<i32>(), log_offset in any::<i64>()) {
        let id = MessageId { host: crate::codec::Host { ip, port }, log_offset };
        prop_assert_eq!(id.to_string().parse::<MessageId>().unwrap(), id);
    }
}
