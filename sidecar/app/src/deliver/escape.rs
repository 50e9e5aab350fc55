//! Escaping of what producers wrote, so that it can't forge, split or overflow a header.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `value`, with everything percent-encoded that a CloudEvents header value must not hold as it is: space, `"`,
/// `%` and all bytes outside U+0021 to U+007E (CloudEvents HTTP binding 1.0.2, 3.1.3.2). Bytes that are not UTF-8 are
/// encoded one by one. The result is reversible and a valid header value.
pub(super) fn value(out: &mut Vec<u8>, value: &[u8]) {
    encode(out, value, |byte| matches!(byte, 0x21..=0x7e) && !matches!(byte, b'"' | b'%'));
}

/// How many bytes [`value`] appends.
pub(super) fn value_len(value: &[u8]) -> usize {
    value
        .iter()
        .map(|byte| if matches!(byte, 0x21..=0x7e) && !matches!(byte, b'"' | b'%') { 1 } else { 3 })
        .sum()
}

/// Appends `name`, with everything percent-encoded that is not a token character of RFC 9110, and `%` itself.
pub(super) fn name(out: &mut Vec<u8>, name: &[u8]) {
    encode(out, name, is_plain_in_name);
}

/// How many bytes [`name`] appends.
pub(super) fn name_len(name: &[u8]) -> usize {
    name.iter().map(|byte| if is_plain_in_name(*byte) { 1 } else { 3 }).sum()
}

/// Appends the path of a URI: unreserved characters and `/` stay (RFC 3986), all else is percent-encoded.
pub(super) fn path(out: &mut Vec<u8>, path: &[u8]) {
    encode(out, path, |byte| byte == b'/' || is_unreserved(byte));
}

/// Appends a component of a webhook id: letters, digits, `-` and `_` stay. A dot would end the id inside the signed
/// content, a slash divides the components.
pub(super) fn component(out: &mut Vec<u8>, component: &[u8]) {
    encode(out, component, |byte| byte != b'.' && is_unreserved(byte));
}

/// Text that can go to a log line: at most `limit` bytes of it, control characters and broken UTF-8 escaped.
pub(super) fn printable(text: &[u8], limit: usize) -> String {
    let mut out = String::new();
    for character in String::from_utf8_lossy(text.get(..limit).unwrap_or(text)).chars() {
        let plain = !character.is_control() && !is_bidi_control(character);
        let width = if plain { character.len_utf8() } else { character.escape_default().len() };
        if out.len() + width > limit {
            break;
        }
        if plain {
            out.push(character);
        } else {
            out.extend(character.escape_default());
        }
    }
    out
}

fn encode(out: &mut Vec<u8>, bytes: &[u8], plain: impl Fn(u8) -> bool) {
    // Nearly every value is plain as a whole.
    if bytes.iter().all(|byte| plain(*byte)) {
        out.extend_from_slice(bytes);
        return;
    }
    for byte in bytes {
        if plain(*byte) {
            out.push(*byte);
        } else {
            let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn is_plain_in_name(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(byte, b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'^' | b'`' | b'|')
}

/// Characters that reorder the text around them on a terminal.
fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
