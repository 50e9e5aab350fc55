//! Standard Webhooks signatures (v1: HMAC-SHA256).

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Lengths of a key that Standard Webhooks allows, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// One key, prepared.
#[derive(Clone)]
pub(super) struct SigningKey(Hmac<Sha256>);

/// Why a key can't be used. Never holds the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyError {
    #[error("it does not begin with whsec_")]
    Prefix,
    #[error("what follows whsec_ is not base64")]
    Base64,
    #[error("it has {0} bytes, and 24 to 64 are allowed")]
    Length(usize),
}

impl SigningKey {
    /// Reads `whsec_` and base64; white space around it is of no account.
    pub(super) fn parse(text: &str) -> Result<Self, KeyError> {
        let encoded = text.trim().strip_prefix("whsec_").ok_or(KeyError::Prefix)?;
        let key = STANDARD.decode(encoded).map_err(|_| KeyError::Base64)?;
        if !KEY_BYTES.contains(&key.len()) {
            return Err(KeyError::Length(key.len()));
        }
        Hmac::new_from_slice(&key).map(Self).map_err(|_| KeyError::Length(key.len()))
    }
}

/// The value of `webhook-signature`: one signature of `id.timestamp.body` for each key, space separated.
pub(super) fn signature(keys: &[SigningKey], id: &[u8], timestamp: &[u8], body: &Bytes) -> String {
    let mut out = String::with_capacity(keys.len() * 48);
    for SigningKey(key) in keys {
        let mut mac = key.clone();
        for part in [id, b".", timestamp, b".", body] {
            mac.update(part);
        }
        out.push_str(if out.is_empty() { "v1," } else { " v1," });
        STANDARD.encode_string(mac.finalize().into_bytes(), &mut out);
    }
    out
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}
