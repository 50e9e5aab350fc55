//! Locks: asked for, granted, refused, renewed and lost.

use std::time::Duration;

use lockstep_model::Position;

use super::{Action, Bench, TIMING, key, set};

#[test]
fn a_refused_lock_is_asked_for_again_after_300_ms_until_it_is_granted() {
    let mut bench = Bench::joined();
    bench.machine.assign(bench.now, &set(&[0, 1]), true);
    let (ticket, queues) = bench.asked();
    assert_eq!(queues, [key(0), key(1)]);
    bench.machine.locked(bench.now, ticket, Some(&set(&[1])));
    let found = bench.actions();
    assert!(matches!(found[..], [Action::Refused, Action::FindPosition { .. }]), "{found:?}");
    assert!(!bench.machine.is_achieved());
    assert_eq!(bench.machine.wake(), Some(bench.at(300)));
    bench.pass(299);
    bench.nothing();
    bench.pass(1);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn a_lease_counts_from_the_sending_of_the_request() {
    let mut bench = Bench::joined();
    bench.machine.assign(bench.now, &set(&[0]), true);
    let (ticket, _) = bench.asked();
    let sent = bench.now;
    bench.pass(900);
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let Some(Action::FindPosition { ticket, not_after, .. }) = bench.machine.poll() else { panic!() };
    assert_eq!(not_after, sent + TIMING.lease);
    bench.machine.positioned(bench.now, &key(0), ticket, Some(Position(0)));
    let Some(Action::Acquired { deadline, .. }) = bench.machine.poll() else { panic!() };
    assert_eq!(deadline, sent + TIMING.lease);
}

#[test]
fn a_lease_is_renewed_every_sixth_of_the_lifetime_and_a_failure_is_repeated_each_second() {
    let (mut bench, epoch) = Bench::owning();
    assert_eq!(bench.machine.wake(), Some(bench.at(10_000)));
    bench.pass(9_999);
    bench.nothing();
    bench.pass(1);
    let (ticket, _) = bench.asked();
    bench.machine.locked(bench.now, ticket, None);
    bench.nothing();
    bench.pass(999);
    bench.nothing();
    bench.pass(1);
    let (ticket, _) = bench.asked();
    // An answer that comes later than a second is followed by the next try at once.
    let sent = bench.now;
    bench.pass(1_500);
    bench.machine.locked(bench.now, ticket, None);
    let (ticket, _) = bench.asked();
    let again = bench.now;
    assert!(again > sent);
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    assert_eq!(bench.actions(), [Action::Renewed { queue: key(0), epoch, deadline: again + TIMING.lease }]);
}

#[test]
fn renewals_that_all_fail_end_in_loss_at_the_deadline() {
    let (mut bench, epoch) = Bench::owning();
    let deadline = bench.at(30_000);
    while bench.now + Duration::from_millis(100) < deadline {
        bench.pass(100);
        for action in bench.actions() {
            let Action::Lock { ticket, .. } = action else { panic!("too early: {action:?}") };
            bench.machine.locked(bench.now, ticket, None);
        }
    }
    bench.pass(100);
    assert_eq!(bench.actions()[0], Action::Lost { queue: key(0), epoch });
}

#[test]
fn a_refused_renewal_is_a_loss() {
    let (mut bench, epoch) = Bench::owning();
    bench.pass(10_000);
    let (ticket, _) = bench.asked();
    bench.machine.locked(bench.now, ticket, Some(&set(&[])));
    assert_eq!(bench.actions(), [Action::Lost { queue: key(0), epoch }, Action::Refused]);
    bench.pass(300);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn after_a_freeze_the_lease_is_lost_before_a_late_answer_counts() {
    let (mut bench, epoch) = Bench::owning();
    bench.pass(10_000);
    let (ticket, _) = bench.asked();
    // Frozen for a minute; the renewal's grant lies in the socket.
    bench.now += Duration::from_secs(60);
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let actions = bench.actions();
    assert_eq!(actions[0], Action::Lost { queue: key(0), epoch });
    assert!(!actions.iter().any(|action| matches!(action, Action::Renewed { .. } | Action::Acquired { .. })));
    // It is asked for anew.
    assert!(matches!(actions[1..], [Action::Lock { .. }]), "{actions:?}");
}

#[test]
fn a_grant_that_comes_after_its_own_lease_is_no_lease() {
    let mut bench = Bench::joined();
    bench.machine.assign(bench.now, &set(&[0]), true);
    let (ticket, _) = bench.asked();
    bench.pass(30_000);
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let (_, queues) = bench.asked();
    assert_eq!(queues, [key(0)]);
    bench.nothing();
}

#[test]
fn a_position_that_can_not_be_found_is_looked_for_again_while_the_lock_is_kept() {
    let mut bench = Bench::joined();
    bench.machine.assign(bench.now, &set(&[0]), true);
    let ticket = bench.locks(0);
    bench.machine.positioned(bench.now, &key(0), ticket, None);
    bench.nothing();
    bench.pass(1_000);
    assert!(matches!(bench.actions()[..], [Action::FindPosition { .. }]));
    bench.pass(9_000);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn while_another_process_has_our_client_id_nothing_new_is_locked() {
    let mut bench = Bench::joined();
    bench.machine.allow_acquiring(false);
    bench.machine.assign(bench.now, &set(&[0]), true);
    bench.nothing();
    bench.machine.allow_acquiring(true);
    bench.pass(1);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn a_lock_is_renewed_while_where_to_begin_is_looked_for() {
    let mut bench = Bench::joined();
    bench.machine.assign(bench.now, &set(&[0]), true);
    let looking = bench.locks(0);
    bench.pass(10_000);
    let (ticket, _) = bench.asked();
    let sent = bench.now;
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    bench.nothing();
    bench.machine.positioned(bench.now, &key(0), looking, Some(Position(5)));
    let Some(Action::Acquired { deadline, .. }) = bench.machine.poll() else { panic!("not acquired") };
    assert_eq!(deadline, sent + TIMING.lease);
}

#[test]
fn a_lock_whose_connection_broke_while_where_to_begin_was_looked_for_is_asked_for_anew() {
    let mut bench = Bench::joined();
    bench.machine.assign(bench.now, &set(&[0]), true);
    let looking = bench.locks(0);
    bench.down();
    bench.nothing();
    bench.machine.positioned(bench.now, &key(0), looking, Some(Position(5)));
    bench.nothing();
    bench.up(0);
    assert_eq!(bench.asked().1, [key(0)]);
}
