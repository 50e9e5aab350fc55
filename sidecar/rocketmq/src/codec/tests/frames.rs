use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::hex;
use crate::codec::{Command, Fields, FrameError, HeaderEncoding, Language, MAX_FRAME, decode, encode};

fn encoded(command: &Command, encoding: HeaderEncoding) -> BytesMut {
    let mut out = BytesMut::new();
    encode(command, encoding, &mut out).unwrap();
    out
}

fn refused(bytes: &[u8]) -> FrameError {
    decode(&mut BytesMut::from(bytes)).unwrap_err()
}

#[test]
fn the_golden_binary_header() {
    let golden = hex("000b0c01d90000000700000000000000000000001a0005746f7069630000000154000771756575654964\
         0000000133");
    assert_eq!(golden.len(), 47);
    let mut command = Command::request(11).field("topic", "T").field("queueId", 3);
    command.opaque = 7;
    let frame = encoded(&command, HeaderEncoding::Binary);
    assert_eq!(frame[..8], hex("000000330100002f"));
    assert_eq!(frame[8..], golden);
    assert_eq!(decode(&mut { frame }).unwrap(), Some(command));
}

#[test]
fn the_golden_frame_of_a_json_header() {
    let header = r#"{"code":0,"language":"JAVA","version":473,"opaque":7,"flag":1 }"#;
    assert_eq!(header.len(), 63);
    let mut frame = BytesMut::from(&hex("000000450000003f")[..]);
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(b"ok");
    let command = decode(&mut frame).unwrap().unwrap();
    assert!(command.is_response());
    assert_eq!((command.language, command.fields.len(), command.remark), (Language(0), 0, None));
    assert_eq!(&command.body[..], b"ok");
    assert!(frame.is_empty());
}

#[test]
fn a_json_request_has_all_that_servers_want() {
    let command = Command::request(14).field("queueId", 3).field("topic", "T");
    let frame = encoded(&command, HeaderEncoding::Json);
    let header: serde_json::Value = serde_json::from_slice(&frame[8..]).unwrap();
    let expected = serde_json::json!({
        "code": 14, "extFields": {"queueId": "3", "topic": "T"}, "flag": 0, "language": "RUST",
        "opaque": 0, "serializeTypeCurrentRPC": "JSON", "version": 473,
    });
    assert_eq!(header, expected);
}

#[test]
fn a_body_is_a_slice_of_the_receive_buffer() {
    let body = Bytes::from(vec![7; 1000]);
    let mut buffer = encoded(&Command::response(0, 1).body(body), HeaderEncoding::Json);
    let range = buffer.as_ptr_range();
    let command = decode(&mut buffer).unwrap().unwrap();
    assert!(range.contains(&command.body.as_ptr()));
}

#[test]
fn frames_come_in_any_pieces() {
    let mut stream = BytesMut::new();
    for opaque in 0..3 {
        let command = Command::response(0, opaque).field("offset", opaque).body(vec![b'x'; 50]);
        encode(&command, HeaderEncoding::Json, &mut stream).unwrap();
    }
    let mut buffer = BytesMut::new();
    let mut seen = Vec::new();
    for byte in stream {
        buffer.extend_from_slice(&[byte]);
        seen.extend(decode(&mut buffer).unwrap().map(|command| command.opaque));
    }
    assert_eq!(seen, [0, 1, 2]);
    assert!(buffer.is_empty());
}

#[test]
fn lengths_are_checked_before_anything_is_waited_for() {
    assert_eq!(refused(&[0, 0, 0, 3]), FrameError::Length(3));
    assert_eq!(refused(&[0xff; 4]), FrameError::Length(u32::MAX));
    assert_eq!(refused(&hex("01000001")), FrameError::Length(MAX_FRAME as u32 + 1));
    assert_eq!(refused(&hex("0000000800000005")), FrameError::HeaderLength { header: 5, frame: 8 });
    assert_eq!(
        refused(&hex("00ffffff00fffff0")),
        FrameError::HeaderLength { header: 0xff_fff0, frame: 0xff_ffff }
    );
    assert_eq!(refused(&hex("0000000402000000")), FrameError::HeaderForm(2));
    assert_eq!(decode(&mut BytesMut::from(&hex("01000000")[..])), Ok(None));
}

