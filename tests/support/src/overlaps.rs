//! What the history's judge takes for the price of a fault is looked at once more: a request may run beside the next owner's
//! only if it was under way while something broke.

use std::collections::BTreeMap;

use lockstep_history::{Event, History, Order, Outcome};

/// How late a sidecar notices that its connection was closed, in microseconds.
const NOTICED: u64 = 100_000;
/// How late an application may notice that a request was broken off, in microseconds.
const SLACK: u64 = 1_000_000;

/// One request.
#[derive(Debug)]
struct Request<'a> {
    name: &'a str,
    line: (&'a str, Option<&'a str>),
    start: u64,
    /// Until when it ran, for certain.
    end: u64,
}

/// The pairs of requests of one line that ran beside each other, the older of which was not under way at any of these faults,
/// each told by its beginning and its end.
pub fn unexplained(history: &History, order: Order, faults: &[(u64, u64)]) -> Vec<String> {
    let mut open: BTreeMap<(&str, Option<&str>), Vec<&Request<'_>>> = BTreeMap::new();
    let mut found = Vec::new();
    for request in &requests(history, order) {
        let others = open.entry(request.line).or_default();
        others.retain(|other| other.end > request.start);
        for other in others.iter() {
            let under_way =
                |(from, to): &(u64, u64)| other.start <= to.saturating_add(NOTICED) && *from <= request.start;
            if !faults.iter().any(under_way) {
                let (at, since) = (request.start, other.start);
                found.push(format!("{} at {at} beside {} since {since}", request.name, other.name));
            }
        }
        others.push(request);
    }
    found
}

/// All requests that have a line, by their start.
fn requests(history: &History, order: Order) -> Vec<Request<'_>> {
    let (mut keys, mut ends) = (BTreeMap::new(), BTreeMap::new());
    for event in history.events() {
        if let Event::Published { queue, position, key } = event {
            keys.insert((&**queue, *position), key.as_deref());
        } else if let Event::End { at, post, outcome } = event {
            let broken = *outcome == Outcome::Broken;
            ends.insert(&**post, if broken { at.saturating_sub(SLACK) } else { *at });
        }
    }
    let mut requests = Vec::new();
    for event in history.events() {
        if let Event::Start { at, post, queue, position, .. } = event {
            let line = match order {
                Order::PerQueue => (&**queue, None),
                Order::PerKey => (&**queue, keys.get(&(&**queue, *position)).copied().flatten()),
                Order::Unordered => continue,
            };
            let end = ends.get(&**post).copied().unwrap_or(u64::MAX);
            requests.push(Request { name: post, line, start: *at, end });
        }
    }
    requests.sort_by_key(|request| request.start);
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two messages of the keys, the second sent at `second` by another owner, the first from 1 s to 3 s.
    fn history(keys: [&str; 2], second: u64, outcome: Outcome) -> History {
        let mut history = History::default();
        for (position, key) in (0..).zip(keys) {
            history.push(Event::Published { queue: "q".into(), position, key: Some(key.into()) });
        }
        for (position, at, end) in [(0, 1_000_000, 3_000_000), (1, second, second + 1)] {
            let (post, consumer) = (format!("p{position}"), format!("c{position}").into());
            history.push(Event::Start {
                at,
                post: post.as_str().into(),
                queue: "q".into(),
                position,
                attempt: 1,
                consumer,
                epoch: Some(position),
            });
            let outcome = if position == 0 { outcome } else { Outcome::Answered(200) };
            history.push(Event::End { at: end, post: post.into(), outcome });
        }
        history
    }

    fn found(history: &History, faults: &[(u64, u64)]) -> usize {
        unexplained(history, Order::PerKey, faults).len()
    }

    #[test]
    fn only_what_was_under_way_at_a_fault_may_run_beside_the_next_owners() {
        let beside = history(["a", "a"], 2_500_000, Outcome::Answered(200));
        assert_eq!(found(&beside, &[(1_200_000, 1_300_000)]), 0);
        // It began while the connections were being closed.
        assert_eq!(found(&beside, &[(500_000, 950_000)]), 0);
        assert_eq!(found(&beside, &[]), 1);
        assert_eq!(found(&beside, &[(500_000, 600_000)]), 1, "it began after the fault");
        assert_eq!(found(&beside, &[(2_600_000, 2_700_000)]), 1, "the fault came later");
        assert_eq!(unexplained(&beside, Order::PerQueue, &[]).len(), 1);
        assert_eq!(unexplained(&beside, Order::Unordered, &[]).len(), 0);
    }

    #[test]
    fn other_lines_and_what_was_broken_off_are_no_overlap() {
        assert_eq!(found(&history(["a", "b"], 2_500_000, Outcome::Answered(200)), &[]), 0);
        assert_eq!(found(&history(["a", "a"], 3_000_000, Outcome::Answered(200)), &[]), 0);
        assert_eq!(found(&history(["a", "a"], 2_500_000, Outcome::Broken), &[]), 0);
        assert_eq!(found(&history(["a", "a"], 1_500_000, Outcome::Broken), &[]), 1);
    }
}
