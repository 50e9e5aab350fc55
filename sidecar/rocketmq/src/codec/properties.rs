use bytes::{BufMut, Bytes, BytesMut};
use lockstep_model::{Properties, Span};

/// Stands between a property's name and its value.
const NAME_END: u8 = 1;
/// Stands behind a property's value; may be missing behind the last one.
const VALUE_END: u8 = 2;
/// Shorter entries are no properties, by the protocol.
const MIN_ENTRY: usize = 3;

/// Finds a stored message's properties in their text form, without copying. Entries without a name are left out, as
/// Java does; their number is bounded by the text's length.
pub fn parse_properties(text: Bytes) -> Properties {
    let mut spans = Vec::new();
    let mut start = 0_usize;
    for entry in text.split(|byte| *byte == VALUE_END) {
        spans.extend(span(start, entry));
        start += entry.len() + 1;
    }
    Properties::from_spans(text, spans)
}

fn span(start: usize, entry: &[u8]) -> Option<Span> {
    if entry.len() < MIN_ENTRY {
        return None;
    }
    let name = entry.iter().position(|byte| *byte == NAME_END).filter(|length| *length > 0)?;
    let at = |offset: usize| u32::try_from(start + offset).ok();
    Some(Span { name: at(0)?..at(name)?, value: at(name + 1)?..at(entry.len())? })
}

/// Writes properties in their text form. What would break it is left out: a name or value with one of the two
/// separators in it.
pub fn write_properties<'a>(properties: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Bytes {
    let mut text = BytesMut::new();
    let breaks = |part: &[u8]| part.iter().any(|byte| matches!(*byte, NAME_END | VALUE_END));
    for (name, value) in properties {
        if name.is_empty() || breaks(name) || breaks(value) {
            continue;
        }
        text.put_slice(name);
        text.put_u8(NAME_END);
        text.put_slice(value);
        text.put_u8(VALUE_END);
    }
    text.freeze()
}
