mod bodies;
mod golden;
mod hostile;
mod round_trips;
mod texts;

use bytes::{Bytes, BytesMut};

use crate::{Command, encode};

/// Bytes from their hexadecimal digits.
fn hex(digits: &str) -> Bytes {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A frame without its size.
fn framed(number: i32, answer: bool, command: &Command) -> Bytes {
    let mut out = BytesMut::new();
    encode(&mut out, number, answer, command).unwrap();
    let size = out.split_to(4);
    assert_eq!(usize::try_from(u32::from_be_bytes(size[..].try_into().unwrap())), Ok(out.len()));
    out.freeze()
}
