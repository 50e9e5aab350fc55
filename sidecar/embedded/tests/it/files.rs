use std::{fs, num::NonZero};

use lockstep_embedded::{Embedded, NewMessage, OpenError, Options};

use crate::support::open;

fn message(body: &'static str) -> NewMessage {
    NewMessage { body: body.into(), ..NewMessage::default() }
}

#[tokio::test]
async fn a_file_is_opened_once_and_keeps_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q");
    let broker = open(&path);
    let first = broker.publish(message("1")).await.unwrap();
    assert!(matches!(Embedded::open(&path, Options::default()), Err(OpenError::Locked { .. })));
    drop(broker);
    let broker = open(&path);
    assert_eq!(broker.unfinished(), 1);
    let second = broker.publish(message("2")).await.unwrap();
    assert_ne!(first.id, second.id);
}

#[test]
fn the_number_of_queues_is_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q");
    let asked = |queues| Options { queues: NonZero::new(queues), ..Options::default() };
    drop(Embedded::open(&path, asked(2)).unwrap());
    assert_eq!(open(&path).queue_names().len(), 2);
    let error = Embedded::open(&path, asked(3)).unwrap_err();
    assert!(matches!(error, OpenError::QueueCount { found: 2, wanted: 3, .. }), "{error}");
    let error = Embedded::open(folder.path().join("other"), asked(1_000_000_000)).unwrap_err();
    assert!(matches!(error, OpenError::TooManyQueues { most: 1_024, .. }), "{error}");
}

#[test]
fn a_file_that_is_not_ours_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q");
    fs::write(&path, b"not a database at all, but somebody's letter".repeat(1_000)).unwrap();
    let error = Embedded::open(&path, Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");
    assert!(fs::read(&path).unwrap().starts_with(b"not a database"));
    let missing = folder.path().join("no-such-folder/q");
    let error = Embedded::open(&missing, Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_cut_short_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q");
    let broker = open(&path);
    for _ in 0..100 {
        broker.publish(message("something")).await.unwrap();
    }
    drop(broker);
    let length = fs::metadata(&path).unwrap().len();
    fs::File::options().write(true).open(&path).unwrap().set_len(length / 3).unwrap();
    let error = Embedded::open(&path, Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");
}
