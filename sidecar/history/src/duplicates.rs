//! Duplicates: each explained by a fault, and within what the fault may cost.

use std::collections::BTreeMap;

use crate::{Anomaly, Rules, Verdict, model::Model};

pub(crate) fn check(model: &Model, rules: &Rules, verdict: &mut Verdict) {
    let mut costs: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    for (index, post) in model.posts.iter().enumerate() {
        let Some(ours) = model.done_before(index, post, rules) else { continue };
        if ours.is_empty() {
            verdict.counts.duplicates_apart += 1;
            continue;
        }
        verdict.counts.duplicates += 1;
        match model.fault_before(&post.queue, post.start) {
            Some((fault, _)) => *costs.entry((fault, &post.queue)).or_default() += 1,
            None => verdict
                .found(Anomaly::Duplicate, || format!("{} was done before, without a fault", post.name())),
        }
    }
    for ((fault, queue), cost) in costs {
        verdict.counts.most_duplicates = verdict.counts.most_duplicates.max(cost);
        let Some(fault) = model.faults.get(fault) else { continue };
        if cost > fault.duplicates {
            verdict.found(Anomaly::DuplicatesBeyondBound, || {
                format!(
                    "{} at {} cost {cost} in {queue}, may cost {}",
                    fault.name, fault.at, fault.duplicates
                )
            });
        }
    }
}
