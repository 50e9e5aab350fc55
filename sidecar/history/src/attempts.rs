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
            // After a fault an earlier attempt may have been lost on its way to the application.
            if before.attempt != 1 && model.fault_before(&before.queue, before.start).is_none() {
                verdict
                    .found(Anomaly::Attempts, || format!("{} starts with {}", before.name(), before.attempt));
            }
            for post in posts {
                follow(before, post, verdict);
                before = post;
            }
        }
    }
}

fn follow(before: &Post, post: &Post, verdict: &mut Verdict) {
    let same_owner = before.consumer == post.consumer && before.epoch == post.epoch;
    let rise = i64::from(post.attempt) - i64::from(before.attempt);
    let allowed = match (same_owner, is_spent(before)) {
        // A new owner may know of the attempts or not.
        (false, _) => rise <= 1,
        (true, Some(true)) => rise == 1,
        (true, Some(false)) => rise == 0,
        (true, None) => rise == 0 || rise == 1,
    };
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
