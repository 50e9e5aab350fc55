use super::*;
use crate::How;

#[test]
fn a_straight_run_is_clean() {
    let mut script = Script::with_messages(4);
    script.deliver(0..2);
    script.commit(2);
    script.deliver(2..4);
    script.commit(4);
    let counts = script.is_clean().counts;
    assert_eq!((counts.published, counts.posts, counts.done, counts.duplicates), (4, 4, 4, 0));
}

#[test]
fn a_message_that_was_never_answered_is_lost() {
    let mut script = Script::with_messages(3);
    script.deliver(0..2);
    script.answer(2, 1, 500);
    script.finds(Anomaly::Loss);
}

#[test]
fn an_incomplete_run_may_be_judged_before_its_end() {
    let mut script = Script::with_messages(3);
    script.deliver(0..2);
    let rules = Rules { complete: false, ..Rules::new(Order::PerQueue) };
    assert!(check(&script.history, &rules).is_clean());
}

#[test]
fn a_dead_letter_is_no_loss_and_may_be_passed() {
    let mut script = Script::with_messages(3);
    script.deliver(0..1);
    script.answer(1, 1, 400);
    let at = script.tick();
    script.history.push(Event::Final { at, queue: "q".into(), position: 1, how: How::DeadLetter });
    script.deliver(2..3);
    script.commit(3);
    assert_eq!(script.is_clean().counts.finals, 1);
}

#[test]
fn a_late_first_delivery_is_a_reorder() {
    let mut script = Script::with_messages(3);
    script.deliver([0, 2, 1]);
    script.finds(Anomaly::Reorder);
}

#[test]
fn a_start_before_the_predecessor_was_done_is_a_reorder() {
    let mut script = Script::with_messages(2);
    script.answer(0, 1, 500);
    script.deliver(1..2);
    script.answer(0, 2, 200);
    assert_eq!(script.verdict(Order::PerQueue).count(Anomaly::Reorder), 1);
}

#[test]
fn keys_have_lines_of_their_own() {
    let mut script = Script::with_messages(4);
    script.deliver([1, 0, 2, 3]);
    assert!(script.verdict(Order::PerKey).is_clean());
    script.finds(Anomaly::Reorder);

    let mut script = Script::with_messages(4);
    script.deliver([2, 0, 1, 3]);
    assert_eq!(script.verdict(Order::PerKey).count(Anomaly::Reorder), 1);
    assert!(script.verdict(Order::Unordered).is_clean());
}

#[test]
fn a_rewind_after_a_fault_is_within_its_bound() {
    let mut script = Script::with_messages(5);
    script.deliver(0..3);
    script.fault(2, 0);
    script.epoch = 2;
    script.deliver(1..5);
    let counts = script.is_clean().counts;
    assert_eq!((counts.duplicates, counts.rewinds, counts.most_duplicates), (2, 1, 2));
}

#[test]
fn a_rewind_beyond_the_bound_is_found() {
    let mut script = Script::with_messages(5);
    script.deliver(0..3);
    script.fault(2, 0);
    script.deliver(0..5);
    script.finds(Anomaly::DuplicatesBeyondBound);
}

#[test]
fn a_duplicate_needs_a_fault() {
    let mut script = Script::with_messages(2);
    script.deliver([0, 0, 1]);
    script.finds(Anomaly::Duplicate);
}

#[test]
fn what_another_make_had_done_is_counted_apart() {
    let mut script = Script::with_messages(3);
    script.deliver(0..1);
    let post = script.start(1, 1, "java");
    script.end(post, Outcome::Answered(200));
    script.deliver(1..3);
    let mut rules = Rules::new(Order::PerQueue);
    rules.apart.insert("java".to_owned());
    let verdict = check(&script.history, &rules);
    assert!(verdict.is_clean(), "{verdict}");
    assert_eq!(verdict.counts.duplicates_apart, 1);
    script.finds(Anomaly::Duplicate);
}

#[test]
fn a_replay_with_a_hole_is_found() {
    for replay in [vec![1, 3, 4, 5], vec![1, 2, 5]] {
        let mut script = Script::with_messages(6);
        script.deliver(0..5);
        script.fault(9, 0);
        script.deliver(replay);
        script.finds(Anomaly::Replay);
    }
}

#[test]
fn a_replay_may_leave_out_what_is_done_where_it_is_settled_one_by_one() {
    let rules = Rules { gaps: true, ..Rules::new(Order::PerQueue) };
    let with_hole = |undone: bool| {
        let mut script = Script::with_messages(6);
        script.deliver(0..4);
        if undone {
            script.answer(4, 1, 500);
        } else {
            script.deliver(4..5);
        }
        script.fault(9, 0);
        script.deliver([1, 3]);
        script.deliver(5..6);
        check(&script.history, &rules)
    };
    assert!(with_hole(false).is_clean(), "{}", with_hole(false));
    assert!(with_hole(true).count(Anomaly::Replay) > 0);
}

#[test]
fn two_requests_of_one_owner_overlap() {
    let mut script = Script::with_messages(2);
    let first = script.start(0, 1, "a");
    let second = script.start(0, 2, "a");
    script.end(first, Outcome::Answered(500));
    script.end(second, Outcome::Answered(200));
    script.deliver(1..2);
    script.finds(Anomaly::Overlap);
}

