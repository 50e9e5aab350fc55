use bytes::{Bytes, BytesMut};

use super::hex;
use crate::amqp::codec::{
    Answer, Call, ChannelMethod, Closed, ConnectionCall, ConnectionMethod, ContentHead, ContentMethod,
    Malformed, Method, Table,
};

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// What a broker sends, as the specification lays it out.
fn golden() -> Vec<(&'static str, Method)> {
    use ChannelMethod::{Ack, Cancel, Close, CloseOk, Flow, Nack};
    use ConnectionMethod::{Blocked, OpenOk, Start, Tune, Unblocked};
    let closed = |code, words| Closed { code, text: text(words), class: 60, method: 20 };
    vec![
        (
            "000a 000a 00 09 00000003 01 61 56 00000005 504c41494e 00000005 656e5f5553",
            Method::Connection(Start {
                properties: Table::from_raw(hex("016156")),
                mechanisms: text("PLAIN"),
            }),
        ),
        (
            "000a 001e 07ff 00020000 003c",
            Method::Connection(Tune { channels: 2047, frame: 131_072, heartbeat: 60 }),
        ),
        ("000a 0029 00", Method::Connection(OpenOk)),
        (
            "000a 0032 0140 03 627965 003c 0014",
            Method::Connection(ConnectionMethod::Close(closed(320, "bye"))),
        ),
        ("000a 0033", Method::Connection(ConnectionMethod::CloseOk)),
        ("000a 003c 03 6c6f77", Method::Connection(Blocked { reason: text("low") })),
        ("000a 003d", Method::Connection(Unblocked)),
        ("0014 000b 00000000", Method::Answer(Answer::ChannelOpen)),
        ("0014 0014 01", Method::Channel(Flow { active: true })),
        ("0014 0028 0194 02 6e6f 003c 0014", Method::Channel(Close(closed(404, "no")))),
        ("0014 0029", Method::Channel(CloseOk)),
        ("0032 000b 01 71 00000007 00000002", Method::Answer(Answer::Declare { messages: 7, consumers: 2 })),
        ("0032 0029 00000007", Method::Answer(Answer::Delete)),
        ("003c 000b", Method::Answer(Answer::Qos)),
        ("003c 0015 01 74", Method::Answer(Answer::Consume)),
        ("003c 001e 01 74 01", Method::Channel(Cancel { tag: text("t"), no_wait: true })),
        ("003c 001f 01 74", Method::Answer(Answer::Cancel)),
        (
            "003c 0032 0138 08 4e4f5f524f555445 00 01 6b",
            Method::Content(ContentMethod::Return {
                code: 312,
                text: text("NO_ROUTE"),
                exchange: text(""),
                routing_key: text("k"),
            }),
        ),
        (
            "003c 003c 01 74 0000000000000009 01 02 6578 01 6b",
            Method::Content(ContentMethod::Deliver {
                tag: 9,
                redelivered: true,
                exchange: text("ex"),
                routing_key: text("k"),
            }),
        ),
        ("003c 0050 0000000000000003 01", Method::Channel(Ack { tag: 3, multiple: true })),
        ("003c 0078 0000000000000003 00", Method::Channel(Nack { tag: 3, multiple: false })),
        ("0055 000b", Method::Answer(Answer::Select)),
    ]
}

#[test]
fn methods_are_read_as_the_specification_lays_them_out() {
    for (bytes, expected) in golden() {
        assert_eq!(Method::parse(hex(bytes)).unwrap(), expected, "{bytes}");
    }
}

#[test]
fn a_method_that_is_cut_anywhere_is_refused_or_needs_nothing_more() {
    for (bytes, expected) in golden() {
        let whole = hex(bytes);
        for length in 0..whole.len() {
            match Method::parse(whole.slice(..length)) {
                // Trailing arguments that are not needed, such as a message count.
                Ok(method) => {
                    assert!(length >= 4 && method == expected, "{bytes} cut to {length}: {method:?}")
                }
                Err(Malformed::Method { .. }) => {}
                Err(error) => panic!("{bytes} cut to {length}: {error}"),
            }
        }
    }
}

#[test]
fn methods_that_no_broker_sends_are_refused() {
    // connection.secure, connection.open, basic.get-ok, basic.publish, tx.select-ok, class 0.
    for bytes in ["000a 0014 00000000", "000a 0028 00", "003c 0047", "003c 0028", "005a 000b", "0000 0000"] {
        assert!(matches!(Method::parse(hex(bytes)), Err(Malformed::Unexpected { .. })), "{bytes}");
    }
}

