use bytes::Bytes;
use proptest::prelude::*;

use super::{GOLDEN_STORED, build::Build, hex};
use crate::codec::{Bad, BadReason, BatchError, Entry, MIN_STORED, Stored, StoredMessages, sys_flag};

fn one(bytes: impl Into<Bytes>) -> Entry {
    let mut messages = StoredMessages::new(bytes.into());
    let entry = messages.next().unwrap().unwrap();
    assert!(messages.next().is_none());
    entry
}

fn good(bytes: impl Into<Bytes>) -> Stored {
    match one(bytes) {
        Entry::Stored(stored) => *stored,
        Entry::Bad(bad) => panic!("{bad:?}"),
    }
}

fn bad(bytes: impl Into<Bytes>) -> Bad {
    match one(bytes) {
        Entry::Bad(bad) => *bad,
        Entry::Stored(stored) => panic!("{stored:?}"),
    }
}

#[test]
fn the_golden_message() {
    let golden = hex(GOLDEN_STORED);
    assert_eq!(golden.len(), 115);
    assert_eq!(Build::default().bytes(), golden);
    let stored = good(golden);
    assert_eq!((stored.queue_id, stored.offset, stored.log_offset), (2, 5, 1000));
    assert_eq!((stored.born_ms, stored.stored_ms), (1_700_000_000_000, 1_700_000_000_001));
    assert_eq!((stored.born_host.port, stored.store_host.port), (10001, 10911));
    assert_eq!((&*stored.topic, &stored.body[..]), ("T", &b"hello"[..]));
    assert_eq!(stored.properties.get(b"TAGS"), Some(&b"TagA"[..]));
    assert_eq!(stored.properties.get(b"KEYS"), Some(&b"k1"[..]));
    assert_eq!(stored.id().to_string(), "7F00000100002A9F00000000000003E8");
}

#[test]
fn body_and_properties_are_slices_of_the_pull() {
    let bytes = Build { body: vec![1; 5000], ..Build::default() }.bytes();
    let range = bytes.as_ptr_range();
    let stored = good(bytes);
    assert!(range.contains(&stored.body.as_ptr()));
    let property = stored.properties.get_bytes(b"TAGS").unwrap();
    assert!(range.contains(&property.as_ptr()));
}

#[test]
fn the_smallest_message_and_a_body_of_4_mib() {
    let build = Build { body: vec![], topic: vec![], properties: vec![], ..Build::default() };
    assert_eq!(build.bytes().len(), MIN_STORED);
    assert!(good(build.bytes()).body.is_empty());
    let build = Build { body: vec![9; 4 << 20], ..Build::default() };
    assert_eq!(good(build.bytes()).body.len(), 4 << 20);
}

#[test]
fn the_second_form_has_long_topics_and_both_kinds_of_addresses() {
    let v6 = "fd00::17".parse().unwrap();
    let long = Build { v2: true, topic: vec![b't'; 200], store_ip: v6, ..Build::default() };
    let stored = good(long.bytes());
    assert_eq!(stored.topic.len(), 200);
    assert_eq!(stored.store_host.ip, v6);
    assert_eq!(stored.id().to_string(), "FD00000000000000000000000000001700002A9F00000000000003E8");
    let both = Build { born_ip: v6, store_ip: v6, ..Build::default() };
    assert_eq!(good(both.bytes()).born_host.ip, v6);
}

#[test]
fn a_bad_message_in_the_middle_hides_no_other() {
    let first = Build { offset: 10, ..Build::default() }.bytes();
    let mut middle = Build { offset: 11, log_offset: 2000, ..Build::default() }.bytes().to_vec();
    let body_at = middle.windows(5).position(|window| window == b"hello").unwrap();
    middle[body_at] = b'H';
    let last = Build { offset: 12, ..Build::default() }.bytes();
    let pull = Bytes::from([&first[..], &middle, &last].concat());
    let entries: Vec<_> = StoredMessages::new(pull).map(Result::unwrap).collect();
    assert!(matches!(&entries[0], Entry::Stored(stored) if stored.offset == 10));
    let Entry::Bad(bad) = &entries[1] else { panic!() };
    assert_eq!((bad.offset, bad.log_offset), (Some(11), Some(2000)));
    assert_eq!(bad.raw, middle);
    assert!(matches!(bad.reason, BadReason::Checksum { stored: 0x3610_a686, .. }));
    assert!(matches!(&entries[2], Entry::Stored(stored) if stored.offset == 12));
}