#[test]
fn two_owners_overlap_only_as_far_as_a_fault_allows() {
    let run = |overlaps| {
        let mut script = Script::with_messages(2);
        if let Some(overlaps) = overlaps {
            script.fault(1, overlaps);
        }
        let old = script.start(0, 1, "a");
        script.epoch = 2;
        let new = script.start(0, 1, "b");
        script.end(old, Outcome::Answered(500));
        script.end(new, Outcome::Answered(200));
        let post = script.start(1, 1, "b");
        script.end(post, Outcome::Answered(200));
        script
    };
    run(Some(1)).is_clean();
    run(Some(0)).finds(Anomaly::Overlap);
    run(None).finds(Anomaly::Overlap);
}

#[test]
fn an_old_owner_that_sends_again_is_found() {
    let mut script = Script::with_messages(3);
    script.epoch = 2;
    script.deliver(0..1);
    script.epoch = 1;
    script.deliver(1..3);
    script.finds(Anomaly::StaleOwner);
}

#[test]
fn what_was_being_sent_at_a_freeze_may_leave_late_and_no_more() {
    let run = |late: u64, overlaps, outcome: Outcome| {
        let mut script = Script::with_messages(4);
        script.deliver(0..1);
        script.fault(3, overlaps);
        script.epoch = 2;
        script.deliver(1..2);
        script.epoch = 1;
        for _ in 0..late {
            let post = script.start(1, 1, "frozen");
            script.end(post, outcome);
        }
        script.epoch = 2;
        script.deliver(2..4);
        script
    };
    run(1, 1, Outcome::Broken).is_clean();
    run(1, 0, Outcome::Broken).finds(Anomaly::StaleOwner);
    run(1, 1, Outcome::Answered(500)).finds(Anomaly::StaleOwner);
    run(2, 1, Outcome::Broken).finds(Anomaly::Overlap);
}

#[test]
fn several_owners_of_a_shared_queue_may_send_beside_each_other() {
    let mut script = Script::with_messages(3);
    script.epoch = 2;
    script.deliver(0..1);
    script.epoch = 1;
    script.deliver(1..3);
    let rules = Rules { shared: true, ..Rules::new(Order::Unordered) };
    assert!(check(&script.history, &rules).is_clean());
}

#[test]
fn a_commit_before_the_answer_is_unsafe() {
    let mut script = Script::with_messages(2);
    script.deliver(0..1);
    script.commit(2);
    script.deliver(1..2);
    script.finds(Anomaly::UnsafeCommit);
}

#[test]
fn a_commit_over_a_failed_message_is_unsafe() {
    let mut script = Script::with_messages(1);
    script.answer(0, 1, 500);
    script.commit(1);
    assert_eq!(script.verdict(Order::PerQueue).count(Anomaly::UnsafeCommit), 1);
}

#[test]
fn a_commit_goes_back_only_after_a_fault() {
    let mut script = Script::with_messages(2);
    script.deliver(0..2);
    script.commit(2);
    script.fault(0, 0);
    script.commit(1);
    script.is_clean();
    script.commit(2);
    script.commit(1);
    script.finds(Anomaly::CommitWentBack);
}

#[test]
fn attempts_rise_by_one_when_spent() {
    for (attempts, clean) in
        [([1, 2, 3], true), ([1, 1, 2], false), ([1, 3, 4], false), ([2, 3, 4], false), ([1, 2, 1], false)]
    {
        let mut script = Script::with_messages(1);
        script.answer(0, attempts[0], 500);
        script.answer(0, attempts[1], 500);
        script.answer(0, attempts[2], 200);
        if clean {
            script.is_clean();
        } else {
            script.finds(Anomaly::Attempts);
        }
    }
}

/// An application that dies may have taken a request and not written it down: each fault excuses one attempt.
#[test]
fn a_fault_may_hide_one_spent_attempt() {
    let cases = [
        (0, 1, 1, true),
        (0, 1, 2, true),
        // The fault that broke the first attempt off hides no other.
        (0, 1, 3, false),
        (1, 1, 3, true),
        (1, 1, 4, false),
        // Hidden before the first record.
        (0, 2, 3, true),
        (0, 3, 4, false),
    ];
    for (more_faults, first, second, clean) in cases {
        let mut script = Script::with_messages(1);
        if first > 1 {
            script.fault(0, 0);
        }
        let post = script.start(0, first, "a");
        script.fault(0, 0);
        script.end(post, Outcome::Broken);
        (0..more_faults).for_each(|_| script.fault(0, 0));
        script.answer(0, second, 200);
        if clean {
            script.is_clean();
        } else {
            script.finds(Anomaly::Attempts);
        }
    }
}

#[test]
fn a_snooze_spends_no_attempt() {
    let mut script = Script::with_messages(1);
    script.answer(0, 1, 503);
    script.answer(0, 1, 404);
    script.answer(0, 1, 200);
    script.is_clean();
}

#[test]
fn what_was_never_published_is_unknown() {
    let mut script = Script::with_messages(1);
    script.deliver(0..2);
    script.finds(Anomaly::Unknown);
}

#[test]
fn contradictions_are_malformed() {
    let mut script = Script::with_messages(1);
    script.deliver(0..1);
    script.end("p1".into(), Outcome::Broken);
    script.finds(Anomaly::Malformed);

    let mut script = Script::with_messages(1);
    script.deliver(0..1);
    script.history.push(Event::Published { queue: "q".into(), position: 0, key: None });
    script.finds(Anomaly::Malformed);
}
