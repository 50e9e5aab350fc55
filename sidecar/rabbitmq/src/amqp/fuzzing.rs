//! What the fuzz targets run: each decoder on any bytes, with its bounds as assertions. Also run by a test on the seed
//! corpus, so that the seeds hold without a fuzzer.

#![allow(clippy::panic, clippy::missing_panics_doc, reason = "a broken bound must end the fuzzer")]

use std::{num::NonZeroU64, sync::Arc};

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::{
    AmqpError, Budget, DeliveryEvent, Fields, Properties, RawProperties, Table, TableError, Value,
    codec::{Call, ContentHead, Frame, FrameReader, Method, Reply},
    core::{Core, Publish, Settle},
};

/// The agreed maximum of a frame.
const FRAME: u32 = 4096;

/// The longest text form.
const JSON: usize = 2048;

/// Small, so that stubs are made.
const BUDGET: usize = 4096;

/// A stream of frames in pieces: the first byte says how large the pieces are.
pub fn frame(data: &[u8]) {
    let Some((piece, stream)) = data.split_first() else { return };
    let mut reader = FrameReader::new(FRAME);
    let mut buffer = BytesMut::new();
    let mut read = 0;
    for piece in stream.chunks(usize::from(*piece) + 1) {
        buffer.extend_from_slice(piece);
        loop {
            let before = buffer.len();
            match reader.next(&mut buffer) {
                Ok(Some(Frame::Whole { payload, .. })) => {
                    assert_eq!(
                        before - buffer.len(),
                        payload.len() + 8,
                        "a frame is its payload and eight bytes"
                    );
                    read += payload.len() + 8;
                }
                Ok(Some(Frame::LongHeader { start, size, .. })) => {
                    assert!(start.len() == 12 && size > FRAME, "{size}");
                    read += before - buffer.len();
                }
                Ok(None) => {
                    read += before - buffer.len();
                    break;
                }
                Err(_) => return,
            }
        }
        let waits = buffer.len() + reader.missing(&buffer);
        assert!(waits < 2 * 1024 * 1024, "{waits} bytes are waited for");
    }
    assert_eq!(read + buffer.len(), stream.len(), "every byte is in a frame or waits");
}

/// A method frame's payload.
pub fn method(data: &[u8]) {
    let payload = Bytes::copy_from_slice(data);
    if let Ok(method) = Method::parse(payload.clone()) {
        let longer = [data, &[0; 8]].concat();
        assert_eq!(Method::parse(longer.into()), Ok(method), "what follows the arguments changes nothing");
    }
    if let Ok(head) = ContentHead::parse(payload) {
        assert_eq!(head.properties.len() + 12, data.len(), "properties are all behind the size");
    }
}

/// Properties, and all that is in their headers; also the bytes as a table by themselves.
pub fn properties(data: &[u8]) {
    let raw = Bytes::copy_from_slice(data);
    table(&Table::from_raw(raw.clone()));
    let properties = match RawProperties::parse(raw.clone()) {
        Ok(properties) => properties,
        Err(bad) => return assert_eq!(bad.raw, raw, "what can't be read is handed back"),
    };
    let bytes: usize = properties.iter().map(|(_, content)| content.len()).sum();
    assert!(bytes <= data.len(), "properties do not overlap");
    if let Some(headers) = properties.headers() {
        table(&headers);
    }
    let mut out = BytesMut::new();
    Properties::copy_of(&properties).write(&mut out).expect("what came must fit");
    assert_eq!(out, raw, "what came is written as it was");
}

fn table(table: &Table) {
    let sound = table.check();
    let entries: Result<Vec<_>, _> = table.entries().collect();
    // The text may grow too long before the walk comes to what is wrong.
    let too_long = TableError::Length(JSON);
    match table.json(JSON) {
        Ok(json) => {
            assert!(json.len() <= JSON && sound.is_ok());
            serde_json::from_str::<serde_json::Value>(&json).expect("it must be JSON");
        }
        Err(error) => {
            assert!(sound.map_or_else(|found| error == found, |()| false) || error == too_long, "{error}")
        }
    }
    if sound.is_ok() {
        let entries = entries.as_ref().expect("a sound table must have sound entries");
        assert!(entries.len() <= table.raw().len() / 2);
        let copy = Fields::copy_of(table, |_| true).expect("a sound table must be copied");
        assert_eq!(copy.into_table(), *table);
    }
    for (name, value) in entries.unwrap_or_default() {
        if let Ok(name) = std::str::from_utf8(&name) {
            let again = Fields::new().value(name, &value).into_table().get(name.as_bytes());
            let again = again.expect("what is written must be read");
            assert!(same(&again, &value), "{value:?} became {again:?}");
        }
        drop(value.json(JSON));
    }
}

fn same(again: &Value, value: &Value) -> bool {
    match (again, value) {
        // Not a number differs from itself.
        (Value::Float(again), Value::Float(value)) => again.to_bits() == value.to_bits(),
        _ => again == value || again.as_int().is_some_and(|number| Some(number) == value.as_int()),
    }
}

/// All that a broker may send on a connection with a consumer and a publisher, channels 1 and 2. Before each piece we
/// do one thing, as its first byte says.
pub fn session(data: &[u8]) {
    let budget = Budget::new(BUDGET);
    let mut core = Core::new(2, FRAME, budget.clone());
    let (one, consumer, _opened) = core.open_channel().expect("a channel must be free");
    let (two, publisher, _opened) = core.open_channel().expect("a channel must be free");
    let opened = |core: &mut Core| -> Result<(), AmqpError> {
        core.set_prefetch(one, &consumer, 3)?;
        core.expect_consumer(one, &consumer)?;
        core.confirms(two, &publisher)
    };
    opened(&mut core).expect("channels must be open");
    let mut taken: Vec<DeliveryEvent> = Vec::new();
    let mut input = BytesMut::new();
    let mut end = None;
    for piece in data.chunks(64) {
        let Some((action, bytes)) = piece.split_first() else { break };
        match action & 7 {
            0 => taken.extend(core.next_delivery(one, &consumer, None)),
            1 => taken.clear(),
            2 => drop(core.ask(one, &consumer, Reply::Qos, Call::Qos { prefetch: 3 })),
            3 => settle(&mut core, one, &consumer, *action),
            4 => {
                let properties = Properties::persistent();
                let body = Bytes::from_static(b"body");
                let mandatory = action & 8 != 0;
                let publish = Publish {
                    exchange: "",
                    routing_key: "k",
                    mandatory,
                    properties: &properties,
                    body: &body,
                };
                drop(core.publish(two, &publisher, publish));
            }
            5 if action & 8 != 0 => core.leave_channel(one, &consumer, None),
            6 if action & 8 != 0 => core.close(Instant::now()),
            _ => {}
        }
        input.extend_from_slice(bytes);
        if let Err(reason) = core.take_frames(&mut input, Instant::now()) {
            end = Some(reason);
            break;
        }
        assert!(core.out().len() < 64 * data.len() + 256, "we say no more than we are asked");
    }
    core.finish(&end.unwrap_or(AmqpError::ClosedByPeer));
    assert!(matches!(core.next_delivery(one, &consumer, None), Some(DeliveryEvent::Closed(_))));
    drop(taken);
    assert_eq!(budget.held(), 0, "all is given back");
}

fn settle(core: &mut Core, channel: u16, end: &Arc<super::channel::End>, action: u8) {
    let tag = NonZeroU64::new(u64::from(action >> 4)).map_or(1, NonZeroU64::get);
    drop(core.settle(channel, end, tag, Settle::Ack { multiple: action & 8 != 0 }));
}

#[cfg(test)]
mod tests;
