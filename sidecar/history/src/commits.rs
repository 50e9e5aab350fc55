//! Nothing below a committed position is without a final verdict.

use crate::{
    Anomaly, Verdict,
    model::{Model, Queue},
};

pub(crate) fn check(model: &Model, verdict: &mut Verdict) {
    for (name, queue) in &model.queues {
        let settled = settled_by(queue);
        let mut last: Option<(u64, u64)> = None;
        for (at, position) in &queue.commits {
            let below = queue.messages.partition_point(|message| message.position < *position);
            let settled = below.checked_sub(1).map_or(Some(0), |index| settled.get(index).copied().flatten());
            if settled.is_none_or(|settled| settled > *at) {
                verdict.found(Anomaly::UnsafeCommit, || {
                    let missing =
                        queue.messages.iter().take(below).find(|message| {
                            !message.excused && message.done_at.is_none_or(|done| done > *at)
                        });
                    let missing = missing.map_or(0, |message| message.position);
                    format!("{name}: {position} was committed by {at}, but @{missing} was not done")
                });
            }
            if let Some((before, higher)) = last
                && higher > *position
                && model.fault_before(name, *at).is_none_or(|(_, fault)| fault.at < before)
            {
                verdict.found(Anomaly::CommitWentBack, || {
                    format!("{name}: from {higher} to {position} at {at}")
                });
            }
            last = Some((*at, *position));
        }
    }
}

/// For each message the time by which it and all before it had a final verdict; `None` when one never got it.
fn settled_by(queue: &Queue) -> Vec<Option<u64>> {
    let mut latest = Some(0);
    let mut settled = Vec::with_capacity(queue.messages.len());
    for message in &queue.messages {
        if !message.excused {
            latest = latest.zip(message.done_at).map(|(latest, done)| latest.max(done));
        }
        settled.push(latest);
    }
    settled
}
