//! What is compressed, with a bound on what becomes of it.

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};

use crate::DecodeError;

/// Room that is made at a time.
const STEP: usize = 16 * 1024;

/// Inflates a zlib stream to at most `most` bytes.
///
/// Artemis ends its streams with a flush, and without an end of the stream: all that was written is there then.
pub(crate) fn inflate(input: &Bytes, most: usize) -> Result<Vec<u8>, DecodeError> {
    let mut inflater = Decompress::new(true);
    let mut output: Vec<u8> = Vec::new();
    loop {
        let consumed = usize::try_from(inflater.total_in()).unwrap_or(usize::MAX);
        let rest = input.get(consumed..).unwrap_or_default();
        let before = output.len();
        if before > most {
            return Err(DecodeError::Inflated(most));
        }
        if output.capacity() == before {
            output.reserve(STEP);
        }
        let status = inflater
            .decompress_vec(rest, &mut output, FlushDecompress::None)
            .map_err(|_| DecodeError::Inflate)?;
        let is_stuck = usize::try_from(inflater.total_in()) == Ok(consumed) && output.len() == before;
        match status {
            Status::StreamEnd => break,
            Status::Ok | Status::BufError if !is_stuck => {}
            Status::Ok | Status::BufError if rest.is_empty() => break,
            Status::Ok | Status::BufError => return Err(DecodeError::Inflate),
        }
    }
    if output.len() > most { Err(DecodeError::Inflated(most)) } else { Ok(output) }
}
