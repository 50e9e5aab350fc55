//! Lengths, counts and depths that lie, and frames that end anywhere.

use bytes::{BufMut, Bytes, BytesMut};

use super::{framed, golden::DISPATCH, hex};
use crate::{
    About, BrokerId, Command, ConsumerInfo, DEPTH_MOST, DecodeError, DispatchStart, Fields, Kind, Message,
    Throwable, VALUES_MOST, Value, decode, read_map, read_values,
};

#[test]
fn a_frame_may_end_anywhere() {
    let frame = hex(DISPATCH);
    for end in 0..frame.len() {
        assert!(decode(frame.slice(..end)).is_err(), "{end}");
        let _: Result<DispatchStart, _> = DispatchStart::read(frame.slice(..end));
    }
    assert!(decode(frame).is_ok());
}

#[test]
fn any_byte_may_be_any_other() {
    let frame = hex(DISPATCH);
    for place in 0..frame.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut other = frame.to_vec();
            other[place] = value;
            let _: Result<_, _> = decode(other.into());
        }
    }
}

#[test]
fn the_start_of_a_dispatch_says_which_message_it_is() {
    let frame = hex(DISPATCH);
    let start = DispatchStart::read(frame.slice(..150)).unwrap();
    assert_eq!(start.id.to_string(), "ID:p:9:99:1:1");
    assert_eq!(start.destination.to_string(), "queue://g");
    assert_eq!((start.consumer.session, start.consumer.value), (1, 1));
    let nothing = framed(0, false, &Command::Dispatch(Box::default()));
    assert_eq!(DispatchStart::read(nothing), Err(DecodeError::Missing("MessageDispatch.message")));
    assert!(DispatchStart::read(framed(0, false, &Command::KeepAlive)).is_err());
}

#[test]
fn lengths_beyond_the_end_allocate_nothing() {
    // A count of two billion names, a text of two billion bytes, and lists of them.
    for bytes in [
        &b"\x7f\xff\xff\xff"[..],
        b"\x00\x00\x00\x01\x00\x01a\x0d\x7f\xff\xff\xff",
        b"\x00\x00\x00\x01\x00\x01a\x0c\x7f\xff\xff\xff",
        b"\x00\x00\x00\x01\x00\x01a\x0b\x7f\xff\xff\xff",
        b"\x00\x00\x00\x01\x00\x01a\x0a\xff\xff\xff\xf0",
        b"\xff\xff\xff\xfe",
    ] {
        assert!(read_map(Bytes::from_static(bytes)).is_err(), "{bytes:?}");
    }
    assert_eq!(read_map(Bytes::from_static(b"\xff\xff\xff\xff")), Ok(Vec::new()));
    assert_eq!(read_map(Bytes::new()), Ok(Vec::new()));
}

fn lists(depth: usize) -> Bytes {
    let mut bytes = BytesMut::new();
    for _ in 0..depth {
        bytes.put_slice(b"\x0c\x00\x00\x00\x01");
    }
    bytes.put_u8(0);
    bytes.freeze()
}

#[test]
fn depth_has_a_bound() {
    assert!(read_values(lists(DEPTH_MOST)).is_ok());
    assert_eq!(read_values(lists(DEPTH_MOST + 1)), Err(DecodeError::Depth));
    assert_eq!(read_values(lists(1_000_000)), Err(DecodeError::Depth));
}

#[test]
fn the_number_of_values_has_a_bound() {
    let nulls = |count: usize| Bytes::from(vec![0; count]);
    assert_eq!(read_values(nulls(VALUES_MOST)).map(|all| all.len()), Ok(VALUES_MOST));
    assert_eq!(read_values(nulls(VALUES_MOST + 1)), Err(DecodeError::Values));
    // In all lists together.
    let mut lists = BytesMut::new();
    for _ in 0..3 {
        lists.put_u8(12);
        lists.put_u32(30_000);
        lists.put_bytes(0, 30_000);
    }
    assert_eq!(read_values(lists.freeze()), Err(DecodeError::Values));
}

#[test]
fn an_array_is_no_larger_than_what_is_there() {
    let path = vec![BrokerId { value: "b".into() }; 3];
    let info = ConsumerInfo { path, ..ConsumerInfo::default() };
    let frame = framed(1, false, &Command::Consumer(Box::new(info)));
    let place = frame.windows(2).rposition(|pair| pair == [0, 3]).unwrap();
    let mut other = frame.to_vec();
    other[place] = 0xff;
    other[place + 1] = 0xff;
    assert!(decode(other.into()).is_err());
}

#[test]
fn a_message_within_a_message_is_refused() {
    let inner = Command::Message(Box::new(Message { kind: Kind::Text, ..Message::default() }));
    let fields = Fields { about: About(Some(Box::new(inner))), ..Fields::default() };
    let outer = Command::Message(Box::new(Message { kind: Kind::Plain, fields, blob: None }));
    let refused = decode(framed(1, false, &outer));
    assert_eq!(refused, Err(DecodeError::Type { what: "Fields.about", kind: 28 }));
}

#[test]
fn classes_are_text() {
    let exception = Throwable { class: "org.evil.Gadget".into(), message: Some("x".into()) };
    assert_eq!(exception.class_name(), "Gadget");
    assert_eq!(exception.to_string(), "org.evil.Gadget: x");
    assert_eq!(Throwable { class: "NoPackage".into(), message: None }.class_name(), "NoPackage");
}

#[test]
fn what_is_no_openwire_is_told() {
    assert_eq!(decode(Bytes::from_static(b"\x01AMQP\0\x01\0\0\0\0\0\x0c")), Err(DecodeError::Magic));
    assert_eq!(decode(Bytes::new()), Err(DecodeError::Truncated("a command's type")));
    for kind in [0, 7, 13, 33, 40, 90, 200, 255] {
        assert_eq!(decode(vec![kind, 1, 2].into()).unwrap().command, Command::Unknown(kind));
    }
    assert!(read_values(Bytes::from_static(&[14])).is_err());
    assert_eq!(read_values(Bytes::from_static(&[3, 0xd8, 0])), Ok(vec![Value::Char(0xd800)]));
}
