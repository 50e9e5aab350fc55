use std::{collections::BTreeSet, sync::Arc, time::Duration};

use lockstep_broker::EpochClock;
use lockstep_model::{Epoch, Moment, Position};

use super::{Action, Machine, Ticket, Timing, Verdict};
use crate::protocol::MessageQueue;

/// A lock life of 60 s.
const TIMING: Timing = Timing { lease: Duration::from_secs(30), renew_every: Duration::from_secs(10) };

struct Bench {
    machine: Machine,
    now: Moment,
}

fn key(id: i32) -> MessageQueue {
    MessageQueue { topic: Arc::from("t"), broker_name: Arc::from("b"), queue_id: id }
}

fn set(ids: &[i32]) -> BTreeSet<MessageQueue> {
    ids.iter().copied().map(key).collect()
}

impl Bench {
    fn joined() -> Self {
        let mut machine = Machine::new(TIMING, EpochClock::default());
        machine.join();
        let mut bench = Self { machine, now: Moment::from_millis(1_000_000) };
        bench.up(0);
        bench
    }

    /// A machine that owns queue 0 with the cursor 5.
    fn owning() -> (Self, Epoch) {
        let mut bench = Self::joined();
        let epoch = bench.own(0);
        (bench, epoch)
    }

    fn own(&mut self, id: i32) -> Epoch {
        let mut all: BTreeSet<MessageQueue> = self.machine.lines.keys().cloned().collect();
        all.insert(key(id));
        self.machine.assign(self.now, &all, true);
        let (ticket, _) = self.asked();
        self.machine.locked(self.now, ticket, Some(&set(&[id])));
        let Some(Action::FindPosition { ticket, .. }) = self.machine.poll() else {
            panic!("no position asked")
        };
        self.machine.positioned(self.now, &key(id), ticket, Some(Position(5)));
        let Some(Action::Acquired { epoch, cursor: Position(5), .. }) = self.machine.poll() else {
            panic!("not acquired")
        };
        epoch
    }

    fn up(&mut self, fresh_s: u64) {
        self.machine.link_up(self.now, &Arc::from("b"), Duration::from_secs(fresh_s));
    }

    fn down(&mut self) {
        self.machine.link_down(self.now, &Arc::from("b"));
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.machine.tick(self.now);
    }

    fn asked(&mut self) -> (Ticket, Vec<MessageQueue>) {
        match self.machine.poll() {
            Some(Action::Lock { ticket, queues, .. }) => (ticket, queues),
            other => panic!("expected a request for locks, got {other:?}"),
        }
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.machine.poll()).collect()
    }

    fn nothing(&mut self) {
        assert_eq!(self.actions(), []);
    }

    fn at(&self, millis: u64) -> Moment {
        self.now + Duration::from_millis(millis)
    }
}

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
    bench.down();
    bench.up(0);
    bench.machine.poll();
    let (ticket, _) = bench.asked();
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let Some(Action::Verify { ticket, .. }) = bench.machine.poll() else { panic!() };
    bench.machine.verified(bench.now, &key(0), ticket, Some(Verdict::Ahead));
    assert_eq!(bench.machine.poll(), Some(Action::Lost { queue: key(0), epoch }));
    let Some(Action::FindPosition { ticket, .. }) = bench.machine.poll() else { panic!() };
    bench.machine.positioned(bench.now, &key(0), ticket, Some(Position(9)));
    let Some(Action::Acquired { epoch: next, cursor: Position(9), .. }) = bench.machine.poll() else {
        panic!()
    };
    assert!(next > epoch);
}

#[test]
fn doubt_ends_with_a_moved_position_when_the_brokers_commit_holds() {
    let (mut bench, epoch) = Bench::owning();
    bench.down();
    bench.up(0);
    bench.machine.poll();
    let (ticket, _) = bench.asked();
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let Some(Action::Verify { ticket, .. }) = bench.machine.poll() else { panic!() };
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
fn a_queue_given_to_another_member_is_revoked_kept_and_released_when_it_is_done() {
    let (mut bench, epoch) = Bench::owning();
    bench.machine.assign(bench.now, &set(&[]), true);
    assert_eq!(bench.actions(), [Action::Revoking { queue: key(0), epoch }]);
    bench.pass(10_000);
    assert_eq!(bench.asked().1, [key(0)], "renewed while it drains");
    bench.machine.release(bench.now, &key(0), epoch);
    let Some(Action::Unlock { ticket, .. }) = bench.machine.poll() else { panic!() };
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
    let Some(Action::Unlock { ticket, .. }) = bench.machine.poll() else { panic!() };
    bench.machine.unlocked(bench.now, &key(0), ticket);
    assert_eq!(bench.machine.poll(), Some(Action::Released { queue: key(0), epoch }));
    let (ticket, _) = bench.asked();
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let Some(Action::FindPosition { ticket, .. }) = bench.machine.poll() else { panic!() };
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
    let Some(Action::Unlock { ticket, .. }) = bench.machine.poll() else { panic!() };
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
    let Some(Action::Unlock { ticket, .. }) = bench.machine.poll() else { panic!() };
    bench.machine.unlocked(bench.now, &key(0), ticket);
    assert_eq!(bench.actions(), [Action::Released { queue: key(0), epoch }]);
    assert!(bench.machine.lines.is_empty());
}

#[test]
fn a_position_that_can_not_be_found_is_looked_for_again_while_the_lock_is_kept() {
    let mut bench = Bench::joined();
    bench.machine.assign(bench.now, &set(&[0]), true);
    let (ticket, _) = bench.asked();
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let Some(Action::FindPosition { ticket, .. }) = bench.machine.poll() else { panic!() };
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
    let Some(Action::Unlock { ticket, .. }) = bench.machine.poll() else { panic!() };
    // The broker may have locked it again after it unlocked it.
    bench.machine.locked(bench.now, renewal, Some(&set(&[0])));
    let Some(Action::Unlock { ticket: again, .. }) = bench.machine.poll() else { panic!() };
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
    let Some(Action::Unlock { ticket, .. }) = bench.machine.poll() else { panic!() };
    bench.nothing();
    assert_eq!(bench.machine.wake(), None, "nothing to wake up for");
    bench.machine.unlocked(bench.now, &key(0), ticket);
    assert_eq!(bench.asked().1, [key(0)]);
}

#[test]
fn a_queue_that_was_given_back_is_not_locked_early_for_having_been_held_at_the_disconnect() {
    let (mut bench, _) = Bench::owning();
    bench.down();
    bench.up(0);
    bench.machine.poll();
    let (ticket, _) = bench.asked();
    bench.machine.locked(bench.now, ticket, Some(&set(&[0])));
    let Some(Action::Verify { ticket, .. }) = bench.machine.poll() else { panic!() };
    bench.machine.verified(bench.now, &key(0), ticket, Some(Verdict::Ahead));
    bench.actions();
    // It goes to another member while its position is looked for: from the unlock on anybody may hold its lock.
    bench.machine.assign(bench.now, &set(&[]), true);
    let Some(Action::Unlock { ticket, .. }) = bench.machine.poll() else { panic!() };
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
