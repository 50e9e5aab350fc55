//! Entry points of the fuzz targets. Each panics when a rule is broken.

use bytes::{Bytes, BytesMut};

use crate::{Body, Command, Message, Value, body, decode, encode, read_map, read_values};

/// So many bytes may come out of what is compressed.
const INFLATED: usize = 1 << 16;

/// Any frame: what is read is written so that it is read as the same.
pub fn command(data: &[u8]) {
    let Ok(frame) = decode(Bytes::copy_from_slice(data)) else { return };
    let mut out = BytesMut::new();
    if encode(&mut out, frame.number, frame.answer, &frame.command).is_err() {
        return;
    }
    let again = decode(out.split_off(4).freeze());
    assert!(
        matches!(frame.command, Command::Unknown(_)) || again.as_ref() == Ok(&frame),
        "{frame:?}, {again:?}"
    );
    if let Command::Message(message) = &frame.command {
        contents(message);
    } else if let Command::Dispatch(dispatch) = &frame.command {
        dispatch.message.iter().for_each(contents);
    }
}

/// Any content of each kind, compressed or not: the first byte says which.
pub fn content(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let mut message = Message::default();
    message.kind = crate::message::Kind::of(23 + first % 7).unwrap_or_default();
    message.fields.compressed = first & 0x80 != 0;
    message.fields.content = Some(Bytes::copy_from_slice(rest));
    contents(&message);
}

/// Any map and any list of values.
pub fn values(data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    if let Ok(map) = read_map(data.clone()) {
        map.iter().for_each(|(_, value)| shown(value));
        let mut out = BytesMut::new();
        if crate::write_map(&mut out, &map).is_ok() {
            assert_eq!(read_map(out.freeze()), Ok(map));
        }
    }
    read_values(data).iter().flatten().for_each(shown);
}

fn contents(message: &Message) {
    message.properties().iter().flatten().for_each(|(_, value)| shown(value));
    if let Ok(Body::Bytes(bytes) | Body::Object(bytes)) = body(message, INFLATED) {
        assert!(!message.fields.compressed || bytes.len() <= INFLATED);
    }
    if let Ok(Body::Text(text)) = body(message, INFLATED) {
        assert!(std::str::from_utf8(&text.utf8()).is_ok());
    }
}

fn shown(value: &Value) {
    if let Value::Text(text) = value {
        assert!(std::str::from_utf8(&text.utf8()).is_ok());
    }
}
