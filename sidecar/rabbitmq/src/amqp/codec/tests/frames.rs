use bytes::{Bytes, BytesMut};

use super::hex;
use crate::amqp::codec::{Frame, FrameReader, Kind, Malformed, frame, frame::HEADER_MOST};

const MOST: u32 = 4096;

/// All frames of a stream that comes in pieces of `piece` bytes.
fn read(stream: &[u8], piece: usize) -> Result<Vec<Frame>, Malformed> {
    let mut reader = FrameReader::new(MOST);
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    for piece in stream.chunks(piece) {
        buffer.extend_from_slice(piece);
        while let Some(frame) = reader.next(&mut buffer)? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

fn whole(kind: Kind, channel: u16, payload: &[u8]) -> Frame {
    Frame::Whole { kind, channel, payload: Bytes::copy_from_slice(payload) }
}

#[test]
fn frames_come_in_any_pieces() {
    let stream = hex("01 0000 00000004 000a 0029 ce  08 0000 00000000 ce  03 0102 00000003 616263 ce");
    for piece in [1, 2, 3, 7, 11, 100] {
        let frames = read(&stream, piece).unwrap();
        let expected = [
            whole(Kind::Method, 0, &[0, 10, 0, 41]),
            whole(Kind::Heartbeat, 0, &[]),
            whole(Kind::Body, 0x0102, b"abc"),
        ];
        assert_eq!(frames, expected, "pieces of {piece}");
    }
}

#[test]
fn what_is_written_is_read() {
    let mut out = BytesMut::new();
    frame(&mut out, Kind::Header, 3, |out| out.extend_from_slice(b"xyz"));
    assert_eq!(out, hex("02 0003 00000003 78797a ce"));
    assert_eq!(read(&out, 100).unwrap(), [whole(Kind::Header, 3, b"xyz")]);
}

#[test]
fn a_body_is_a_slice_of_what_was_read() {
    let mut buffer = BytesMut::from(&hex("03 0001 00000003 616263 ce")[..]);
    let place = buffer.as_ptr() as usize;
    let Ok(Some(Frame::Whole { payload, .. })) = FrameReader::new(MOST).next(&mut buffer) else { panic!() };
    assert_eq!(payload.as_ptr() as usize, place + 7);
}

#[test]
fn what_is_no_frame_ends_the_connection() {
    let cases = [
        ("02 0001 00000001 61 cf", Malformed::FrameEnd(0xCF)),
        ("04", Malformed::FrameType(4)),
        ("00", Malformed::FrameType(0)),
        ("16", Malformed::FrameType(0x16)),
        // The header of a broker that speaks AMQP 1.0 only.
        ("414d5150 00010000", Malformed::Protocol),
        ("01 0000 00000ff9", Malformed::FrameSize { size: 4089, most: MOST }),
        ("03 0000 ffffffff", Malformed::FrameSize { size: u32::MAX, most: MOST }),
        ("08 0000 00010000", Malformed::FrameSize { size: 65536, most: MOST }),
    ];
    for (bytes, expected) in cases {
        for piece in [1, 100] {
            assert_eq!(read(&hex(bytes), piece).unwrap_err(), expected, "{bytes}");
        }
    }
}

#[test]
fn a_frame_of_the_largest_size_is_read() {
    let mut out = BytesMut::new();
    frame(&mut out, Kind::Body, 1, |out| out.resize(out.len() + 4088, 7));
    assert_eq!(out.len(), MOST as usize);
    assert_eq!(read(&out, 1000).unwrap().len(), 1);
}

#[test]
fn a_header_frame_may_be_longer_than_was_agreed() {
    let mut out = BytesMut::new();
    frame(&mut out, Kind::Header, 1, |out| out.resize(out.len() + 25_046, 7));
    assert_eq!(read(&out, 5000).unwrap(), [whole(Kind::Header, 1, &[7; 25_046])]);
}

#[test]
fn a_header_frame_beyond_the_bound_is_dropped_and_the_next_frame_is_read() {
    let size = HEADER_MOST + 77;
    let mut out = BytesMut::new();
    frame(&mut out, Kind::Header, 1, |out| {
        out.extend_from_slice(b"twelve bytes");
        out.resize(7 + size as usize, 7);
    });
    frame(&mut out, Kind::Body, 1, |out| out.extend_from_slice(b"next"));
    let start = Bytes::from_static(b"twelve bytes");
    for piece in [3, 4096, usize::MAX] {
        let frames = read(&out, piece).unwrap();
        let expected =
            [Frame::LongHeader { channel: 1, start: start.clone(), size }, whole(Kind::Body, 1, b"next")];
        assert_eq!(frames, expected);
    }
    // Its end is looked at too.
    out[7 + size as usize] = 0;
    assert_eq!(read(&out, 4096).unwrap_err(), Malformed::FrameEnd(0));
}

#[test]
fn nothing_is_kept_of_a_dropped_header() {
    let mut reader = FrameReader::new(MOST);
    let mut buffer = BytesMut::from(&hex("02 0001 7fffffff 003c 0000 0000000000000005")[..]);
    assert!(matches!(reader.next(&mut buffer), Ok(Some(Frame::LongHeader { size: 0x7FFF_FFFF, .. }))));
    for _ in 0..100 {
        buffer.extend_from_slice(&[0; 1000]);
        assert_eq!(reader.next(&mut buffer), Ok(None));
        assert!(buffer.is_empty());
    }
}

#[test]
fn room_is_asked_for_what_is_known_to_come() {
    let reader = FrameReader::new(MOST);
    assert_eq!(reader.missing(&hex("03 0001 00000f00")), 0xf00 + 1);
    assert_eq!(reader.missing(&hex("03 0001 0000")), 0);
    assert_eq!(reader.missing(&hex("02 0001 7fffffff")), 0);
}
