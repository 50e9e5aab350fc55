//! One owner at a time.

use std::collections::BTreeMap;

use crate::{
    Anomaly, Outcome, Rules, Verdict,
    model::{Line, Model, Post},
};

pub(crate) fn check(model: &Model, rules: &Rules, verdict: &mut Verdict) {
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut open: BTreeMap<Line, Vec<&Post>> = BTreeMap::new();
    let mut costs: BTreeMap<(usize, Line), u64> = BTreeMap::new();
    for post in &model.posts {
        let line = model.line(post, rules.order);
        if let Some(epoch) = post.epoch.filter(|_| !rules.shared) {
            let newest = newest.entry(&post.queue).or_default();
            if epoch < *newest {
                // What was being sent when its owner was frozen leaves it when it wakes, and is broken off at once: one of
                // the overlaps of that fault. Who waits for its answer does not look at his lease.
                let broken = matches!(post.end, Some((_, Outcome::Broken)));
                let fault = model
                    .fault_before(&post.queue, post.start)
                    .filter(|(_, fault)| fault.overlaps > 0 && broken);
                if let (Some((fault, _)), Some(line)) = (fault, line.clone()) {
                    verdict.counts.overlaps += 1;
                    *costs.entry((fault, line)).or_default() += 1;
                    continue;
                }
                let newest = *newest;
                verdict.found(Anomaly::StaleOwner, || {
                    format!("{} was sent under epoch {epoch} after {newest}", post.name())
                });
            }
            *newest = (*newest).max(epoch);
        }
        let Some(line) = line else { continue };
        let open = open.entry(line.clone()).or_default();
        open.retain(|other| runs_at(other, post.start, rules));
        for other in open.iter() {
            overlap(model, other, post, &line, &mut costs, verdict);
        }
        open.push(post);
    }
    for ((fault, line), cost) in costs {
        let Some(fault) = model.faults.get(fault) else { continue };
        if cost > fault.overlaps {
            verdict.found(Anomaly::Overlap, || {
                let allowed = fault.overlaps;
                format!("{} at {}: {cost} overlaps in {}, {allowed} allowed", fault.name, fault.at, line.0)
            });
        }
    }
}

/// Whether a request was still running. One that was broken off may have been noticed late.
fn runs_at(post: &Post, at: u64, rules: &Rules) -> bool {
    match post.end {
        None => true,
        Some((end, Outcome::Broken)) => end > at.saturating_add(rules.slack),
        Some((end, Outcome::Answered(_))) => end > at,
    }
}

fn overlap(
    model: &Model,
    other: &Post,
    post: &Post,
    line: &Line,
    costs: &mut BTreeMap<(usize, Line), u64>,
    verdict: &mut Verdict,
) {
    if other.consumer == post.consumer && other.epoch == post.epoch {
        verdict
            .found(Anomaly::Overlap, || format!("{} ran beside {} of one owner", post.name(), other.name()));
        return;
    }
    verdict.counts.overlaps += 1;
    match model.fault_before(&post.queue, post.start) {
        Some((fault, _)) => *costs.entry((fault, line.clone())).or_default() += 1,
        None => {
            verdict.found(Anomaly::Overlap, || {
                format!("{} ran beside {}, without a fault", post.name(), other.name())
            });
        }
    }
}
