//! Random clean histories with hand-overs, retries and kills; then one anomaly planted in each.

use std::collections::BTreeMap;

use super::*;

/// A small generator of numbers: the same seed gives the same history.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

const MESSAGES: u64 = 40;
const BOUND: u64 = 8;

/// Runs a queue to its end: at each step deliver, fail, commit, hand over or be killed.
fn clean(random: &mut Lcg) -> Script {
    let mut script = Script::with_messages(MESSAGES);
    let (mut next, mut committed, mut owner) = (0, 0, 0);
    let mut attempts: BTreeMap<u64, u32> = BTreeMap::new();
    while next < MESSAGES {
        let attempt = attempts.entry(next).or_insert(1);
        match random.below(12) {
            0 => {
                let consumer = format!("c{owner}");
                let post = script.start(next, *attempt, &consumer);
                script.end(post, Outcome::Answered(500));
                *attempt += 1;
            }
            1 => {
                script.commit(next);
                committed = next;
                owner += 1;
                script.epoch += 1;
                attempts.clear();
            }
            2 => {
                script.fault(BOUND, 1);
                next = committed;
                owner += 1;
                script.epoch += 1;
                attempts.clear();
            }
            _ => {
                let consumer = format!("c{owner}");
                let post = script.start(next, *attempt, &consumer);
                script.end(post, Outcome::Answered(200));
                next += 1;
            }
        }
        if next - committed >= BOUND {
            script.commit(next);
            committed = next;
        }
    }
    script.commit(MESSAGES);
    script
}

/// Has a position committed in the moment in which its message's first request starts.
fn unsafe_commit(script: &mut Script, random: &mut Lcg) {
    let wanted = random.below(MESSAGES);
    let start = script.history.events.iter().find_map(|event| {
        if let Event::Start { at, position, .. } = event
            && *position == wanted
        {
            Some(*at)
        } else {
            None
        }
    });
    let at = start.unwrap();
    script.history.push(Event::Commit { at, queue: "q".into(), position: wanted + 1 });
}

/// Makes one thing wrong and says what ought to be found.
fn plant(script: &mut Script, kind: u64, random: &mut Lcg) -> Anomaly {
    match kind {
        0 => {
            script.history.push(Event::Published { queue: "q".into(), position: MESSAGES, key: None });
            Anomaly::Loss
        }
        1 => {
            // Two positions never seen before change places.
            let position = MESSAGES + 1;
            script.history.push(Event::Published { queue: "q".into(), position: position - 1, key: None });
            script.history.push(Event::Published { queue: "q".into(), position, key: None });
            script.deliver([position, position - 1]);
            Anomaly::Reorder
        }
        2 => {
            script.fault(MESSAGES, 1);
            script.epoch += 1;
            script.deliver([0, 2]);
            Anomaly::Replay
        }
        3 => {
            script.fault(1, 1);
            script.epoch += 1;
            script.deliver(MESSAGES - 2..MESSAGES);
            Anomaly::DuplicatesBeyondBound
        }
        4 => {
            script.history.events.retain(|event| !matches!(event, Event::Fault { .. }));
            script.epoch += 1;
            script.deliver(MESSAGES - 1..MESSAGES);
            Anomaly::Duplicate
        }
        5 => {
            // Whoever had the last message was still busy with it when the next owner came.
            script.fault(2, 0);
            let last = script.start(MESSAGES - 1, 1, "late");
            script.epoch += 1;
            script.deliver(MESSAGES - 1..MESSAGES);
            script.end(last, Outcome::Answered(200));
            Anomaly::Overlap
        }
        6 => {
            script.fault(2, 1);
            script.epoch = 0;
            script.deliver(MESSAGES - 1..MESSAGES);
            Anomaly::StaleOwner
        }
        7 => {
            unsafe_commit(script, random);
            Anomaly::UnsafeCommit
        }
        8 => {
            script.history.events.retain(|event| !matches!(event, Event::Fault { .. }));
            script.commit(MESSAGES - 1);
            Anomaly::CommitWentBack
        }
        9 => {
            script.history.push(Event::Published { queue: "q".into(), position: MESSAGES, key: None });
            script.answer(MESSAGES, 1, 500);
            script.answer(MESSAGES, 3, 200);
            Anomaly::Attempts
        }
        _ => {
            script.deliver(MESSAGES + 7..MESSAGES + 8);
            Anomaly::Unknown
        }
    }
}

#[test]
fn random_clean_histories_are_clean() {
    for seed in 0..300 {
        let verdict = clean(&mut Lcg(seed)).verdict(Order::PerQueue);
        assert!(verdict.is_clean(), "seed {seed}: {verdict}");
    }
}

#[test]
fn a_planted_anomaly_is_found() {
    for seed in 0..300 {
        for kind in 0..11 {
            let mut random = Lcg(seed);
            let mut script = clean(&mut random);
            let planted = plant(&mut script, kind, &mut random);
            let verdict = script.verdict(Order::PerQueue);
            assert!(verdict.count(planted) > 0, "seed {seed}: {planted:?} was not found: {verdict}");
        }
    }
}

#[test]
fn the_order_in_which_events_were_written_down_does_not_matter() {
    for seed in 0..50 {
        let mut random = Lcg(seed);
        let script = clean(&mut random);
        let mut shuffled = script.history.events.clone();
        for index in (1..shuffled.len()).rev() {
            shuffled.swap(index, usize::try_from(random.below(index as u64 + 1)).unwrap());
        }
        let verdict = check(&History::from(shuffled), &Rules::new(Order::PerQueue));
        assert!(verdict.is_clean(), "seed {seed}: {verdict}");
        assert_eq!(verdict.counts, script.verdict(Order::PerQueue).counts);
    }
}