#[test]
fn headers_that_are_no_commands_are_refused() {
    let json = |header: &str| {
        let mut frame = BytesMut::new();
        frame.extend_from_slice(&(header.len() as u32 + 4).to_be_bytes());
        frame.extend_from_slice(&(header.len() as u32).to_be_bytes());
        frame.extend_from_slice(header.as_bytes());
        refused(&frame)
    };
    assert_eq!(json("{}"), FrameError::Member("code"));
    assert_eq!(json(r#"{"code":1}"#), FrameError::Member("opaque"));
    assert_eq!(json(r#"{"code":99999999999,"opaque":1,"flag":1}"#), FrameError::Member("code"));
    assert_eq!(json(r#"{"code":1,"opaque":1,"flag":1,"extFields":[]}"#), FrameError::Member("extFields"));
    assert!(matches!(json("{"), FrameError::Json(_)));
    let members: Vec<_> = (0..1025).map(|n| format!(r#""k{n}":"v""#)).collect();
    let many = format!(r#"{{"code":1,"opaque":1,"flag":1,"extFields":{{{}}}}}"#, members.join(","));
    assert_eq!(json(&many), FrameError::Fields);
}

#[test]
fn a_binary_header_may_not_end_inside_a_value() {
    let mut command = Command::request(11).field("topic", "T").remark("hi");
    command.opaque = 7;
    let whole = encoded(&command, HeaderEncoding::Binary);
    for cut in 8..whole.len() {
        let header = (cut - 8) as u32;
        let mut frame = BytesMut::from(&whole[..cut]);
        frame[..4].copy_from_slice(&(header + 4).to_be_bytes());
        frame[4..8].copy_from_slice(&(header | 1 << 24).to_be_bytes());
        assert!(matches!(refused(&frame), FrameError::Binary(_)), "cut at {cut}");
    }
}

#[test]
fn tolerated_oddities_of_json_headers() {
    let header = r#"{"code":21,"extFields":{"a":null,"b":12,"c":true,"d":"x"},"opaque":-5,"flag":1,
        "unknown":{"deep":[1,2,{}]},"language":"KLINGON","remark":null}"#;
    let mut frame = BytesMut::new();
    frame.extend_from_slice(&(header.len() as u32 + 4).to_be_bytes());
    frame.extend_from_slice(&(header.len() as u32).to_be_bytes());
    frame.extend_from_slice(header.as_bytes());
    let command = decode(&mut frame).unwrap().unwrap();
    let fields: Vec<_> = command.fields.iter().collect();
    assert_eq!(fields, [("b", "12"), ("c", "true"), ("d", "x")]);
    assert_eq!((command.opaque, command.language, command.version), (-5, Language::OTHER, 0));
}

#[test]
fn what_does_not_fit_is_not_written() {
    let mut out = BytesMut::from(&b"before"[..]);
    let large = Command::request(310).body(vec![0; MAX_FRAME]);
    assert_eq!(encode(&large, HeaderEncoding::Json, &mut out), Err(FrameError::TooLarge("body")));
    let pop = Command::request(200_050);
    let error = encode(&pop, HeaderEncoding::Binary, &mut out).unwrap_err();
    assert_eq!(error, FrameError::TooLarge("code for a binary header"));
    assert_eq!(&out[..], b"before");
}

fn commands() -> impl Strategy<Value = Command> {
    let fields = prop::collection::vec(("[a-zA-Z0-9_]{1,12}", "\\PC{1,30}"), 0..8);
    let numbers = (any::<i16>(), 0_u8..14, 0_i16..600, any::<i32>(), 0..4_i32);
    let body = prop::collection::vec(any::<u8>(), 0..300);
    let remark = prop::option::of("\\PC{1,40}");
    (numbers, fields, remark, body).prop_map(
        |((code, language, version, opaque, flag), pairs, remark, body)| {
            let mut fields = Fields::default();
            for (name, value) in pairs {
                fields.push(name, value);
            }
            Command {
                code: code.into(),
                language: Language(language),
                version: version.into(),
                opaque,
                flag,
                remark,
                fields,
                body: body.into(),
            }
        },
    )
}

fn encodings() -> impl Strategy<Value = HeaderEncoding> {
    prop_oneof![Just(HeaderEncoding::Json), Just(HeaderEncoding::Binary)]
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(command in commands(), encoding in encodings()) {
        let mut buffer = encoded(&command, encoding);
        prop_assert_eq!(decode(&mut buffer), Ok(Some(command)));
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn mutated_frames_do_no_harm(
        command in commands(),
        encoding in encodings(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut buffer = encoded(&command, encoding);
        for (at, byte) in changes {
            let at = at.index(buffer.len());
            buffer[at] = byte;
        }
        let whole = buffer.len();
        if let Ok(Some(command)) = decode(&mut buffer) {
            prop_assert!(command.body.len() < whole);
        }
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut buffer = BytesMut::from(&bytes[..]);
        while let Ok(Some(_)) = decode(&mut buffer) {}
    }
}
