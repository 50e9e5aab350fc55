//! Attempt numbers start at one, rise by one when an attempt was spent, and never jump.

use crate::{
    Anomaly, Outcome, Verdict,
    model::{Model, Post},
};

pub(crate) fn check(model: &Model, verdict: &mut Verdict) {
    for queue in model.queues.values() {
        for message in &queue.messages {
            let mut posts = message.posts.iter().filter_map(|index| model.posts.get(*index));
            let Some(mut before) = posts.next() else { continue };
            if before.attempt == 0 || before.attempt - 1 > unseen(model, before, 0) {
                verdict
                    .found(Anomaly::Attempts, || format!("{} starts with {}", before.name(), before.attempt));
            }
            for post in posts {
                follow(before, post, unseen(model, post, met_until(before)), verdict);
                before = post;
            }
        }
    }
}

/// How many attempts may have been spent before a request without a record: an application that dies may have taken
/// one request of a message and not written it down, once a fault.
fn unseen(model: &Model, post: &Post, since: u64) -> u32 {
    u32::try_from(model.faults_between(&post.queue, since, post.start)).unwrap_or(u32::MAX)
}

/// Until when faults are accounted for by a request: one that was broken off has met its fault.
fn met_until(post: &Post) -> u64 {
    match post.end {
        Some((at, Outcome::Broken)) => at,
        _ => post.start,
    }
}

fn follow(before: &Post, post: &Post, unseen: u32, verdict: &mut Verdict) {
    let same_owner = before.consumer == post.consumer && before.epoch == post.epoch;
    let rise = i64::from(post.attempt) - i64::from(before.attempt);
    let (least, most) = match (same_owner, is_spent(before)) {
        // A new owner may know of the attempts or not.
        (false, _) => (i64::MIN, 1),
        (true, Some(true)) => (1, 1),
        (true, Some(false)) => (0, 0),
        (true, None) => (0, 1),
    };
    let allowed = (least..=most + i64::from(unseen)).contains(&rise);
    if !allowed || post.attempt == 0 {
        verdict.found(Anomaly::Attempts, || {
            format!(
                "{} is attempt {} after {} ended {:?}",
                post.name(),
                post.attempt,
                before.attempt,
                before.end
            )
        });
    }
}

/// Whether an attempt with this outcome counts, by the default table of the callback contract; `None` where it
/// depends on more than the status.
fn is_spent(post: &Post) -> Option<bool> {
    match post.end? {
        (_, Outcome::Answered(400 | 408 | 409 | 413..=415 | 422 | 425 | 431 | 500..=502 | 504..=599)) => {
            Some(true)
        }
        (_, Outcome::Answered(_) | Outcome::Broken) => None,
    }
}
