//! What the fuzz targets run: each decoder on any bytes, with its bounds as assertions. Also run by a test on the seed
//! corpus, so that the seeds hold without a fuzzer.

#![allow(clippy::panic, clippy::missing_panics_doc, reason = "a broken bound must end the fuzzer")]

use bytes::{Bytes, BytesMut};

use lockstep_model::{Position, QueueId};

use crate::{
    KeySource,
    codec::{
        self, BodyLimits, Command, Entry, FrameError, HeaderEncoding, StoredMessages,
        lenient::{self, Value},
    },
    protocol::SubscriptionData,
    reader::decode,
};

/// Small bounds, so that a bomb shows at once.
const LIMITS: BodyLimits = BodyLimits { max_bytes: 1 << 20, max_ratio: 100, always: 1 << 16 };

/// A stream of frames in pieces: the first byte says how large the pieces are.
pub fn frame(data: &[u8]) {
    let Some((piece, stream)) = data.split_first() else { return };
    let mut buffer = BytesMut::new();
    let mut taken = 0;
    for piece in stream.chunks(usize::from(*piece) + 1) {
        buffer.extend_from_slice(piece);
        loop {
            let before = buffer.len();
            match codec::decode(&mut buffer) {
                Ok(Some(command)) => {
                    taken += before - buffer.len();
                    assert!(command.body.len() < before, "a body is a part of its frame");
                    check_fields(&command, before);
                }
                Ok(None) => {
                    assert_eq!(before, buffer.len(), "what is incomplete stays");
                    break;
                }
                Err(_) => return,
            }
        }
    }
    assert_eq!(taken + buffer.len(), stream.len(), "every byte is in a frame or waits");
}

/// One header: the first byte says in which form.
pub fn header(data: &[u8]) {
    let Some((form, header)) = data.split_first() else { return };
    let Ok(length) = u32::try_from(header.len()) else { return };
    let mut buffer = BytesMut::new();
    buffer.extend_from_slice(&length.saturating_add(4).to_be_bytes());
    buffer.extend_from_slice(&(u32::from(form & 1) << 24 | length).to_be_bytes());
    buffer.extend_from_slice(header);
    let Ok(Some(command)) = codec::decode(&mut buffer) else { return };
    check_fields(&command, header.len());
    for encoding in [HeaderEncoding::Json, HeaderEncoding::Binary] {
        check_round_trip(&command, encoding);
    }
}

/// What was read can be written, and is read again as it was.
fn check_round_trip(command: &Command, encoding: HeaderEncoding) {
    let mut out = BytesMut::new();
    match codec::encode(command, encoding, &mut out) {
        Ok(()) => {}
        Err(FrameError::TooLarge(_)) => return,
        Err(error) => panic!("a command that was read can't be written: {error}"),
    }
    let again = codec::decode(&mut out);
    let Ok(Some(again)) = again else { panic!("what was written can't be read: {again:?}") };
    assert_eq!((again.code, again.opaque, again.flag), (command.code, command.opaque, command.flag));
    // The binary form can't hold empty values.
    let kept = |value: &str| encoding == HeaderEncoding::Json || !value.is_empty();
    let expected = command.fields.iter().filter(|(_, value)| kept(value));
    assert!(again.fields.iter().eq(expected), "the fields are the same");
}

fn check_fields(command: &Command, input: usize) {
    // Each replaced byte makes three, and an escaped one takes more than it makes.
    let bytes: usize = command.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(bytes <= 3 * input, "fields of {bytes} bytes out of {input}");
    assert!(command.fields.len() <= 1024);
}

/// A document.
pub fn lenient_json(data: &[u8]) {
    let Ok(value) = lenient::parse(data) else { return };
    let (values, bytes) = weigh(&value, 0);
    assert!(values <= lenient::MAX_VALUES.min(data.len()), "{values} values out of {} bytes", data.len());
    assert!(bytes <= 3 * data.len(), "{bytes} bytes of text out of {}", data.len());
}

/// How many values there are, and how much text is in them.
fn weigh(value: &Value<'_>, depth: usize) -> (usize, usize) {
    assert!(depth <= lenient::MAX_DEPTH);
    let add = |(values, bytes): (usize, usize), (more_values, more_bytes): (usize, usize)| {
        (values + more_values, bytes + more_bytes)
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) => (1, 0),
        Value::String(text) => (1, text.len()),
        Value::Array(items) => items.iter().map(|item| weigh(item, depth + 1)).fold((1, 0), add),
        Value::Object(members) => {
            let pairs =
                members.iter().map(|(key, value)| add(weigh(key, depth + 1), weigh(value, depth + 1)));
            pairs.fold((1, 0), add)
        }
    }
}

