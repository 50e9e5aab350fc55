//! A connection that broke, and what becomes of the leases behind it.

use lockstep_model::Position;

use super::{Action, Bench, TIMING, Verdict, key, set};

#[test]
fn a_lost_connection_makes_doubt_and_a_lock_regained_with_our_own_commit_ends_it() {
    let (mut bench, epoch) = Bench::owning();
    bench.down();
    assert_eq!(bench.actions(), [Action::Doubtful { queue: key(0), epoch }]);
    bench.pass(10_000);
    bench.nothing();
    bench.up(0);
    let (ticket, _) = bench.asked();
    let sent = bench.now;
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let Some(Action::Verify { ticket, epoch: verified, .. }) = bench.machine.poll() else { panic!() };
    assert_eq!(verified, epoch);
    bench.machine.verified(bench.now, &key(0), ticket, Some(Verdict::Ours));
    assert_eq!(bench.actions(), [Action::Renewed { queue: key(0), epoch, deadline: sent + TIMING.lease }]);
}

#[test]
fn doubt_ends_in_loss_when_the_lock_is_refused() {
    let (mut bench, epoch) = Bench::owning();
    bench.down();
    bench.up(0);
    bench.actions();
    let Some(ticket) = bench.machine.asks.keys().next().copied() else { panic!() };
    bench.machine.locked(bench.now, ticket, Some(&set(&[])));
    assert_eq!(bench.actions(), [Action::Lost { queue: key(0), epoch }, Action::Refused]);
}

#[test]
fn doubt_ends_in_a_new_ownership_when_somebody_committed_beyond_us() {
    let (mut bench, epoch) = Bench::owning();
    let ticket = bench.doubts(epoch);
    bench.machine.verified(bench.now, &key(0), ticket, Some(Verdict::Ahead));
    assert_eq!(bench.machine.poll(), Some(Action::Lost { queue: key(0), epoch }));
    let ticket = bench.finding();
    bench.machine.positioned(bench.now, &key(0), ticket, Some(Position(9)));
    let Some(Action::Acquired { epoch: next, cursor: Position(9), .. }) = bench.machine.poll() else {
        panic!()
    };
    assert!(next > epoch);
}

#[test]
fn doubt_ends_with_a_moved_position_when_the_brokers_commit_holds() {
    let (mut bench, epoch) = Bench::owning();
    let ticket = bench.doubts(epoch);
    bench.machine.verified(bench.now, &key(0), ticket, Some(Verdict::Moved(Position(2))));
    let actions = bench.actions();
    assert!(
        matches!(actions[..], [
        Action::Renewed { .. },
        Action::Moved { epoch: e, to: Position(2), .. }
    ] if e == epoch),
        "{actions:?}"
    );
}

#[test]
fn doubt_that_outlives_the_lease_is_a_loss() {
    let (mut bench, epoch) = Bench::owning();
    bench.down();
    bench.actions();
    bench.pass(29_999);
    bench.nothing();
    bench.pass(1);
    assert_eq!(bench.actions(), [Action::Lost { queue: key(0), epoch }]);
}

#[test]
fn in_doubt_a_question_for_the_lock_that_failed_is_repeated_each_second() {
    let (mut bench, epoch) = Bench::owning();
    bench.down();
    bench.up(0);
    assert_eq!(bench.machine.poll(), Some(Action::Doubtful { queue: key(0), epoch }));
    let (ticket, _) = bench.asked();
    bench.machine.locked(bench.now, ticket, None);
    bench.pass(999);
    bench.nothing();
    bench.pass(1);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn in_doubt_a_comparison_that_failed_is_followed_by_another_question_for_the_lock() {
    let (mut bench, epoch) = Bench::owning();
    let ticket = bench.doubts(epoch);
    bench.machine.verified(bench.now, &key(0), ticket, None);
    bench.pass(999);
    bench.nothing();
    bench.pass(1);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn a_commit_in_doubt_is_not_repeated_behind_the_deadline_that_is_known_to_hold() {
    let (mut bench, _) = Bench::owning();
    let deadline = bench.at(30_000);
    bench.down();
    bench.pass(5_000);
    bench.up(0);
    bench.machine.poll();
    let (ticket, _) = bench.asked();
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let Some(Action::Verify { not_after, .. }) = bench.machine.poll() else { panic!("nothing compared") };
    assert_eq!(not_after, deadline);
}

#[test]
fn a_queue_that_somebody_committed_beyond_us_and_that_is_not_ours_any_more_is_unlocked() {
    let (mut bench, epoch) = Bench::owning();
    let ticket = bench.doubts(epoch);
    bench.machine.assign(bench.now, &set(&[]), true);
    bench.actions();
    bench.machine.verified(bench.now, &key(0), ticket, Some(Verdict::Ahead));
    let actions = bench.actions();
    assert!(
        matches!(actions[..], [Action::Lost { .. }, Action::FindPosition { .. }, Action::Unlock { .. }]),
        "{actions:?}"
    );
}
