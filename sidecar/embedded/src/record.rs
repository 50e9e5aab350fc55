use bytes::{Buf, Bytes};
use lockstep_model::{Message, Properties, Span, Text};

use crate::NewMessage;

/// The layout's version, the first byte of every record.
const VERSION: u8 = 1;
/// Version, storing time, four lengths, number of properties.
const HEAD: usize = 1 + 8 + 4 * 4 + 4;
/// The length that says that a text is absent.
const ABSENT: u32 = u32::MAX;

/// A message as it is stored: the head, two lengths for each property, then all texts, names, values and the body.
pub(crate) fn encode(id: &str, stored_ms: i64, message: &NewMessage) -> Vec<u8> {
    let texts =
        [Some(id), message.key.as_deref(), message.content_type.as_deref(), message.subject.as_deref()];
    let mut record = Vec::with_capacity(HEAD + message.size() + id.len());
    record.push(VERSION);
    record.extend_from_slice(&stored_ms.to_le_bytes());
    for text in texts {
        push_length(&mut record, text.map(str::len));
    }
    push_length(&mut record, Some(message.properties.len()));
    for (name, value) in message.properties.iter() {
        push_length(&mut record, Some(name.len()));
        push_length(&mut record, Some(value.len()));
    }
    for text in texts.into_iter().flatten() {
        record.extend_from_slice(text.as_bytes());
    }
    for (name, value) in message.properties.iter() {
        record.extend_from_slice(name);
        record.extend_from_slice(value);
    }
    record.extend_from_slice(&message.body);
    record
}

fn push_length(record: &mut Vec<u8>, length: Option<usize>) {
    let length = length.map_or(ABSENT, |length| u32::try_from(length).unwrap_or(ABSENT));
    record.extend_from_slice(&length.to_le_bytes());
}

/// The message of a record, its parts slices of the record; or what is wrong with it.
pub(crate) fn decode(record: &Bytes) -> Result<Message, &'static str> {
    let mut head = record.clone();
    if head.remaining() < HEAD {
        return Err("the record is too short");
    }
    if head.get_u8() != VERSION {
        return Err("the record has an unknown version");
    }
    let stored_ms = head.get_i64_le();
    let lengths = [head.get_u32_le(), head.get_u32_le(), head.get_u32_le(), head.get_u32_le()];
    let count = head.get_u32_le() as usize;
    if count.checked_mul(8).is_none_or(|bytes| bytes > head.remaining()) {
        return Err("the record has more properties than it can hold");
    }
    let sizes: Vec<(u32, u32)> = (0..count).map(|_| (head.get_u32_le(), head.get_u32_le())).collect();
    let mut cut = Cut { record, at: record.len() - head.remaining() };
    let [id, key, content_type, subject] = lengths;
    let id = cut.text(id)?;
    let key = cut.text(key)?;
    let content_type = cut.text(content_type)?;
    let subject = cut.text(subject)?;
    let mut spans = Vec::with_capacity(count);
    for (name, value) in sizes {
        spans.push(Span { name: cut.range(name)?, value: cut.range(value)? });
    }
    let body = record.slice(cut.at..);
    Ok(Message {
        id: id.ok_or("the record has no message id")?,
        id_synthetic: false,
        body,
        key,
        subject,
        // Producers publish directly: a message is made when it is stored.
        born_ms: Some(stored_ms),
        stored_ms: Some(stored_ms),
        content_type,
        properties: Properties::from_spans(record.clone(), spans),
    })
}

/// The part of a record that is not read yet.
struct Cut<'a> {
    record: &'a Bytes,
    at: usize,
}

impl Cut<'_> {
    fn range(&mut self, length: u32) -> Result<std::ops::Range<u32>, &'static str> {
        let end = self.at.checked_add(length as usize).filter(|end| *end <= self.record.len());
        let (Some(end), Ok(start)) = (end, u32::try_from(self.at)) else {
            return Err("a length reaches beyond the record");
        };
        self.at = end;
        Ok(start..start.saturating_add(length))
    }

    fn text(&mut self, length: u32) -> Result<Option<Text>, &'static str> {
        if length == ABSENT {
            return Ok(None);
        }
        let range = self.range(length)?;
        Text::from_utf8(self.record.slice(range.start as usize..range.end as usize))
            .map(Some)
            .map_err(|_| "a text is not UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use lockstep_model::PropertiesBuilder;

    use super::*;

    fn sample() -> NewMessage {
        let mut properties = PropertiesBuilder::default();
        properties.push(b"a\r\n", b"\0\xff");
        properties.push(b"", b"");
        NewMessage {
            key: Some("k".into()),
            content_type: None,
            subject: Some("s".into()),
            properties: properties.build(),
            body: Bytes::from_static(b"body"),
        }
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        let message = decode(&Bytes::from(encode("id-1", 42, &sample()))).unwrap();
        assert_eq!(message.id.as_str(), "id-1");
        assert_eq!(message.stored_ms, Some(42));
        assert_eq!(message.key.as_deref(), Some("k"));
        assert_eq!(message.content_type, None);
        assert_eq!(message.subject.as_deref(), Some("s"));
        assert_eq!(message.body.as_ref(), b"body");
        let properties: Vec<_> = message.properties.iter().collect();
        assert_eq!(properties, [(b"a\r\n".as_ref(), b"\0\xff".as_ref()), (b"", b"")]);
    }

    #[test]
    fn no_cut_or_bent_record_is_more_than_an_error() {
        let whole = encode("id-1", 42, &sample());
        for end in 0..HEAD {
            assert!(decode(&Bytes::copy_from_slice(&whole[..end])).is_err());
        }
        for at in 0..whole.len() {
            let mut bent = whole.clone();
            bent[at] = 0xfe;
            let _ = decode(&Bytes::from(bent));
        }
    }
}
