//! Which pod takes which queues, for sources that do not share queues out by themselves. The answer is a hint in a
//! pod's annotation: the broker's own exclusivity stays the fence, and pods take queues that nobody owns for long.
//!
//! A queue stays where it is unless its pod goes away or has more than its share; what is left over goes to the pod
//! with the highest rendezvous score that still has room. Shares differ by one at most. So a joining pod moves
//! `⌊queues / pods⌋` queues, the new pod among them, and a leaving one moves its own and no other.

mod members;
#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use lockstep_contract::{SourceKind, names::annotations};
use lockstep_crds::ConsumerGroup;
use thiserror::Error;
use tokio::time::Instant;

pub use members::{Member, Memory};

/// How long a pod must be fit before queues move to it from others: a pod that comes and goes moves nothing.
pub const SETTLE: Duration = Duration::from_secs(5);
/// Bytes of the annotation. All annotations of an object together may have 256 KiB, and the user's are among them.
pub const ANNOTATION_BYTES_MAX: usize = 160 * 1024;

/// Queues by the pod's name, each list in the order of names.
pub type Assignment = BTreeMap<String, Vec<String>>;

/// The names of a pod's queues don't fit into an annotation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the names of {queues} queues have {bytes} bytes, more than the {ANNOTATION_BYTES_MAX} that fit into a pod's \
     annotation; divide the queues among several groups"
)]
pub struct TooLong {
    queues: usize,
    bytes: usize,
}

/// The queues to assign; `None` where the source shares them out by itself or there is only one.
pub fn needs_assignment(group: &ConsumerGroup) -> Option<Vec<String>> {
    let queues = match group.spec.source.kind()? {
        SourceKind::RocketMq(_) => return None,
        SourceKind::RabbitMq(source) => source.queues.clone(),
        SourceKind::ActiveMq(source) => source.queue_names(),
    };
    (queues.len() > 1).then_some(queues)
}

/// Gives each queue to one member; every member is in the answer, one with nothing to take with an empty list.
///
/// A member that is not fit keeps what it has for `hand_over` and gets nothing more. One that became fit takes its share
/// after [`SETTLE`], or at once when there is nobody else. While nobody is fit everything stays as it is.
pub fn assign(
    queues: &[String],
    members: &[Member],
    previous: &Assignment,
    hand_over: Duration,
    now: Instant,
) -> Assignment {
    let members: BTreeMap<&str, &Member> =
        members.iter().map(|member| (member.pod.as_str(), member)).collect();
    let mut pool: BTreeSet<&str> = queues.iter().map(String::as_str).collect();
    let mut held = holdings(&members, previous, &mut pool);
    let takers = takers(&members, &held, now);
    if takers.is_empty() {
        return named(held);
    }
    for (pod, member) in &members {
        let keeps = now < member.since + hand_over;
        if !takers.contains(pod)
            && !keeps
            && let Some(given_up) = held.get_mut(pod)
        {
            pool.append(given_up);
        }
    }
    let frozen: usize =
        held.iter().filter(|(pod, _)| !takers.contains(*pod)).map(|(_, queues)| queues.len()).sum();
    let total = pool.len() + held.values().map(BTreeSet::len).sum::<usize>() - frozen;
    let shares = shares(&takers, &held, total);
    for (pod, share) in &shares {
        if let Some(mine) = held.get_mut(pod) {
            while mine.len() > *share {
                let Some(least) = mine.iter().copied().min_by_key(|queue| score(pod, queue)) else { break };
                mine.remove(least);
                pool.insert(least);
            }
        }
    }
    for queue in pool {
        let room = shares.iter().filter(|(pod, share)| held.get(*pod).map_or(0, BTreeSet::len) < **share);
        if let Some((pod, _)) = room.max_by_key(|(pod, _)| score(pod, queue)) {
            held.entry(pod).or_default().insert(queue);
        }
    }
    named(held)
}

/// What each member has of the pool, taken out of it. A queue that two pods have stays with a fit one.
fn holdings<'a>(
    members: &BTreeMap<&'a str, &'a Member>,
    previous: &Assignment,
    pool: &mut BTreeSet<&'a str>,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut held: BTreeMap<&str, BTreeSet<&str>> =
        members.keys().map(|pod| (*pod, BTreeSet::new())).collect();
    let mut by_fitness: Vec<_> = members.iter().collect();
    by_fitness.sort_by_key(|(_, member)| !member.fit);
    for (pod, _) in by_fitness {
        let queues = previous.get(*pod).into_iter().flatten();
        let mine = queues.filter_map(|queue| pool.take(queue.as_str()));
        held.entry(pod).or_default().extend(mine.collect::<Vec<_>>());
    }
    held
}

/// Those that may get queues: fit ones that hold some or are settled, or all fit ones where there are none such.
fn takers<'a>(
    members: &BTreeMap<&'a str, &'a Member>,
    held: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    now: Instant,
) -> BTreeSet<&'a str> {
    let fit = || members.iter().filter(|(_, member)| member.fit);
    let holds = |pod: &str| held.get(pod).is_some_and(|queues| !queues.is_empty());
    let settled = |(pod, member): &(&&str, &&Member)| holds(pod) || now >= member.since + SETTLE;
    let takers: BTreeSet<&str> = fit().filter(settled).map(|(pod, _)| *pod).collect();
    if takers.is_empty() { fit().map(|(pod, _)| *pod).collect() } else { takers }
}

/// How many queues each taker gets: the larger shares go to those that hold most, so that the least moves.
fn shares<'a>(
    takers: &BTreeSet<&'a str>,
    held: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    total: usize,
) -> BTreeMap<&'a str, usize> {
    let mut order: Vec<&str> = takers.iter().copied().collect();
    order.sort_by_key(|pod| Reverse(held.get(pod).map_or(0, BTreeSet::len)));
    let (base, larger) = (total / order.len().max(1), total % order.len().max(1));
    order.into_iter().enumerate().map(|(rank, pod)| (pod, base + usize::from(rank < larger))).collect()
}

fn named(held: BTreeMap<&str, BTreeSet<&str>>) -> Assignment {
    let owned = |queues: BTreeSet<&str>| queues.into_iter().map(str::to_owned).collect();
    held.into_iter().map(|(pod, queues)| (pod.to_owned(), owned(queues))).collect()
}

/// Rendezvous: every pair has its own number, so that pods that come or go change nothing for others. FNV-1a, then the
/// finalizer of SplitMix64, since FNV's upper bits differ little for similar names.
fn score(pod: &str, queue: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = pod.bytes().chain([0xff]).chain(queue.bytes());
    let hash = bytes.fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The annotation's text: a JSON list of names.
pub fn annotation(queues: &[String]) -> Result<String, TooLong> {
    // A list of strings always becomes JSON.
    let text = serde_json::to_string(queues).unwrap_or_else(|_| "[]".to_owned());
    match text.len() {
        0..=ANNOTATION_BYTES_MAX => Ok(text),
        bytes => Err(TooLong { queues: queues.len(), bytes }),
    }
}

/// What the pods' annotations say. One that was written by somebody else and can't be read counts as absent.
pub fn assigned<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Assignment {
    let queues = |pod: &Pod| serde_json::from_str(pod.annotations().get(annotations::ASSIGNMENT)?).ok();
    pods.into_iter().filter_map(|pod| Some((pod.name_any(), queues(pod)?))).collect()
}
