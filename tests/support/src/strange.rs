//! What producers may write and no application must come to harm by.

use crate::http::Request;

/// Properties that want to be headers of HTTP, or to break out of one.
pub const HOSTILE: [(&str, &str); 8] = [
    ("Content-Length", "1"),
    ("Host", "elsewhere"),
    ("Transfer-Encoding", "chunked"),
    ("Lockstep-Attempt", "99"),
    ("webhook-id", "forged"),
    ("split", "a\r\nX-Forged: yes\r\n\r\nPOST / HTTP/1.1"),
    ("nul", "a\0b"),
    ("ü ber", "größe"),
];
/// The most that all headers of a request take.
const HEADERS_MOST: usize = 12 * 1024;

/// A message's first request has its body, and nothing of it stands where ours does.
///
/// # Panics
/// When it is not so.
pub fn must_be_unharmed(request: &Request, body: &[u8]) {
    assert_eq!(request.body.len(), body.len());
    assert!(request.body == body, "a body was changed");
    assert_eq!(request.header("lockstep-attempt"), Some("1"), "{:?}", request.headers);
    assert_eq!(request.header("x-forged"), None);
    assert_ne!(request.header("host"), Some("elsewhere"));
    let size: usize = request.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(size < HEADERS_MOST, "the headers have {size} bytes");
}
