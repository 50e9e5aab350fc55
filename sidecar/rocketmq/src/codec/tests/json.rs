use proptest::prelude::*;

use crate::codec::lenient::{JsonError, MAX_DEPTH, MAX_VALUES, Value, parse};

#[test]
fn integers_and_objects_are_keys() {
    let document =
        br#"{"brokerAddrs":{0:"10.0.0.1:10911", -1 : "x"},"offsetTable":{{"queueId":0,"topic":"T"}:12}}"#;
    let value = parse(document).unwrap();
    let addresses = value.get("brokerAddrs").unwrap().members().unwrap();
    assert_eq!(addresses[0].0.as_i64(), Some(0));
    assert_eq!(addresses[0].1.as_str(), Some("10.0.0.1:10911"));
    assert_eq!(addresses[1].0.as_i64(), Some(-1));
    let offsets = value.get("offsetTable").unwrap().members().unwrap();
    assert_eq!(offsets[0].0.get("topic").and_then(Value::as_str), Some("T"));
    assert_eq!(offsets[0].1.as_i64(), Some(12));
}

#[test]
fn strings_without_escapes_are_slices() {
    let document = br#"["plain","a\"b\\c\/d\n\u8ba2\ud83d\ude00\ud83d!"]"#;
    let value = parse(document).unwrap();
    let items = value.items().unwrap();
    assert!(matches!(items[0], Value::String(std::borrow::Cow::Borrowed("plain"))));
    assert_eq!(items[1].as_str(), Some("a\"b\\c/d\n订😀\u{fffd}!"));
}

#[test]
fn numbers_keep_what_fits() {
    let value = parse(b"[9223372036854775807,-9223372036854775808,18446744073709551615,1.5,-2e3,true,null]");
    let value = value.unwrap();
    let items = value.items().unwrap();
    assert_eq!(items[0], Value::Integer(i64::MAX));
    assert_eq!(items[1], Value::Integer(i64::MIN));
    assert_eq!(items[2], Value::Float(18_446_744_073_709_551_615.0));
    assert_eq!(items[3..], [Value::Float(1.5), Value::Float(-2000.0), Value::Bool(true), Value::Null]);
}

#[test]
fn the_last_of_two_members_counts() {
    assert_eq!(parse(br#"{"a":1,"a":2}"#).unwrap().get("a"), Some(&Value::Integer(2)));
}

#[test]
fn depth_is_bounded_and_never_the_stack() {
    let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
    assert!(parse(&nested(MAX_DEPTH + 1)).is_ok());
    assert_eq!(parse(&nested(MAX_DEPTH + 2)), Err(JsonError::Depth));
    assert_eq!(parse(&vec![b'['; 1 << 20]), Err(JsonError::Depth));
    assert_eq!(parse(&b"{".repeat(1 << 20)), Err(JsonError::Depth));
    assert_eq!(parse(&br#"{"a":"#.repeat(1 << 20)), Err(JsonError::Depth));
}

#[test]
fn the_number_of_values_is_bounded() {
    let document = [b"[".as_slice(), &b"1,".repeat(MAX_VALUES), b"1]"].concat();
    assert_eq!(parse(&document), Err(JsonError::Values));
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    for (document, at) in [
        (&b""[..], 0),
        (b"{", 1),
        (b"[1 2]", 3),
        (b"{\"a\" 1}", 5),
        (b"{\"a\":}", 5),
        (b"[1,]", 3),
        (b"\"abc", 1),
        (b"\"a\\", 2),
        (b"\"\\u12", 3),
        (b"\"\\x\"", 1),
        (b"tru", 0),
        (b"nulll", 4),
        (b"1 1", 2),
        (b"-", 0),
        (b"1.2.3", 0),
        (b"\xff", 0),
    ] {
        match parse(document) {
            Err(JsonError::Syntax { at: found, .. }) => assert_eq!(found, at, "{document:?}"),
            other => panic!("{document:?}: {other:?}"),
        }
    }
}

#[test]
fn strings_that_are_not_utf8_are_repaired() {
    assert_eq!(parse(b"\"a\xffb\"").unwrap().as_str(), Some("a\u{fffd}b"));
}

proptest! {
    #[test]
    fn strict_json_is_read_as_it_is(text in "\\PC*", number in any::<i64>(), key in "\\PC*") {
        let document = serde_json::json!({"t": text, "list": [number, true], key: null});
        let bytes = serde_json::to_vec(&document).unwrap();
        let value = parse(&bytes).unwrap();
        if document["t"].is_string() {
            prop_assert_eq!(value.get("t").and_then(Value::as_str), document["t"].as_str());
        }
        if document["list"].is_array() {
            prop_assert_eq!(value.get("list").and_then(Value::items).unwrap()[0].as_i64(), Some(number));
        }
    }

    #[test]
    fn json_like_bytes_do_no_harm(bytes in "[\\[\\]{}\",:\\\\u0-9a-f.eE+\\- ]{0,200}") {
        drop(parse(bytes.as_bytes()));
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(parse(&bytes));
    }
}
