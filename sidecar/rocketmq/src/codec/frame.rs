use bytes::{Buf, BufMut, BytesMut};
use thiserror::Error;

use super::{Command, HeaderEncoding, binary_header, json_header, lenient};

/// The longest frame, without its length word: the default of both sides of the protocol.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;

/// The longest header. Real ones stay below 40 KiB (a message's properties travel in the header of a send).
pub const MAX_HEADER: usize = 1024 * 1024;

/// The most fields in one header; real ones have about 20.
pub(super) const MAX_FIELDS: usize = 1024;

/// Bytes of the length word and of the header word.
const WORD: usize = 4;

/// What makes a connection unusable: after it nothing that follows can be trusted, so the connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Longer than [`MAX_FRAME`], or too short for a header word.
    #[error("frame length {0} is not between 4 and {MAX_FRAME}; is this a RocketMQ remoting port?")]
    Length(u32),
    /// The header is longer than its frame or than [`MAX_HEADER`].
    #[error("header length {header} does not fit into a frame of {frame} bytes")]
    HeaderLength {
        /// Said of the header.
        header: usize,
        /// Said of the frame.
        frame: usize,
    },
    /// The header is written in a form that is not known.
    #[error("header form {0} is neither JSON (0) nor ROCKETMQ (1)")]
    HeaderForm(u8),
    /// A JSON header is not an object of the known shape.
    #[error("header is not the JSON of a command: {0}")]
    Json(#[from] lenient::JsonError),
    /// A JSON header's member is missing or of another type.
    #[error("header member {0} is missing or of a wrong type")]
    Member(&'static str),
    /// A binary header ends inside a value.
    #[error("binary header ends inside its {0}")]
    Binary(&'static str),
    /// More fields than [`MAX_FRAME`] could sensibly hold.
    #[error("header has more than {MAX_FIELDS} fields")]
    Fields,
    /// What is to be written does not fit into the protocol.
    #[error("command is too large to be sent: {0}")]
    TooLarge(&'static str),
}

/// Takes one command off the front of `buffer`, without copying its body. `None` until a whole frame is there; then
/// `buffer` has room reserved for a sensible part of what is missing.
///
/// # Errors
/// The connection can't be used any more.
pub fn decode(buffer: &mut BytesMut) -> Result<Option<Command>, FrameError> {
    let Some((length, header)) = words(buffer)? else { return Ok(None) };
    if buffer.len() < WORD + length {
        return Ok(None);
    }
    let mut frame = buffer.split_to(WORD + length).freeze();
    frame.advance(2 * WORD);
    let body = frame.split_off(header.length);
    let mut command = match header.form {
        HeaderEncoding::Json => json_header::decode(&frame)?,
        HeaderEncoding::Binary => binary_header::decode(frame)?,
    };
    command.body = body;
    Ok(Some(command))
}

/// How many more bytes complete the frame at the front of `buffer`, when its length is known and plausible.
pub(crate) fn missing(buffer: &BytesMut) -> usize {
    match words(buffer) {
        Ok(Some((length, _))) => (WORD + length).saturating_sub(buffer.len()),
        Ok(None) | Err(_) => 0,
    }
}

struct Header {
    form: HeaderEncoding,
    length: usize,
}

/// The two words in front of a frame, checked; `None` until they are there.
fn words(buffer: &BytesMut) -> Result<Option<(usize, Header)>, FrameError> {
    let mut front: &[u8] = buffer;
    let Ok(word) = front.try_get_u32() else { return Ok(None) };
    let length = word as usize;
    if !(WORD..=MAX_FRAME).contains(&length) {
        return Err(FrameError::Length(word));
    }
    let Ok(word) = front.try_get_u32() else { return Ok(None) };
    let [form, high, middle, low] = word.to_be_bytes();
    let header = u32::from_be_bytes([0, high, middle, low]) as usize;
    if header > length - WORD || header > MAX_HEADER {
        return Err(FrameError::HeaderLength { header, frame: length });
    }
    let form = match form {
        0 => HeaderEncoding::Json,
        1 => HeaderEncoding::Binary,
        other => return Err(FrameError::HeaderForm(other)),
    };
    Ok(Some((length, Header { form, length: header })))
}

/// Appends the frame of a command to `out`.
///
/// # Errors
/// It does not fit into the protocol; `out` is as it was.
pub fn encode(command: &Command, encoding: HeaderEncoding, out: &mut BytesMut) -> Result<(), FrameError> {
    let start = out.len();
    let written = encode_at(command, encoding, out, start);
    if written.is_err() {
        out.truncate(start);
    }
    written
}

fn encode_at(
    command: &Command,
    encoding: HeaderEncoding,
    out: &mut BytesMut,
    start: usize,
) -> Result<(), FrameError> {
    out.put_u64(0);
    match encoding {
        HeaderEncoding::Json => json_header::encode(command, out),
        HeaderEncoding::Binary => binary_header::encode(command, out)?,
    }
    let header = out.len() - start - 2 * WORD;
    let length = WORD + header + command.body.len();
    if header > MAX_HEADER {
        return Err(FrameError::TooLarge("header"));
    }
    if length > MAX_FRAME {
        return Err(FrameError::TooLarge("body"));
    }
    out.extend_from_slice(&command.body);
    let form: u64 = match encoding {
        HeaderEncoding::Json => 0,
        HeaderEncoding::Binary => 1,
    };
    let words = ((length as u64) << 32) | (form << 24) | header as u64;
    if let Some(front) = out.get_mut(start..start + 2 * WORD) {
        front.copy_from_slice(&words.to_be_bytes());
    }
    Ok(())
}
