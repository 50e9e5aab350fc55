mod frames;
mod methods;
mod properties;
mod tables;

use bytes::Bytes;

/// Bytes written as hexadecimal digits, white space aside.
pub(in crate::amqp) fn hex(text: &str) -> Bytes {
    let digits: Vec<u32> =
        text.chars().filter(|char| !char.is_whitespace()).map(|char| char.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect::<Vec<_>>().into()
}
