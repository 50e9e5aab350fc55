//! First deliveries in order, and repeated ones only as contiguous rewinds.

use std::collections::BTreeMap;

use crate::{
    Anomaly, Rules, Verdict,
    model::{Line, Message, Model, Post},
};

/// How far a line has come, in ranks: a message's place among those of its line.
#[derive(Debug)]
struct Progress {
    /// The highest that was ever started.
    high: usize,
    /// The one started last.
    last: usize,
}

/// The messages of one line, in order.
type Members<'a> = Vec<&'a Message>;

/// The rank of each message, by queue and index.
type Ranks<'a> = BTreeMap<(&'a str, usize), usize>;

pub(crate) fn check(model: &Model, rules: &Rules, verdict: &mut Verdict) {
    let (lines, ranks) = lay_out(model, rules);
    let mut progress: BTreeMap<&Line, Progress> = BTreeMap::new();
    for post in &model.posts {
        let Some(line) = model.line(post, rules.order) else { return };
        let rank = ranks.get(&(&*post.queue, post.message)).copied();
        let (Some((line, members)), Some(rank)) = (lines.get_key_value(&line), rank) else { continue };
        match progress.get_mut(line) {
            None => {
                progress.insert(line, Progress { high: rank, last: rank });
            }
            Some(progress) => step(progress, members, rank, post, rules, verdict),
        }
    }
}

/// The members of each line, and the rank of each message (by queue and index) in its line.
fn lay_out<'a>(model: &'a Model, rules: &Rules) -> (BTreeMap<Line, Members<'a>>, Ranks<'a>) {
    let mut lines: BTreeMap<Line, Members<'a>> = BTreeMap::new();
    let mut ranks = BTreeMap::new();
    for (name, queue) in &model.queues {
        for (index, message) in queue.messages.iter().enumerate() {
            let key = (rules.order == crate::Order::PerKey).then(|| message.key.clone()).flatten();
            let members = lines.entry((name.clone(), key)).or_default();
            ranks.insert((&**name, index), members.len());
            members.push(message);
        }
    }
    (lines, ranks)
}

fn step(
    progress: &mut Progress,
    members: &Members<'_>,
    rank: usize,
    post: &Post,
    rules: &Rules,
    verdict: &mut Verdict,
) {
    let may_miss = |message: &Message| {
        message.excused || (rules.gaps && message.done_at.is_some_and(|at| at <= post.start))
    };
    let misses = |from: usize, to: usize| {
        members.iter().skip(from).take(to.saturating_sub(from)).any(|message| !may_miss(message))
    };
    if rank > progress.high {
        first_delivery(progress, members, post, verdict);
        if misses(progress.last + 1, progress.high + 1) {
            verdict.found(Anomaly::Replay, || format!("{} leaves out part of a rewind", post.name()));
        }
        progress.high = rank;
    } else if is_first(members, rank, post) {
        verdict.found(Anomaly::Reorder, || {
            format!("{} is a first delivery after a later message's", post.name())
        });
        // The line goes on from where it was.
        return;
    } else if rank > progress.last {
        if misses(progress.last + 1, rank) {
            verdict.found(Anomaly::Replay, || format!("{} jumps ahead within a rewind", post.name()));
        }
    } else if rank < progress.last {
        verdict.counts.rewinds += 1;
    }
    progress.last = rank;
}

/// The message before must be done when a new one starts.
fn first_delivery(progress: &Progress, members: &Members<'_>, post: &Post, verdict: &mut Verdict) {
    let Some(before) = members.get(progress.high) else { return };
    let done = before.excused || before.done_at.is_some_and(|at| at <= post.start);
    if !done {
        let position = before.position;
        verdict.found(Anomaly::Reorder, || format!("{} started before @{position} was done", post.name()));
    }
}

/// Whether this is the message's first request. Requests of one moment count as one.
fn is_first(members: &Members<'_>, rank: usize, post: &Post) -> bool {
    members.get(rank).is_some_and(|message| message.first_start == Some(post.start))
}
