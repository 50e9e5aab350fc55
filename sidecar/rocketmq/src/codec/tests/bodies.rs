use std::io::Write;

use bytes::Bytes;
use proptest::prelude::*;

use super::build::Build;
use crate::codec::{BadReason, BodyLimits, DecompressError, Entry, Stored, StoredMessages, sys_flag};

const METHODS: [i32; 4] = [0, sys_flag::ZLIB, sys_flag::LZ4, sys_flag::ZSTD];

fn compress(method: i32, plain: &[u8]) -> Vec<u8> {
    match method {
        sys_flag::LZ4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        sys_flag::ZSTD => {
            ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest)
        }
        _ => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
    }
}

fn stored(method: i32, body: Vec<u8>) -> Stored {
    let sys_flag = method | sys_flag::COMPRESSED;
    let bytes = Build { sys_flag, body, ..Build::default() }.bytes();
    match StoredMessages::new(bytes).next() {
        Some(Ok(Entry::Stored(stored))) => *stored,
        other => panic!("{other:?}"),
    }
}

fn plain(method: i32, body: Vec<u8>) -> Result<Bytes, DecompressError> {
    stored(method, body).plain_body(&BodyLimits::default())
}

#[test]
fn each_method_is_read() {
    let text = b"ordered messages ".repeat(5000);
    for method in METHODS {
        assert_eq!(plain(method, compress(method, &text)).unwrap(), text, "{method:#x}");
        assert!(plain(method, compress(method, b"")).unwrap().is_empty(), "{method:#x}");
    }
}

#[test]
fn an_uncompressed_body_is_not_copied() {
    let bytes = Build::default().bytes();
    let Some(Ok(Entry::Stored(stored))) = StoredMessages::new(bytes).next() else { panic!() };
    let plain = stored.plain_body(&BodyLimits::default()).unwrap();
    assert_eq!(plain.as_ptr(), stored.body.as_ptr());
}

#[test]
fn the_largest_usual_message_may_be_all_zeros() {
    for method in METHODS {
        let zeros = vec![0; 4 << 20];
        assert_eq!(plain(method, compress(method, &zeros)).unwrap().len(), 4 << 20, "{method:#x}");
    }
}

#[test]
fn bombs_are_stopped_at_their_bound() {
    for method in METHODS {
        let bomb = compress(method, &vec![0; 6 << 20]);
        let compressed = bomb.len();
        let allowed = BodyLimits::default().allowed(compressed);
        assert_eq!(allowed, 4 << 20);
        let error = plain(method, bomb).unwrap_err();
        assert_eq!(error, DecompressError::TooLarge { compressed, allowed }, "{method:#x}");
    }
}

#[test]
fn a_body_exactly_as_large_as_allowed_is_taken() {
    let limits = BodyLimits { max_bytes: 1000, max_ratio: 1000, always: 0 };
    for method in METHODS {
        let fits = stored(method, compress(method, &[7; 1000])).plain_body(&limits);
        assert_eq!(fits.unwrap().len(), 1000);
        let over = stored(method, compress(method, &[7; 1001])).plain_body(&limits);
        assert!(matches!(over, Err(DecompressError::TooLarge { allowed: 1000, .. })));
    }
}

#[test]
fn a_zstd_window_larger_than_the_bound_is_refused_before_it_is_allocated() {
    // Magic, no content size, a window of 1 GiB, and the start of a block.
    let body = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xA0, 0x01, 0x00, 0x00].to_vec();
    let error = plain(sys_flag::ZSTD, body).unwrap_err();
    assert!(matches!(&error, DecompressError::Damaged { codec: "zstd", .. }), "{error}");
}

#[test]
fn damaged_and_truncated_bodies_are_refused() {
    let mut random = 1_u32;
    let text: Vec<u8> = std::iter::repeat_with(|| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as u8
    })
    .take(100_000)
    .collect();
    for method in METHODS {
        let whole = compress(method, &text);
        for cut in [0, 1, 5, whole.len() / 2, whole.len() - 5] {
            let error = plain(method, whole[..cut].to_vec());
            assert!(
                matches!(error, Err(DecompressError::Damaged { .. })),
                "{method:#x} cut at {cut}: {error:?}"
            );
        }
        assert!(plain(method, b"this is not compressed".to_vec()).is_err());
    }
}

#[test]
fn what_follows_the_end_is_not_ignored() {
    for method in METHODS {
        let twice = compress(method, b"one").repeat(2);
        let error = plain(method, twice).unwrap_err();
        assert!(error.to_string().ends_with("something follows its end"), "{method:#x}: {error}");
    }
}

#[test]
fn an_lz4_frame_that_ends_between_blocks_is_refused() {
    use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
    let info = FrameInfo::new().block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(&vec![3; 200_000]).unwrap();
    let whole = encoder.finish().unwrap();
    // Behind the frame's header of 7 bytes stands the first block, behind its length.
    let block = u32::from_le_bytes(whole[7..11].try_into().unwrap()) as usize;
    let cut = whole[..11 + block].to_vec();
    assert!(cut.len() < whole.len() - 20);
    assert!(plain(sys_flag::LZ4, cut).is_err());
}

#[test]
fn an_unknown_method_is_said_and_keeps_the_place() {
    let bad = stored(0x400, b"x".to_vec()).decompressed(&BodyLimits::default()).unwrap_err();
    assert_eq!(bad.reason, BadReason::Body(DecompressError::Unknown(4)));
    assert_eq!((bad.offset, bad.log_offset), (Some(5), Some(1000)));
    assert_eq!(bad.raw.len(), 111);
}

proptest! {
    // Each case takes some milliseconds: compressors prepare large tables.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_compressed_is_read(method in prop::sample::select(&METHODS), plain_body in prop::collection::vec(any::<u8>(), 0..3000)) {
        prop_assert_eq!(plain(method, compress(method, &plain_body)).unwrap(), plain_body);
    }

    #[test]
    fn mutated_bodies_do_no_harm(
        method in prop::sample::select(&METHODS),
        text in "[a-d]{0,2000}",
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut body = compress(method, text.as_bytes());
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let allowed = BodyLimits::default().allowed(body.len());
        if let Ok(plain) = plain(method, body) {
            prop_assert!(plain.len() <= allowed);
        }
    }
}
