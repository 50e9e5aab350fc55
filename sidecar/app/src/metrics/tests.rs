use std::collections::BTreeSet;

use super::*;

/// The page's tables name each metric in backticks in their first column; those of the operator come last.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../../../docs/metrics.md");
    let (sidecar, _) = page.split_once("\n# The operator's metrics\n").unwrap();
    sidecar
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn registered() -> BTreeSet<String> {
    let metrics = Metrics::new("test");
    // A family without a value is not encoded.
    let queue = QueueLabel { queue: "q".to_owned() };
    for family in [&metrics.received, &metrics.dead_letters, &metrics.skipped, &metrics.suppressed] {
        drop(family.get_or_create(&queue));
    }
    for family in [&metrics.span, &metrics.lag, &metrics.blocked] {
        drop(family.get_or_create(&queue));
    }
    for family in [&metrics.oldest_age, &metrics.lease_held] {
        drop(family.get_or_create(&queue));
    }
    for family in [&metrics.commits, &metrics.settlements] {
        drop(family.get_or_create(&ResultLabel { result: OperationResult::Ok }));
    }
    drop(metrics.lost_to_retention.get_or_create(&queue));
    drop(metrics.attempts.get_or_create(&VerdictLabel { verdict: Verdict::Done }));
    drop(metrics.late.get_or_create(&WhatLabel { what: "fetch" }));
    let text = metrics.encode();
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .collect()
}

#[test]
fn the_page_lists_exactly_the_metrics_that_exist() {
    let (documented, registered) = (documented(), registered());
    let missing: Vec<_> = registered.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&registered).collect();
    assert!(missing.is_empty() && gone.is_empty(), "not on the page: {missing:?}; no longer there: {gone:?}");
    assert!(registered.len() > 20);
}
