use std::io::{self, Read};

use bytes::{Buf, Bytes};
use flate2::read::ZlibDecoder;
use lz4_flex::frame::FrameDecoder as Lz4Decoder;
use ruzstd::decoding::{FrameDecoder as ZstdDecoder, StreamingDecoder};
use thiserror::Error;

use super::sys_flag;

/// How much a compressed body may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Bytes of the plain body at most.
    pub max_bytes: usize,
    /// How many times its compressed size it may be, beyond `always`.
    pub max_ratio: usize,
    /// Bytes that are allowed at any ratio: brokers take messages of 4 MiB by default, and one of zeros is legal.
    pub always: usize,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { max_bytes: 16 * 1024 * 1024, max_ratio: 100, always: 4 * 1024 * 1024 }
    }
}

impl BodyLimits {
    /// Bytes that a body of this compressed size may have.
    pub fn allowed(&self, compressed: usize) -> usize {
        compressed.saturating_mul(self.max_ratio).max(self.always).min(self.max_bytes)
    }
}

/// A compressed body can't be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecompressError {
    /// It would be larger than is allowed.
    #[error("body of {compressed} compressed bytes is more than {allowed} bytes")]
    TooLarge {
        /// Stored bytes.
        compressed: usize,
        /// The most it may be.
        allowed: usize,
    },
    /// The compressed bytes are damaged.
    #[error("body is not valid {codec}: {reason}")]
    Damaged {
        /// The method.
        codec: &'static str,
        /// What its decoder says.
        reason: String,
    },
    /// The message names a method that is not known.
    #[error("body is compressed by unknown method {0}")]
    Unknown(i32),
}

/// First room for a plain body, whatever its compressed size says.
const FIRST_ROOM: usize = 64 * 1024;

/// The plain form of a body compressed by the method in `flags`. Memory: the result, and a window of at most the
/// result's bound.
pub(super) fn decompress(body: &Bytes, flags: i32, limits: &BodyLimits) -> Result<Bytes, DecompressError> {
    let allowed = limits.allowed(body.len());
    match flags & sys_flag::COMPRESSION_METHOD {
        sys_flag::LZ4 => drain("lz4", Lz4Decoder::new(body.as_ref()), body.len(), allowed),
        sys_flag::ZSTD => zstd(body, allowed),
        0 | sys_flag::ZLIB => drain("zlib", ZlibDecoder::new(body.as_ref()), body.len(), allowed),
        other => Err(DecompressError::Unknown(other >> 8)),
    }
}

fn zstd(body: &Bytes, allowed: usize) -> Result<Bytes, DecompressError> {
    let mut decoder = ZstdDecoder::new();
    decoder.set_max_window_size(allowed as u64);
    let damaged = |error: String| DecompressError::Damaged { codec: "zstd", reason: error };
    let mut source = body.as_ref().reader();
    let reader =
        StreamingDecoder::new_with_decoder(&mut source, decoder).map_err(|e| damaged(e.to_string()))?;
    drain("zstd", reader, body.len(), allowed)
}

fn drain(
    codec: &'static str,
    reader: impl Read,
    compressed: usize,
    allowed: usize,
) -> Result<Bytes, DecompressError> {
    let mut plain = Vec::with_capacity(compressed.saturating_mul(4).min(FIRST_ROOM));
    let damaged = |error: io::Error| DecompressError::Damaged { codec, reason: error.to_string() };
    // One byte more than allowed tells too large from just fitting.
    reader.take(allowed as u64 + 1).read_to_end(&mut plain).map_err(damaged)?;
    if plain.len() > allowed {
        return Err(DecompressError::TooLarge { compressed, allowed });
    }
    Ok(Bytes::from(plain))
}
