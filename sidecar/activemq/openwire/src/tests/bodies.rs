use std::io::Write;

use bytes::{Bytes, BytesMut};
use flate2::{Compression, write::ZlibEncoder};

use crate::{Blob, Body, DecodeError, Fields, Kind, Message, Value, body, write_map};

const MOST: usize = 100_000;

fn message(kind: Kind, content: impl Into<Vec<u8>>, compressed: bool) -> Message {
    let content = Some(Bytes::from(content.into()));
    Message { kind, fields: Fields { content, compressed, ..Fields::default() }, blob: None }
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// As Artemis does: flushed and not ended.
fn flushed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.flush().unwrap();
    encoder.get_ref().clone()
}

fn text(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
}

#[test]
fn each_kind_is_read() {
    let mut map = BytesMut::new();
    write_map(&mut map, &[("a".into(), Value::Int(-3))]).unwrap();
    let map_of = |compressed: bool, content: &[u8]| body(&message(Kind::Map, content, compressed), MOST);
    assert_eq!(body(&message(Kind::Text, text("hi"), false), MOST), Ok(Body::Text("hi".into())));
    assert_eq!(body(&message(Kind::Bytes, "raw", false), MOST), Ok(Body::Bytes("raw".into())));
    assert_eq!(map_of(false, &map), Ok(Body::Map(vec![("a".into(), Value::Int(-3))])));
    assert_eq!(map_of(true, &zlib(&map)), map_of(false, &map));
    let values = b"\x01\x01\x09\x00\x01x\x00";
    let expected = vec![Value::Bool(true), "x".into(), Value::Null];
    assert_eq!(body(&message(Kind::Stream, values, false), MOST), Ok(Body::Stream(expected)));
    let object = b"\xac\xed\x00\x05t\x00\x01x";
    assert_eq!(body(&message(Kind::Object, object, false), MOST), Ok(Body::Object(object.to_vec().into())));
    assert_eq!(body(&message(Kind::Plain, "x", false), MOST), Ok(Body::None));
    let blob = Blob { url: Some("http://x/".into()), media_type: None, deleted_by_broker: true };
    let message = Message { kind: Kind::Blob, blob: Some(blob.clone()), ..Message::default() };
    assert_eq!(body(&message, MOST), Ok(Body::Blob(blob)));
    assert_eq!(body(&Message { kind: Kind::Text, ..Message::default() }, MOST), Ok(Body::None));
}

#[test]
fn what_is_compressed_is_inflated() {
    let long = "ha".repeat(20_000);
    let whole = text(&long);
    assert_eq!(body(&message(Kind::Text, zlib(&whole), true), MOST), Ok(Body::Text(long.as_str().into())));
    let bytes = [&40_000_u32.to_be_bytes()[..], &zlib(long.as_bytes())].concat();
    assert_eq!(body(&message(Kind::Bytes, bytes, true), MOST), Ok(Body::Bytes(long.into())));
    assert_eq!(body(&message(Kind::Object, zlib(b"o"), true), MOST), Ok(Body::Object("o".into())));
}

#[test]
fn a_stream_that_was_flushed_and_not_ended_is_whole() {
    let long = text(&"ha".repeat(20_000));
    let expected = body(&message(Kind::Text, long.clone(), false), MOST).unwrap();
    let content = flushed(&long);
    assert_eq!(body(&message(Kind::Text, content.clone(), true), MOST), Ok(expected));
    // What is cut is told by the length within.
    let cut = &content[..content.len() - 20];
    assert_eq!(body(&message(Kind::Text, cut, true), MOST), Err(DecodeError::Truncated("a text")));
}

#[test]
fn what_is_compressed_has_a_bound() {
    let bomb = zlib(&vec![0; 50 * MOST]);
    assert!(bomb.len() < MOST / 10);
    for kind in [Kind::Text, Kind::Map, Kind::Stream, Kind::Object] {
        let content = message(kind, bomb.clone(), true);
        assert_eq!(body(&content, MOST), Err(DecodeError::Inflated(MOST)), "{kind:?}");
    }
    let bytes = |length: i32| [&length.to_be_bytes()[..], &bomb].concat();
    assert_eq!(body(&message(Kind::Bytes, bytes(3), true), MOST), Err(DecodeError::Inflated(MOST)));
    // At the bound.
    assert!(body(&message(Kind::Object, zlib(&vec![0; MOST]), true), MOST).is_ok());
    assert!(body(&message(Kind::Object, zlib(&vec![0; MOST + 1]), true), MOST).is_err());
}

#[test]
fn nonsense_is_refused() {
    for (kind, content, compressed) in [
        (Kind::Text, &b"\x00\x00\x00\x05hi"[..], false),
        (Kind::Text, b"\xff\xff\xff\xff", false),
        (Kind::Text, b"no zlib", true),
        (Kind::Bytes, b"\x00\x00", true),
        (Kind::Bytes, b"\x00\x00\x00\x02\x78\x9c\x03\x00\x00\x00\x00\x01", true),
        (Kind::Map, b"\x00\x00\x00\x02\x00\x01a\x00", false),
        (Kind::Stream, b"\x0e", false),
    ] {
        assert!(body(&message(kind, content, compressed), MOST).is_err(), "{kind:?} {content:?}");
    }
}