fn call(call: Call<'_>) -> Bytes {
    let mut out = BytesMut::new();
    call.write(1, &mut out).unwrap();
    out.freeze()
}

fn connection_call(call: ConnectionCall<'_>) -> Bytes {
    let mut out = BytesMut::new();
    call.write(&mut out).unwrap();
    out.freeze()
}

#[test]
fn calls_are_written_as_the_specification_lays_them_out() {
    let start =
        ConnectionCall::StartOk { properties: &[1, b'a', b'V'], mechanism: "PLAIN", response: b"\0u\0p" };
    let tune = ConnectionCall::TuneOk { channels: 2047, frame: 131_072, heartbeat: 10 };
    let connection = [
        (
            start,
            "01 0000 0000001f 000a 000b 00000003 016156 05 504c41494e 00000004 00750070 05 656e5f5553 ce",
        ),
        (tune, "01 0000 0000000c 000a 001f 07ff 00020000 000a ce"),
        (ConnectionCall::Open { vhost: "/" }, "01 0000 00000008 000a 0028 01 2f 00 00 ce"),
        (ConnectionCall::Close, "01 0000 0000000b 000a 0032 00c8 00 0000 0000 ce"),
        (ConnectionCall::CloseOk, "01 0000 00000004 000a 0033 ce"),
    ];
    for (method, expected) in connection {
        assert_eq!(connection_call(method), hex(expected), "{method:?}");
    }
    let declare = Call::Declare { queue: "q", passive: true, durable: true, arguments: &[] };
    let publish = Call::Publish { exchange: "", routing_key: "k", mandatory: true };
    let calls = [
        (Call::Open, "01 0001 00000005 0014 000a 00 ce"),
        (Call::FlowOk { active: true }, "01 0001 00000005 0014 0015 01 ce"),
        (Call::Close, "01 0001 0000000b 0014 0028 00c8 00 0000 0000 ce"),
        (Call::CloseOk, "01 0001 00000004 0014 0029 ce"),
        (declare, "01 0001 0000000d 0032 000a 0000 01 71 03 00000000 ce"),
        (Call::Delete { queue: "q" }, "01 0001 00000009 0032 0028 0000 01 71 00 ce"),
        (Call::Qos { prefetch: 8 }, "01 0001 0000000b 003c 000a 00000000 0008 00 ce"),
        (
            Call::Consume { queue: "q", tag: "t", arguments: &[1, b'a', b'V'] },
            "01 0001 00000012 003c 0014 0000 01 71 01 74 00 00000003 016156 ce",
        ),
        (Call::Cancel { tag: "t" }, "01 0001 00000007 003c 001e 01 74 00 ce"),
        (Call::CancelOk { tag: b"t" }, "01 0001 00000006 003c 001f 01 74 ce"),
        (publish, "01 0001 0000000a 003c 0028 0000 00 01 6b 01 ce"),
        (Call::Ack { tag: 5, multiple: true }, "01 0001 0000000d 003c 0050 0000000000000005 01 ce"),
        (Call::Reject { tag: 5, requeue: false }, "01 0001 0000000d 003c 005a 0000000000000005 00 ce"),
        (Call::Nack { tag: 5, requeue: true }, "01 0001 0000000d 003c 0078 0000000000000005 02 ce"),
        (Call::Select, "01 0001 00000005 0055 000a 00 ce"),
    ];
    for (method, expected) in calls {
        assert_eq!(call(method), hex(expected), "{method:?}");
    }
}

#[test]
fn what_is_too_long_for_its_length_writes_nothing() {
    let long = "x".repeat(256);
    let mut out = BytesMut::from(&b"before"[..]);
    assert!(Call::Cancel { tag: &long }.write(1, &mut out).is_none());
    assert!(
        Call::Publish { exchange: "", routing_key: &long, mandatory: false }.write(1, &mut out).is_none()
    );
    assert!(ConnectionCall::Open { vhost: &long }.write(&mut out).is_none());
    assert_eq!(&out[..], b"before");
    assert!(Call::Cancel { tag: &"x".repeat(255) }.write(1, &mut out).is_some());
}

#[test]
fn a_content_header_is_of_class_basic() {
    let head = ContentHead::parse(hex("003c 0000 0000000000000102 1000 02")).unwrap();
    assert_eq!((head.size, head.properties), (0x102, hex("100002")));
    for bad in ["003d 0000 0000000000000102 1000 02", "003c 0000 00000000000001", ""] {
        assert!(ContentHead::parse(hex(bad)).is_err(), "{bad}");
    }
}
