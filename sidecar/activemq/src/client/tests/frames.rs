use bytes::{Bytes, BytesMut};

use super::server::sized;
use crate::client::{
    ClientError,
    frames::{Frame, FrameReader, LongFrame},
};

/// All frames of what comes in pieces of that size.
fn read(mut reader: FrameReader, bytes: &[u8], size: usize) -> Result<Vec<Frame>, ClientError> {
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    for piece in bytes.chunks(size) {
        buffer.extend_from_slice(piece);
        while let Some(frame) = reader.next(&mut buffer)? {
            frames.push(frame);
        }
    }
    assert!(buffer.is_empty(), "{} bytes are left", buffer.len());
    Ok(frames)
}

#[test]
fn what_is_too_long_is_dropped_but_for_its_ends() {
    let body: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    let long = |length: usize| {
        let body = &body[..length];
        let start = Bytes::copy_from_slice(&body[..(64 * 1024).min(length - 4)]);
        let tail = *body.last_chunk().unwrap();
        Frame::Long(LongFrame { size: length as u64, start, tail })
    };
    for length in [101, 65_535, 65_536, 65_537, 65_540, 65_541, 200_000] {
        let input = [sized(&body[..100]), sized(&body[..length]), sized(b"x")].concat();
        for size in [1, 7, 65_536, 1_000_000] {
            let frames = read(FrameReader::new(100), &input, size).unwrap();
            let whole = |bytes: &[u8]| Frame::Whole(Bytes::copy_from_slice(bytes));
            assert_eq!(frames, [whole(&body[..100]), long(length), whole(b"x")], "{length} by {size}");
        }
    }
}

#[test]
fn what_is_no_frame_is_told_at_its_size() {
    for prefix in [0_u32, 0x8000_0000, 0xffff_ffff] {
        let error = read(FrameReader::new(100), &prefix.to_be_bytes(), 4).unwrap_err();
        assert!(matches!(error, ClientError::Protocol(_)), "{error}");
    }
    let error = read(FrameReader::strict(100), &[0, 0, 0, 101], 4).unwrap_err();
    assert!(matches!(error, ClientError::Protocol(_)), "{error}");
}

#[test]
fn what_is_missing_is_known_when_the_size_is() {
    let reader = FrameReader::new(100);
    for (buffer, missing) in [(&[0, 0, 0][..], 1), (&[0, 0, 0, 100], 100), (&[0, 0, 0, 2, 9], 1)] {
        assert_eq!(reader.missing(buffer), missing, "{buffer:?}");
    }
    // Of one that is too long no more than its start is wanted at once, whatever it is said to be.
    assert_eq!(reader.missing(&[0x7f, 0xff, 0xff, 0xff]), 64 * 1024);
}
