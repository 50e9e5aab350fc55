//! Queues that go: to another member, by a release, by leaving, or for ever.

use lockstep_model::Position;

use super::{Action, Bench, key, set};

#[test]
fn a_queue_given_to_another_member_is_revoked_kept_and_released_when_it_is_done() {
    let (mut bench, epoch) = Bench::owning();
    bench.machine.assign(bench.now, &set(&[]), true);
    assert_eq!(bench.actions(), [Action::Revoking { queue: key(0), epoch }]);
    bench.pass(10_000);
    assert_eq!(bench.asked().1, [key(0)], "renewed while it drains");
    bench.machine.release(bench.now, &key(0), epoch);
    let ticket = bench.unlocking();
    assert!(!bench.machine.holds(&key(0)));
    bench.machine.unlocked(bench.now, &key(0), ticket);
    assert_eq!(bench.actions(), [Action::Released { queue: key(0), epoch }]);
}

#[test]
fn a_revocation_is_taken_back() {
    let (mut bench, epoch) = Bench::owning();
    bench.machine.assign(bench.now, &set(&[]), true);
    bench.machine.assign(bench.now, &set(&[0]), true);
    assert_eq!(
        bench.actions(),
        [Action::Revoking { queue: key(0), epoch }, Action::RevocationCancelled { queue: key(0), epoch }]
    );
}

#[test]
fn a_released_queue_that_is_still_ours_is_taken_again_under_a_new_epoch() {
    let (mut bench, epoch) = Bench::owning();
    bench.machine.release(bench.now, &key(0), epoch);
    let ticket = bench.unlocking();
    bench.machine.unlocked(bench.now, &key(0), ticket);
    assert_eq!(bench.machine.poll(), Some(Action::Released { queue: key(0), epoch }));
    let ticket = bench.locks(0);
    bench.machine.positioned(bench.now, &key(0), ticket, Some(Position(7)));
    let Some(Action::Acquired { epoch: next, .. }) = bench.machine.poll() else { panic!() };
    assert!(next > epoch);
}

#[test]
fn a_lock_granted_after_the_queue_went_elsewhere_is_given_back() {
    let mut bench = Bench::joined();
    bench.machine.assign(bench.now, &set(&[0]), true);
    let (ticket, _) = bench.asked();
    bench.machine.assign(bench.now, &set(&[]), true);
    assert!(!bench.machine.is_idle());
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let ticket = bench.unlocking();
    assert!(!bench.machine.is_idle());
    bench.machine.unlocked(bench.now, &key(0), ticket);
    bench.nothing();
    assert!(bench.machine.is_idle());
}

#[test]
fn leaving_keeps_what_is_owned_renewed_until_it_is_released_and_wants_nothing_new() {
    let (mut bench, epoch) = Bench::owning();
    bench.machine.assign(bench.now, &set(&[0, 1]), true);
    bench.actions();
    bench.machine.leave(bench.now);
    bench.nothing();
    bench.pass(10_000);
    assert_eq!(bench.asked().1, [key(0)]);
    bench.machine.release(bench.now, &key(0), epoch);
    let ticket = bench.unlocking();
    bench.machine.unlocked(bench.now, &key(0), ticket);
    assert_eq!(bench.actions(), [Action::Released { queue: key(0), epoch }]);
    assert!(bench.machine.lines.is_empty());
}

#[test]
fn a_removed_queue_is_lost_at_once() {
    let (mut bench, epoch) = Bench::owning();
    bench.machine.removed(bench.now, &set(&[0]));
    let actions = bench.actions();
    assert!(matches!(&actions[..], [Action::Lost { epoch: e, .. }, Action::Unlock { .. }] if *e == epoch));
}

#[test]
fn a_renewal_that_was_granted_while_the_queue_is_given_back_is_followed_by_another_unlock() {
    let (mut bench, epoch) = Bench::owning();
    bench.pass(10_000);
    let (renewal, _) = bench.asked();
    bench.machine.release(bench.now, &key(0), epoch);
    let ticket = bench.unlocking();
    // The broker may have locked it again after it unlocked it.
    bench.machine.locked(bench.now, renewal, Some(&set(&[0])));
    let again = bench.unlocking();
    bench.machine.unlocked(bench.now, &key(0), ticket);
    assert_eq!(bench.actions(), [Action::Released { queue: key(0), epoch }]);
    // It is still ours to take, but not while an unlock could undo the lock.
    bench.pass(500);
    bench.nothing();
    bench.machine.unlocked(bench.now, &key(0), again);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn a_queue_that_comes_back_while_it_is_unlocked_is_locked_when_the_unlock_was_answered() {
    let mut bench = Bench::joined();
    bench.machine.assign(bench.now, &set(&[0]), true);
    let (ticket, _) = bench.asked();
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    bench.actions();
    // While the position is looked for it goes to another member and comes back.
    bench.machine.assign(bench.now, &set(&[]), true);
    bench.machine.assign(bench.now, &set(&[0]), true);
    let ticket = bench.unlocking();
    bench.nothing();
    assert_eq!(bench.machine.wake(), None, "nothing to wake up for");
    bench.machine.unlocked(bench.now, &key(0), ticket);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn a_queue_that_is_removed_while_it_is_unlocked_is_not_asked_for_again() {
    let (mut bench, epoch) = Bench::owning();
    bench.machine.release(bench.now, &key(0), epoch);
    let ticket = bench.unlocking();
    bench.machine.removed(bench.now, &set(&[0]));
    bench.machine.unlocked(bench.now, &key(0), ticket);
    assert_eq!(bench.actions(), [Action::Released { queue: key(0), epoch }]);
    assert!(bench.machine.is_idle());
}

#[test]
fn a_release_on_its_way_ends_as_one_when_another_process_has_our_client_id() {
    let (mut bench, epoch) = Bench::owning();
    bench.machine.release(bench.now, &key(0), epoch);
    let ticket = bench.unlocking();
    bench.machine.forsake(bench.now);
    bench.nothing();
    bench.machine.unlocked(bench.now, &key(0), ticket);
    assert_eq!(bench.actions(), [Action::Released { queue: key(0), epoch }]);
}

#[test]
fn a_lock_granted_after_another_process_turned_out_to_have_our_client_id_is_left_to_it() {
    let mut bench = Bench::joined();
    bench.machine.assign(bench.now, &set(&[0]), true);
    let (ticket, _) = bench.asked();
    bench.machine.assign(bench.now, &set(&[]), true);
    bench.machine.forsake(bench.now);
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    bench.nothing();
}
