use bytes::Bytes;
use proptest::prelude::*;

use crate::Text;

fn read(bytes: &'static [u8]) -> String {
    Text::raw(Bytes::from_static(bytes)).to_string()
}

#[test]
fn both_encodings_are_read() {
    // As Java writes it, and as ActiveMQ's STOMP connector stores it.
    assert_eq!(read(b"a\xc0\x80b\xed\xa0\xbd\xed\xb8\x80"), "a\0b\u{1f600}");
    assert_eq!(read(b"a\0b\xf0\x9f\x98\x80"), "a\0b\u{1f600}");
    assert_eq!(read(b"\xc0\x80\xf0\x9f\x98\x80\xc3\xa4"), "\0\u{1f600}\u{e4}");
}

#[test]
fn it_is_written_as_java_writes_it() {
    assert_eq!(
        &Text::from("a\0\u{1f600}\u{e4}\u{20ac}").bytes()[..],
        b"a\xc0\x80\xed\xa0\xbd\xed\xb8\x80\xc3\xa4\xe2\x82\xac"
    );
    assert_eq!(&Text::from("\u{fffd}".to_owned()).bytes()[..], b"\xef\xbf\xbd");
}

#[test]
fn what_is_no_text_is_replaced() {
    // Halves of surrogates: one alone, one at the end, two of the same.
    assert_eq!(read(b"\xed\xa0\xbdx"), "\u{fffd}x");
    assert_eq!(read(b"x\xed\xa0\xbd"), "x\u{fffd}");
    assert_eq!(read(b"\xed\xb8\x80\xed\xa0\xbd\xed\xa0\xbd\xed\xb8\x80"), "\u{fffd}\u{fffd}\u{1f600}");
    assert_eq!(read(b"\xff\x80a\xe2\x82"), "\u{fffd}\u{fffd}a\u{fffd}");
    assert_eq!(read(b"\xf8\x88\x80\x80\x80"), "\u{fffd}".repeat(5));
}

proptest! {
    #[test]
    fn any_text_survives(text in any::<String>()) {
        let read = Text::from(text.as_str());
        prop_assert_eq!(read.decoded(), text.as_str());
        prop_assert_eq!(&read.utf8(), text.as_bytes());
        prop_assert_eq!(Text::from(text), read);
    }

    #[test]
    fn any_bytes_are_some_text(bytes in any::<Vec<u8>>()) {
        let utf8 = Text::raw(Bytes::from(bytes)).utf8();
        prop_assert!(std::str::from_utf8(&utf8).is_ok());
    }
}
