use std::io::{self, BufRead, Read};

use bytes::Bytes;
use flate2::bufread::ZlibDecoder;
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

/// Encoders may use windows of this size whatever the content's size (RFC 8878, 3.1.1.1.2).
const ZSTD_WINDOW: usize = 8 * 1024 * 1024;

/// The plain form of a body compressed by the method in `flags`. Memory: the result, and a window of at most the
/// result's bound or 8 MiB.
pub(super) fn decompress(body: &Bytes, flags: i32, limits: &BodyLimits) -> Result<Bytes, DecompressError> {
    let allowed = limits.allowed(body.len());
    let mut source = Source { rest: body, overrun: false };
    let (codec, plain) = match flags & sys_flag::COMPRESSION_METHOD {
        sys_flag::LZ4 => ("lz4", drain(Lz4Decoder::new(&mut source), body.len(), allowed)),
        sys_flag::ZSTD => {
            let reader = zstd(&mut source, allowed);
            ("zstd", reader.and_then(|reader| drain(reader, body.len(), allowed)))
        }
        0 | sys_flag::ZLIB => ("zlib", drain(ZlibDecoder::new(&mut source), body.len(), allowed)),
        other => return Err(DecompressError::Unknown(other >> 8)),
    };
    let damaged = |error: io::Error| DecompressError::Damaged { codec, reason: error.to_string() };
    let plain = plain.map_err(damaged)?;
    if plain.len() > allowed {
        return Err(DecompressError::TooLarge { compressed: body.len(), allowed });
    }
    source.check_end().map_err(damaged)?;
    Ok(Bytes::from(plain))
}

fn zstd<'a, 'b>(
    source: &'a mut Source<'b>,
    allowed: usize,
) -> io::Result<StreamingDecoder<&'a mut Source<'b>, ZstdDecoder>> {
    let mut decoder = ZstdDecoder::new();
    decoder.set_max_window_size(allowed.max(ZSTD_WINDOW) as u64);
    StreamingDecoder::new_with_decoder(source, decoder).map_err(io::Error::other)
}

/// All that a decoder gives, and one byte more than is allowed at most: it tells too large from just fitting.
fn drain(reader: impl Read, compressed: usize, allowed: usize) -> io::Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(compressed.saturating_mul(4).min(FIRST_ROOM));
    reader.take(allowed as u64 + 1).read_to_end(&mut plain)?;
    Ok(plain)
}

/// The compressed bytes. It notes what not every decoder minds: content that ends too early, or goes on behind its end.
struct Source<'a> {
    rest: &'a [u8],
    overrun: bool,
}

impl Source<'_> {
    fn check_end(&self) -> io::Result<()> {
        if self.overrun {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !self.rest.is_empty() {
            return Err(io::Error::other("something follows its end"));
        }
        Ok(())
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.overrun |= self.rest.is_empty() && !buffer.is_empty();
        self.rest.read(buffer)
    }
}

impl BufRead for Source<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // The zlib decoder looks once more at the end, and says itself when content is missing.
        Ok(self.rest)
    }

    fn consume(&mut self, count: usize) {
        self.rest.consume(count);
    }
}
