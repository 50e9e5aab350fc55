use bytes::{Bytes, BytesMut};

use super::hex;
use crate::amqp::codec::{Field, Fields, HeaderDefect, Properties, RawProperties};

/// All fourteen.
const ALL: &str = "fffc  01 61  01 62  00000003 0178 56  02  05  01 63  01 64  01 65  01 66  0000000000000007 \
                   01 67  01 68  01 69  01 6a";

fn write(properties: &Properties) -> Option<Bytes> {
    let mut out = BytesMut::new();
    properties.write(&mut out).map(|()| out.freeze())
}

#[test]
fn all_fourteen_are_found() {
    let raw = RawProperties::parse(hex(ALL)).unwrap();
    assert_eq!(raw.content_type().unwrap(), "a");
    assert_eq!(raw.get(Field::ContentEncoding).unwrap(), "b");
    assert_eq!(raw.headers().unwrap().json(100).unwrap(), r#"{"x":null}"#);
    assert_eq!((raw.delivery_mode(), raw.priority(), raw.timestamp()), (Some(2), Some(5), Some(7)));
    let texts = [
        (Field::CorrelationId, "c"),
        (Field::ReplyTo, "d"),
        (Field::Expiration, "e"),
        (Field::MessageId, "f"),
        (Field::Type, "g"),
        (Field::UserId, "h"),
        (Field::AppId, "i"),
        (Field::ClusterId, "j"),
    ];
    for (field, text) in texts {
        assert_eq!(raw.get(field).unwrap(), text, "{field:?}");
    }
    assert_eq!(raw.message_id().unwrap(), "f");
    assert_eq!(raw.iter().count(), 14);
}

#[test]
fn what_is_absent_is_none_and_what_follows_is_found() {
    let raw = RawProperties::parse(hex("1080 02 01 66")).unwrap();
    assert_eq!((raw.content_type(), raw.headers(), raw.priority()), (None, None, None));
    assert_eq!((raw.delivery_mode(), raw.message_id()), (Some(2), Some("f".into())));
    assert_eq!(RawProperties::parse(hex("0000")).unwrap().iter().count(), 0);
}

#[test]
fn properties_that_do_not_fill_their_frame_are_bad() {
    let whole = hex(ALL);
    for length in 0..whole.len() {
        let bad = RawProperties::parse(whole.slice(..length)).unwrap_err();
        assert_eq!((bad.defect, bad.raw.len()), (HeaderDefect::Length, length));
    }
    let mut more = BytesMut::from(&whole[..]);
    more.extend_from_slice(b"!");
    assert_eq!(RawProperties::parse(more.freeze()).unwrap_err().defect, HeaderDefect::Length);
    for flags in ["0001", "0002", "8003"] {
        assert!(matches!(RawProperties::parse(hex(flags)).unwrap_err().defect, HeaderDefect::Flags(_)));
    }
    // A length of the headers beyond the end, the largest there is included.
    for bad in ["2000 00000001", "2000 ffffffff", "8000 05 61"] {
        assert_eq!(RawProperties::parse(hex(bad)).unwrap_err().defect, HeaderDefect::Length, "{bad}");
    }
}

#[test]
fn properties_are_written_as_the_specification_lays_them_out() {
    let properties = Properties::persistent()
        .with_text(Field::ContentType, "a")
        .with_headers(Fields::new().text("x", "y"))
        .with_timestamp(7);
    assert_eq!(
        write(&properties).unwrap(),
        hex("b040  01 61  00000008 01 78 53 00000001 79  02  0000000000000007")
    );
}

#[test]
fn what_came_can_be_sent_again_with_changes() {
    let raw = RawProperties::parse(hex(ALL)).unwrap();
    assert_eq!(write(&Properties::copy_of(&raw)).unwrap(), hex(ALL));
    let changed = Properties::copy_of(&raw)
        .without(Field::Expiration)
        .without(Field::UserId)
        .with_byte(Field::Priority, 9);
    let again = RawProperties::parse(write(&changed).unwrap()).unwrap();
    assert_eq!(
        (again.get(Field::Expiration), again.get(Field::UserId), again.priority()),
        (None, None, Some(9))
    );
    assert_eq!(again.get(Field::AppId).unwrap(), "i");
}

#[test]
fn what_is_too_long_is_not_written() {
    let long = "x".repeat(256);
    assert!(write(&Properties::new().with_text(Field::MessageId, &long)).is_none());
    assert!(write(&Properties::new().with_text(Field::MessageId, &"x".repeat(255))).is_some());
    assert!(write(&Properties::new().with_headers(Fields::new().text(&long, ""))).is_none());
    assert!(
        write(&Properties::new().with_headers(Fields::new().table("", &Fields::new().int(&long, 1))))
            .is_none()
    );
    assert!(write(&Properties::new().with(Field::Timestamp, Bytes::from_static(b"7"))).is_none());
}