/// A pull's body. Checksums are made right first, or nothing behind them would ever be reached.
pub fn stored_message(data: &[u8]) {
    for body in [Bytes::copy_from_slice(data), Bytes::from(with_checksums(data.to_vec()))] {
        let length = body.len();
        let mut seen = 0;
        for entry in StoredMessages::new(body) {
            seen += match entry {
                Ok(Entry::Stored(stored)) => {
                    let parts = stored.body.len() + stored.topic.len();
                    assert!(parts <= stored.raw.len(), "parts lie inside the message");
                    let allowed = LIMITS.allowed(stored.body.len());
                    if let Ok(plain) = stored.plain_body(&LIMITS) {
                        assert!(plain.len() <= allowed.max(stored.body.len()));
                    }
                    stored.raw.len()
                }
                Ok(Entry::Bad(bad)) => bad.raw.len(),
                Err(error) => error.left,
            };
        }
        assert_eq!(seen, length, "no byte is skipped silently");
    }
}

/// A pull's answer, as the reader takes it: the first bytes say where it was asked from, where the broker goes on and
/// where the queue ends.
pub fn pull(data: &[u8]) {
    let Some(([from, next, most, bytes], body)) = data.split_first_chunk() else { return };
    let place = |byte: &u8| Position(u64::from(*byte));
    let (from, next) = (place(from), place(next));
    let subscription = SubscriptionData::tags("t", if bytes & 1 == 0 { "*" } else { "a || b" }, 1);
    let context = decode::Context {
        queue: QueueId(0),
        from,
        next,
        most: place(most).max(from),
        bytes: usize::from(*bytes) * 16,
        limits: &LIMITS,
        key: &KeySource::Native,
        subscription: Some(&subscription),
    };
    let Ok(taken) = decode::deliveries(&context, Bytes::from(with_checksums(body.to_vec()))) else { return };
    let mut least = from;
    for delivery in &taken.deliveries {
        assert!(delivery.position >= least, "{} where {least} was due", delivery.position);
        least = delivery.position.next();
    }
    assert!(taken.next >= least, "what was given is not given again");
    assert!(taken.next <= next.max(from), "{} after {from} and {next}", taken.next);
}

/// Writes the right checksum into each message whose size can be trusted.
fn with_checksums(mut pull: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(rest) = pull.get_mut(at..) {
        let size = rest.first_chunk().map(|size| u32::from_be_bytes(*size) as usize);
        let message = size.filter(|size| *size >= codec::MIN_STORED).and_then(|size| rest.get_mut(..size));
        let Some(message) = message else { break };
        at += message.len();
        // Both addresses are IPv4 unless the system flag at 36 says otherwise.
        let v6 = message.get(39).map_or(0, |flags| usize::from(flags >> 4 & 1) + usize::from(flags >> 5 & 1));
        let length_at = 84 + 12 * v6;
        let length =
            message.get(length_at..).and_then(|rest| rest.first_chunk()).copied().map(u32::from_be_bytes);
        let start = length_at + 4;
        let body = length.and_then(|length| message.get(start..start.checked_add(length as usize)?));
        let Some(checksum) = body.map(|body| crc32fast::hash(body) & 0x7FFF_FFFF) else { continue };
        if let Some(place) = message.get_mut(8..12) {
            place.copy_from_slice(&checksum.to_be_bytes());
        }
    }
    pull
}

/// The text form of properties.
pub fn properties(data: &[u8]) {
    let found = codec::parse_properties(Bytes::copy_from_slice(data));
    // A name, a separator and a value or an end.
    assert!(found.len() <= data.len() / 3 + 1, "{} properties in {} bytes", found.len(), data.len());
    let bytes: usize = found.iter().map(|(name, value)| name.len() + value.len() + 1).sum();
    assert!(bytes <= data.len(), "properties do not overlap");
    let written = codec::write_properties(found.iter());
    let again = codec::parse_properties(written);
    let whole = found.iter().filter(|(_, value)| !value.contains(&1));
    assert!(again.iter().eq(whole), "what is written is found");
}

#[cfg(test)]
mod tests;
