//! What a message's content is.

use bytes::{Buf, Bytes};

use crate::{
    Blob, DecodeError, Kind, Map, Message, Text, Value, inflate::inflate, read_map, read_values,
    reader::Reader,
};

/// What is compressed becomes no larger, in bytes; Java's client has the same bound.
pub const INFLATED_MOST: usize = 100 * 1024 * 1024;

/// A message's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// None: a plain message, or one of another kind that was given none.
    None,
    /// Text.
    Text(Text),
    /// Bytes.
    Bytes(Bytes),
    /// Names and values.
    Map(Map),
    /// Values.
    Stream(Vec<Value>),
    /// A serialized object of Java, untouched.
    Object(Bytes),
    /// Where it lies.
    Blob(Blob),
}

/// Reads a message's content. What is not compressed is not copied; what is becomes at most `most` bytes.
///
/// # Errors
/// It is not of the kind's form, or larger than allowed when it is inflated.
pub fn body(message: &Message, most: usize) -> Result<Body, DecodeError> {
    if let (Kind::Blob, Some(blob)) = (message.kind, &message.blob) {
        return Ok(Body::Blob(blob.clone()));
    }
    let Some(content) = message.fields.content.clone() else { return Ok(Body::None) };
    let compressed = message.fields.compressed;
    let whole = |content: Bytes| {
        if compressed { inflate(&content, most).map(Bytes::from) } else { Ok(content) }
    };
    Ok(match message.kind {
        Kind::Plain | Kind::Blob => Body::None,
        Kind::Bytes if compressed => Body::Bytes(compressed_bytes(content, most)?),
        Kind::Bytes => Body::Bytes(content),
        Kind::Text => Body::Text(Text::raw(Reader::new(whole(content)?).long("a text")?)),
        Kind::Map => Body::Map(read_map(whole(content)?)?),
        Kind::Stream => Body::Stream(read_values(whole(content)?)?),
        Kind::Object => Body::Object(whole(content)?),
    })
}

/// A length stands in front of the stream. It is only held against what came of it.
fn compressed_bytes(mut content: Bytes, most: usize) -> Result<Bytes, DecodeError> {
    let what = "compressed bytes";
    let length = content.try_get_i32().map_err(|_| DecodeError::Truncated(what))?;
    let inflated = inflate(&content, most)?;
    if usize::try_from(length) == Ok(inflated.len()) {
        Ok(Bytes::from(inflated))
    } else {
        Err(DecodeError::Length { what, length })
    }
}
