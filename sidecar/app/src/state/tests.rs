use super::*;

fn queue() -> QueueName {
    QueueName::from("orders/broker-a/3")
}

fn position(offset: u64) -> Identity {
    Identity::Position { offset, stored_ms: 5, log_offset: -1 }
}

#[test]
fn attempts_survive_a_restart_and_are_forgotten_when_done() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = State::open(folder.path());
    state.save_attempts(&queue(), &position(7), 2);
    state.save_attempts(&queue(), &Identity::Unique("ä".into()), 9);
    state.save_attempts(&queue(), &Identity::None, 9);
    state.save_attempts(&queue(), &position(8), 1);
    state.save_attempts(&queue(), &position(8), 0);
    state.flush();
    let again = State::open(folder.path());
    let attempts: Vec<_> = again.attempts("orders/broker-a/3").collect();
    assert_eq!(attempts, [(position(7), 2), (Identity::Unique("ä".into()), 9)]);
    assert_eq!(again.attempts("other").count(), 0);
}

#[test]
fn heads_of_a_queue_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = State::open(folder.path());
    for offset in 0..2_000 {
        state.save_attempts(&queue(), &position(offset), 1);
    }
    assert_eq!(state.attempts(&queue()).count(), HEADS_PER_QUEUE);
}

#[test]
fn only_an_unclean_exit_is_noticed_and_with_its_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let first = State::open(folder.path());
    assert_eq!(first.unclean(), None);
    first.mark_running(Duration::from_secs(30));
    let second = State::open(folder.path());
    assert_eq!(second.unclean(), Some(Duration::from_secs(30)));
    second.mark_clean();
    second.mark_clean();
    assert_eq!(State::open(folder.path()).unclean(), None);
}

#[test]
fn ids_counts_and_times_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = State::open(folder.path());
    assert_eq!(first.client_id(|| "a".to_owned()), "a");
    first.save_epoch(Epoch(50));
    first.save_epoch(Epoch(40));
    first.save_storm(3);
    first.flush();
    let second = State::open(folder.path());
    assert_eq!(second.client_id(|| "b".to_owned()), "a");
    assert_eq!((second.last_epoch(), second.storm()), (Epoch(50), 3));
    assert_eq!(second.first_start_ms(), first.first_start_ms());
}

#[test]
fn a_folder_that_cannot_be_made_costs_nothing_but_memory() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"x").unwrap();
    let mut state = State::open(&file.join("below"));
    state.save_attempts(&queue(), &position(7), 2);
    state.flush();
    state.mark_running(Duration::ZERO);
    assert_eq!(state.client_id(|| "made".to_owned()), "made");
}

#[test]
fn garbage_in_the_folder_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("attempts-x"), b"{").unwrap();
    fs::write(folder.path().join(LAST_EPOCH), b"many").unwrap();
    let state = State::open(folder.path());
    assert_eq!(state.last_epoch(), Epoch(0));
}