#[test]
fn what_is_wrong_is_said() {
    let magic = |bytes: Bytes| {
        let mut bytes = bytes.to_vec();
        bytes[4..8].copy_from_slice(&0xCBD4_3194_u32.to_be_bytes());
        bytes
    };
    let padding = bad(magic(Build::default().bytes()));
    assert_eq!((padding.reason, padding.offset), (BadReason::Magic(0xCBD4_3194), None));
    for flag in [sys_flag::INNER_BATCH, sys_flag::NEEDS_UNWRAP] {
        let inner = bad(Build { sys_flag: flag, ..Build::default() }.bytes());
        assert_eq!((inner.reason, inner.offset), (BadReason::InnerBatch, Some(5)));
    }
    let topic = bad(Build { topic: vec![0xff], ..Build::default() }.bytes());
    assert_eq!(topic.reason, BadReason::Topic);
}

#[test]
fn lengths_inside_a_message_stay_inside_it() {
    let change = |at: usize, bytes: &[u8]| {
        let mut message = hex(GOLDEN_STORED);
        message[at..at + bytes.len()].copy_from_slice(bytes);
        bad(message)
    };
    for length in [i32::MAX, -1, i32::MIN, 31] {
        assert_eq!(change(84, &length.to_be_bytes()).reason, BadReason::Short("body"), "{length}");
    }
    assert_eq!(change(93, &[0xff]).reason, BadReason::Short("topic"));
    assert_eq!(change(95, &[0x80, 0]).reason, BadReason::Short("properties"));
    assert_eq!(change(95, &[0, 17]).reason, BadReason::Surplus(1));
    assert_eq!(change(84, &[0xff; 4]).offset, Some(5));
}

#[test]
fn a_size_that_can_t_be_trusted_ends_the_batch_with_what_is_known() {
    let first = Build { offset: 10, ..Build::default() }.bytes();
    for (size, tail) in [(90, 200), (0, 200), (-1, 200), (i32::MAX, 200), (201, 196)] {
        let mut pull = first.to_vec();
        pull.extend_from_slice(&i32::to_be_bytes(size));
        pull.resize(pull.len() + tail, 0);
        let mut messages = StoredMessages::new(pull.into());
        assert!(matches!(messages.next(), Some(Ok(Entry::Stored(_)))));
        let error = messages.next().unwrap().unwrap_err();
        assert_eq!(error, BatchError { at: first.len(), size, left: tail + 4, last_offset: Some(10) });
        assert!(messages.next().is_none());
    }
    let mut cut = StoredMessages::new(Bytes::from_static(&[0, 0, 1]));
    assert_eq!(cut.next().unwrap().unwrap_err().left, 3);
}

fn builds() -> impl Strategy<Value = Build> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    let ips = any::<std::net::IpAddr>;
    (any::<(bool, i32, i64, i64)>(), ips(), ips(), bytes(300), "[a-z]{0,100}", bytes(300)).prop_map(
        |((v2, queue_id, offset, log_offset), born_ip, store_ip, body, topic, properties)| Build {
            v2,
            queue_id,
            offset,
            log_offset,
            born_ip,
            store_ip,
            body,
            topic: topic.into_bytes(),
            properties,
            ..Build::default()
        },
    )
}

proptest! {
    #[test]
    fn what_is_stored_is_read(builds in prop::collection::vec(builds(), 0..5)) {
        let pull: Vec<u8> = builds.iter().flat_map(|build| build.bytes()).collect();
        let mut messages = StoredMessages::new(pull.into());
        for build in builds {
            let Some(Ok(Entry::Stored(stored))) = messages.next() else { panic!() };
            prop_assert_eq!(stored.offset, build.offset);
            prop_assert_eq!(stored.born_host.ip, build.born_ip);
            prop_assert_eq!(stored.store_host.ip, build.store_ip);
            prop_assert_eq!(&stored.body[..], &build.body[..]);
            prop_assert_eq!(stored.topic.as_bytes(), &build.topic[..]);
        }
        prop_assert!(messages.next().is_none());
    }

    #[test]
    fn every_byte_of_a_mutated_pull_is_accounted_for(
        builds in prop::collection::vec(builds(), 1..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut pull: Vec<u8> = builds.iter().flat_map(|build| build.bytes()).collect();
        for (at, byte) in changes {
            let at = at.index(pull.len());
            pull[at] = byte;
        }
        let length = pull.len();
        let mut seen = 0;
        for entry in StoredMessages::new(pull.into()) {
            seen += match entry {
                Ok(Entry::Stored(stored)) => stored.raw.len(),
                Ok(Entry::Bad(bad)) => bad.raw.len(),
                Err(error) => error.left,
            };
        }
        prop_assert_eq!(seen, length);
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for entry in StoredMessages::new(bytes.into()) {
            drop(entry);
        }
    }
}
