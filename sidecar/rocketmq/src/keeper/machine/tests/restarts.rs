//! What may be locked on a broker that has just been started.

use super::{Action, Bench, Verdict, key, set};

#[test]
fn on_a_broker_just_started_only_queues_held_at_the_disconnect_are_locked() {
    let (mut bench, epoch) = Bench::owning();
    bench.down();
    bench.actions();
    bench.machine.assign(bench.now, &set(&[0, 1]), true);
    bench.nothing();
    // The broker is back; its uptime leaves 20 s of the lease in which others may still believe in their locks.
    bench.up(20);
    let (ticket, queues) = bench.asked();
    assert_eq!(queues, [key(0)]);
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let Some(Action::Verify { ticket, epoch: same, .. }) = bench.machine.poll() else { panic!() };
    bench.machine.verified(bench.now, &key(0), ticket, Some(Verdict::Ours));
    assert_eq!(same, epoch);
    assert!(matches!(bench.actions()[..], [Action::Renewed { .. }]));
    assert_eq!(bench.machine.waits_for_fresh(bench.now).as_deref(), Some("b"));
    bench.pass(9_000);
    bench.nothing();
    bench.pass(11_000);
    assert_eq!(bench.machine.waits_for_fresh(bench.now), None);
    let asked: Vec<_> = bench
        .actions()
        .into_iter()
        .filter_map(|action| if let Action::Lock { queues, .. } = action { Some(queues) } else { None })
        .collect();
    assert_eq!(asked, [vec![key(0)], vec![key(1)]]);
}

#[test]
fn a_queue_held_so_long_ago_that_others_may_have_taken_it_is_not_locked_early() {
    let (mut bench, _) = Bench::owning();
    bench.down();
    // Its lock would have run out at the broker after 60 s: another member may have owned it since.
    bench.pass(60_000);
    bench.actions();
    bench.up(20);
    bench.nothing();
    bench.pass(20_000);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn a_queue_of_a_lost_lease_may_be_locked_early_while_its_lock_would_still_be_alive() {
    let (mut bench, epoch) = Bench::owning();
    bench.down();
    bench.pass(45_000);
    let actions = bench.actions();
    assert_eq!(actions[1], Action::Lost { queue: key(0), epoch });
    bench.up(20);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn a_queue_that_was_given_back_is_not_locked_early_for_having_been_held_at_the_disconnect() {
    let (mut bench, epoch) = Bench::owning();
    let ticket = bench.doubts(epoch);
    bench.machine.verified(bench.now, &key(0), ticket, Some(Verdict::Ahead));
    bench.actions();
    // It goes to another member while its position is looked for: from the unlock on anybody may hold its lock.
    bench.machine.assign(bench.now, &set(&[]), true);
    let ticket = bench.unlocking();
    bench.machine.unlocked(bench.now, &key(0), ticket);
    // It comes back when the broker was restarted and has forgotten who held it.
    bench.down();
    bench.machine.assign(bench.now, &set(&[0]), true);
    bench.up(20);
    bench.nothing();
    bench.pass(20_000);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn a_queue_that_another_process_had_under_our_name_is_not_locked_early() {
    let (mut bench, _) = Bench::owning();
    bench.down();
    bench.up(0);
    bench.actions();
    bench.machine.forsake(bench.now);
    bench.down();
    bench.actions();
    bench.machine.allow_acquiring(true);
    bench.up(20);
    bench.nothing();
    bench.pass(20_000);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn a_queue_whose_lock_was_refused_is_not_locked_early() {
    let (mut bench, _) = Bench::owning();
    bench.down();
    bench.up(0);
    bench.machine.poll();
    let (ticket, _) = bench.asked();
    bench.machine.locked(bench.now, ticket, Some(&set(&[])));
    bench.actions();
    // The other owner may still believe in its lock when the broker has forgotten it.
    bench.down();
    bench.up(20);
    bench.pass(300);
    bench.nothing();
    bench.pass(19_700);
    assert_eq!(bench.asked().1, [key(0)]);
}
