//! Frames that Java's marshallers write, byte for byte.

use std::time::Duration;

use bytes::Bytes;

use super::{framed, hex};
use crate::{
    AckType, Body, Command, ConnectionId, ConnectionInfo, ConsumerId, ConsumerInfo, Destination, Frame, Kind,
    MessageAck, MessageId, MessagePull, ProducerId, RemoveInfo, Removed, SessionId, Value, WireFormatInfo,
    body, decode,
};

fn connection() -> ConnectionId {
    ConnectionId { value: "ID:t:1".into() }
}

fn consumer() -> ConsumerId {
    ConsumerId { connection: "ID:t:1".into(), session: 1, value: 1 }
}

fn both_ways(number: i32, answer: bool, command: Command, digits: &str) {
    let frame = hex(digits);
    let size = u32::from_be_bytes(frame[..4].try_into().unwrap());
    assert_eq!(usize::try_from(size), Ok(frame.len() - 4));
    let written = framed(number, answer, &command);
    assert_eq!(written, frame.slice(4..), "{written:x?}");
    assert_eq!(decode(frame.slice(4..)), Ok(Frame { number, answer, command }));
}

#[test]
fn what_is_said_first() {
    let properties = [
        ("TightEncodingEnabled", Value::Bool(false)),
        ("CacheEnabled", Value::Bool(false)),
        ("MaxInactivityDuration", Value::Long(30_000)),
    ];
    let properties = properties.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let info = WireFormatInfo { version: 12, properties };
    assert_eq!((info.inactivity(), info.frame_most()), (Some(Duration::from_secs(30)), None));
    both_ways(
        0,
        false,
        Command::WireFormat(info),
        "0000005e014163746976654d510000000c010000004c0000000300145469676874456e636f64696e67456e61626c65640100000c43616368
         65456e61626c6564010000154d6178496e61637469766974794475726174696f6e060000000000007530",
    );
}

#[test]
fn a_connection_and_its_session() {
    let info = ConnectionInfo {
        id: connection(),
        client: Some("c1".into()),
        password: Some("pw".into()),
        user: Some("u".into()),
        manageable: true,
        client_master: true,
        ..ConnectionInfo::default()
    };
    both_ways(
        1,
        true,
        Command::Connection(info),
        "00000026030000000101017801000649443a743a31010002633101000270770100017500000101000000",
    );
    both_ways(
        2,
        true,
        Command::Session(SessionId { connection: "ID:t:1".into(), value: 1 }),
        "00000019040000000201017901000649443a743a310000000000000001",
    );
}

#[test]
fn a_consumer_and_its_pull() {
    let info = ConsumerInfo {
        id: consumer(),
        destination: Some(Destination::queue("q")),
        prefetch: 1,
        dispatch_async: true,
        ..ConsumerInfo::default()
    };
    both_ways(
        3,
        true,
        Command::Consumer(Box::new(info)),
        "0000003e050000000301017a01000649443a743a3100000000000000010000000000000001000164010001710000000100000000010000000000
         0000000000000000",
    );
    let pull = MessagePull {
        consumer: consumer(),
        destination: Some(Destination::queue("q")),
        timeout: 5_000,
        ..MessagePull::default()
    };
    both_ways(
        4,
        false,
        Command::Pull(pull),
        "00000031140000000400017a01000649443a743a310000000000000001000000000000000101640100017100000000000013880000",
    );
}

#[test]
fn an_acknowledgement() {
    let id = MessageId {
        text: None,
        producer: ProducerId { connection: "ID:p:1".into(), value: 1, session: 1 },
        producer_sequence: 7,
        broker_sequence: 42,
    };
    assert_eq!(id.to_string(), "ID:p:1:1:1:7");
    let ack = MessageAck {
        destination: Some(Destination::queue("q")),
        consumer: consumer(),
        kind: AckType::Standard,
        first: Some(id.clone()),
        last: Some(id),
        count: 1,
        ..MessageAck::default()
    };
    both_ways(
        5,
        true,
        Command::Ack(Box::new(ack)),
        "0000008a16000000050101640100017100017a01000649443a743a310000000000000001000000000000000102016e00017b01000649443a703a
         31000000000000000100000000000000010000000000000007000000000000002a016e00017b01000649443a703a3100000000000000010000
         0000000000010000000000000007000000000000002a0000000100",
    );
}

#[test]
fn the_end() {
    let id = Some(Removed::Consumer(consumer()));
    both_ways(
        7,
        true,
        Command::Remove(RemoveInfo { id, last_delivered: 42 }),
        "000000290c0000000701017a01000649443a743a3100000000000000010000000000000001000000000000002a",
    );
    both_ways(0, false, Command::KeepAlive, "000000060a0000000000");
    both_ways(8, false, Command::Shutdown, "000000060b0000000800");
}

/// From Classic 5.17.2: the text `hi` with one property.
#[test]
fn a_message_that_a_broker_handed_over() {
    let frame = hex(DISPATCH);
    let decoded = decode(frame.clone()).unwrap();
    let Command::Dispatch(dispatch) = &decoded.command else { panic!("{decoded:?}") };
    assert_eq!(dispatch.destination, Some(Destination::queue("g")));
    let message = dispatch.message.as_ref().unwrap();
    assert_eq!((message.kind, message.fields.correlation.clone()), (Kind::Text, Some("cc".into())));
    assert_eq!((message.fields.timestamp, message.fields.priority), (1_796_028_135_684, 4));
    assert_eq!(body(message, 100), Ok(Body::Text("hi".into())));
    assert_eq!(message.properties(), Ok(vec![("k".into(), "v".into())]));
    // The producer's own header of the message is not kept.
    let mut expected = frame.to_vec();
    let place = expected.iter().position(|byte| *byte == 0x1c).unwrap();
    expected[place + 1..place + 6].fill(0);
    assert_eq!(framed(decoded.number, decoded.answer, &decoded.command), expected);
}

/// See above.
pub(super) const DISPATCH: &str = "150000000000017a01000649443a743a3900000000000000010000000000000001016401000167011c0000000401
    017b01000649443a703a39000000000000000100000000000000630164010001670000016e00017b01000649443a703a3900000000000000010000
    000000000063000000000000000100000000000004ea00000000000001000263630100000000000000000400000001a22b9e790400010000000600
    0000026869010000000b0000000100016b090001760000000000000000000000000000000000010000000001a22b9e7904000001a22b9e79070000
    000000";

#[test]
fn nothing_is_copied() {
    let frame = hex(DISPATCH);
    let Command::Dispatch(dispatch) = decode(frame.clone()).unwrap().command else { panic!() };
    let message = dispatch.message.unwrap();
    let inside = |bytes: &Bytes| frame.as_ptr_range().contains(&bytes.as_ptr());
    let Body::Text(text) = body(&message, 100).unwrap() else { panic!() };
    assert!(
        inside(text.bytes()) && inside(&text.utf8()) && inside(message.fields.id.producer.connection.bytes())
    );
}
