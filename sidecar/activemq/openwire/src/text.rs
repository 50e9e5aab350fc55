//! Text as Java's `DataOutput.writeUTF` has it: UTF-8 in which NUL takes two bytes, and what lies beyond U+FFFF is written as
//! two surrogates of three bytes each (CESU-8).

use std::{borrow::Cow, fmt, iter::Peekable};

use bytes::Bytes;

/// A text as it came: equal when its bytes are. It may hold any bytes; [`Text::decoded`] reads what there is to be read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text(Bytes);

impl Text {
    /// What came, as it came.
    pub const fn raw(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The bytes as they are on the wire.
    pub const fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// As text. Surrogates without their other half and whatever is no text become U+FFFD.
    pub fn decoded(&self) -> Cow<'_, str> {
        decode(&self.0)
    }

    /// As UTF-8, without a copy where it is that already.
    pub fn utf8(&self) -> Bytes {
        match decode(&self.0) {
            Cow::Borrowed(_) => self.0.clone(),
            Cow::Owned(text) => Bytes::from(text),
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        if is_the_same(text) {
            return Self(Bytes::copy_from_slice(text.as_bytes()));
        }
        let mut bytes = Vec::with_capacity(text.len().saturating_add(8));
        text.encode_utf16().for_each(|unit| push(&mut bytes, unit));
        Self(Bytes::from(bytes))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        if is_the_same(&text) { Self(Bytes::from(text)) } else { Self::from(text.as_str()) }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.decoded())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.decoded(), f)
    }
}

/// Whether both encodings of it are the same.
fn is_the_same(text: &str) -> bool {
    // A character beyond U+FFFF begins with 0xF0 or more.
    text.bytes().all(|byte| byte != 0 && byte < 0xf0)
}

fn push(bytes: &mut Vec<u8>, unit: u16) {
    let [high, low] = unit.to_be_bytes();
    let last = 0x80 | (low & 0x3f);
    match unit {
        1..=0x7f => bytes.push(low),
        0 | 0x80..=0x7ff => bytes.extend([0xc0 | (high << 2) | (low >> 6), last]),
        0x800.. => bytes.extend([0xe0 | (high >> 4), 0x80 | ((high & 0xf) << 2) | (low >> 6), last]),
    }
}

fn decode(bytes: &[u8]) -> Cow<'_, str> {
    // ActiveMQ's STOMP connector stores plain UTF-8, characters of four bytes included.
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().peekable();
    let mut high: Option<u32> = None;
    while let Some(first) = rest.next() {
        let code = code(first, &mut rest);
        if let Some(half) = high.take() {
            if let 0xdc00..=0xdfff = code {
                let pair = 0x1_0000 + ((half - 0xd800) << 10) + (code - 0xdc00);
                text.push(char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER));
                continue;
            }
            text.push(char::REPLACEMENT_CHARACTER);
        }
        if let 0xd800..=0xdbff = code {
            high = Some(code);
        } else {
            text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
    }
    if high.is_some() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    Cow::Owned(text)
}

/// The number of one character, surrogates included, or one that is no character's.
fn code(first: u8, rest: &mut Peekable<impl Iterator<Item = u8>>) -> u32 {
    const NONE: u32 = u32::MAX;
    let (more, bits) = match first {
        0..=0x7f => return first.into(),
        0xc0..=0xdf => (1, first & 0x1f),
        0xe0..=0xef => (2, first & 0x0f),
        0xf0..=0xf7 => (3, first & 0x07),
        0x80..=0xbf | 0xf8.. => return NONE,
    };
    let mut code = u32::from(bits);
    for _ in 0..more {
        let Some(next) = rest.next_if(|next| next & 0xc0 == 0x80) else { return NONE };
        code = (code << 6) | u32::from(next & 0x3f);
    }
    code
}
