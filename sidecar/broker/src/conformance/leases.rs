use std::collections::BTreeSet;

use lockstep_model::{Moment, Ownership};
use tokio::time::{sleep, timeout};

use super::{
    Checked, Failure, Harness, Outcome, QUIET, Source, apart, ensure,
    member::{Member, Span, View, bodies},
    publish_numbers,
};
use crate::{Broker, LeaseEvent, LeaseKeeper};

/// A member that did not join owns nothing and hears of nothing.
pub(super) async fn nothing_happens_before_joining<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(2).await;
    let broker = source.member("a").await;
    let (_reader, _settler, mut keeper) = broker.split();
    if let Ok(event) = timeout(QUIET, keeper.next()).await {
        let session = matches!(event, LeaseEvent::Source(_));
        ensure!(session, "before joining came {event:?}");
    }
    let other = Member::joined(&source, "b").await;
    for queue in 0..2 {
        other.own(&source.queue_name(queue)).await?;
    }
    Ok(Outcome::Passed)
}

/// A lone member gets all queues, each with its name, a number of its own, an epoch and the deadline of its lease.
pub(super) async fn one_member_acquires_every_queue<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(4).await;
    let member = Member::joined(&source, "a").await;
    let view = member.wait("4 queues", member.patience, |view| view.owned.len() == 4).await?;
    let locks = member.capabilities.ownership == Ownership::Lock;
    for queue in 0..4 {
        let name = source.queue_name(queue);
        let Some(owned) = view.owned.get(&name) else {
            return Err(Failure(format!("{name} is not among {:?}", view.owned.keys())));
        };
        ensure!(owned.epoch.0 > 0, "{name} has no epoch");
        ensure!(owned.deadline.is_some() || !locks, "{name} has no deadline");
        let over = owned.deadline.is_some_and(|deadline| deadline <= source.clock().now());
        ensure!(!over, "the lease of {name} is over already");
    }
    let numbers: BTreeSet<_> = view.owned.values().map(|owned| owned.queue).collect();
    ensure!(numbers.len() == 4, "two queues share a number: {:?}", view.owned);
    let connected = |view: &View| view.source.as_ref().is_some_and(|source| source.connected);
    let view = member.wait("the session's state", member.patience, connected).await?;
    let total = view.source.map_or(0, |source| source.queues_total);
    ensure!(total == 4, "the source counts {total} queues, not 4");
    member.sound()?;
    Ok(Outcome::Passed)
}

/// Two members own every queue, each an even share, and never the same one at a time.
pub(super) async fn members_share_without_overlap<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(4).await;
    let first = Member::joined(&source, "a").await;
    if let Some(outcome) = indivisible(&source, &first) {
        return Ok(outcome);
    }
    first.wait("4 queues", first.patience, |view| view.owned.len() == 4).await?;
    let second = Member::joined(&source, "b").await;
    second.wait("2 queues", second.patience, |view| view.owned.len() == 2).await?;
    let view = first.wait("2 queues left", first.patience, |view| view.owned.len() == 2).await?;
    let theirs = second.view();
    let both = view.owned.keys().any(|name| theirs.owned.contains_key(name));
    ensure!(!both, "{:?} and {:?} share a queue", view.owned, theirs.owned);
    no_overlap(&view.spans, &theirs.spans)?;
    second.leave();
    second.wait("the group to be left", second.patience, |view| view.left).await?;
    let view = first.wait("4 queues again", first.patience, |view| view.owned.len() == 4).await?;
    no_overlap(&view.spans, &second.view().spans)?;
    first.sound()?;
    second.sound()?;
    Ok(Outcome::Passed)
}

/// A released queue has its next owner within the bound for it.
pub(super) async fn a_release_hands_over_at_once<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(2).await;
    let name = source.queue_name(0);
    let first = Member::joined(&source, "a").await;
    first.wait("2 queues", first.patience, |view| view.owned.len() == 2).await?;
    let second = Member::joined(&source, "b").await;
    if indivisible(&source, &first).is_none() {
        second.wait("a share", second.patience, |view| !view.owned.is_empty()).await?;
    } else {
        second.wait("the session's state", second.patience, |view| view.source.is_some()).await?;
    }
    first.leave();
    first.wait("the group to be left", first.patience, |view| view.left).await?;
    second.wait("2 queues", source.hand_over(), |view| view.owned.len() == 2).await?;
    ensure!(second.view().owned.contains_key(&name), "{name} has no owner");
    no_overlap(&first.view().spans, &second.view().spans)?;
    Ok(Outcome::Passed)
}

/// Leaving ends with `Left`, after every queue was released.
pub(super) async fn leaving_gives_everything_back<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(3).await;
    let member = Member::joined(&source, "a").await;
    member.wait("3 queues", member.patience, |view| view.owned.len() == 3).await?;
    member.leave();
    let view = member.wait("the group to be left", member.patience, |view| view.left).await?;
    let kept: Vec<&Span> = view.spans.iter().filter(|span| !span.released).collect();
    ensure!(kept.is_empty(), "the group was left and these were not released: {kept:?}");
    sleep(QUIET).await;
    let view = member.view();
    ensure!(view.owned.is_empty(), "after leaving {:?} were acquired", view.owned);
    member.sound()?;
    Ok(Outcome::Passed)
}

/// With fewer queues than members one owns the queue, and another takes over when it leaves.
pub(super) async fn a_member_without_queues_waits_for_one<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    let name = source.queue_name(0);
    publish_numbers(&source, 0, 0..1).await;
    let members = [Member::joined(&source, "a").await, Member::joined(&source, "b").await];
    let [first, second] = &members;
    let (owner, other) = tokio::select! {
        owned = first.own(&name) => { owned?; (first, second) }
        owned = second.own(&name) => { owned?; (second, first) }
    };
    other.wait("the session's state", other.patience, |view| view.source.is_some()).await?;
    owner.leave();
    owner.wait("the group to be left", owner.patience, |view| view.left).await?;
    let owned = other.own(&name).await?;
    let read = other.read(&owned, owned.cursor, 1).await?;
    ensure!(bodies(&read) == ["0"], "another message came");
    no_overlap(&first.view().spans, &second.view().spans)?;
    Ok(Outcome::Passed)
}

/// A crashed member's queues go to another one, where locks run out not before its lease is over.
pub(super) async fn a_dead_members_queues_are_taken_over<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(2).await;
    let first = Member::joined(&source, "a").await;
    let view = first.wait("2 queues", first.patience, |view| view.owned.len() == 2).await?;
    let deadlines: Vec<Moment> = view.owned.values().filter_map(|owned| owned.deadline).collect();
    // A broker that hands a queue to one consumer sees that a dead one is gone, whatever its lease.
    let locks = first.capabilities.ownership == Ownership::Lock;
    source.kill("a").await;
    drop(first);
    let second = Member::joined(&source, "b").await;
    let view = second.wait("2 queues", second.patience, |view| view.owned.len() == 2).await?;
    if !locks {
        return Ok(Outcome::Passed);
    }
    let early = view.spans.iter().find(|span| deadlines.iter().any(|deadline| span.begin < *deadline));
    ensure!(early.is_none(), "{early:?} began before the dead member's leases ended: {deadlines:?}");
    Ok(Outcome::Passed)
}

/// Renewals go on while a fetch waits and a delivery is held, for longer than a lease lives.
pub(super) async fn a_lease_lives_while_the_other_halves_hang<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(2).await;
    let Some(life) = source.lease_life() else {
        return Ok(Outcome::NotApplicable("leases do not run out"));
    };
    publish_numbers(&source, 1, 0..1).await;
    let member = Member::joined(&source, "a").await;
    let empty = member.own(&source.queue_name(0)).await?;
    let full = member.own(&source.queue_name(1)).await?;
    let read = member.read(&full, full.cursor, 1).await?;
    tokio::select! {
        read = hang(&member, &empty) => return read,
        () = sleep(life * 2) => {}
    }
    let view = member.view();
    for owned in [&empty, &full] {
        let kept = view.owned.values().any(|now| now.queue == owned.queue && now.epoch == owned.epoch);
        ensure!(kept, "{owned:?} was not kept: {view:?}");
    }
    ensure!(view.renewals >= 2, "in two lives of a lease there were {} renewals", view.renewals);
    member.finish(full.epoch, &read).await?;
    member.sound()?;
    Ok(Outcome::Passed)
}

/// Reads an empty queue for as long as it is let; it has no end but a failure.
async fn hang<B: Broker>(member: &Member<B>, empty: &super::member::Owned) -> Checked {
    loop {
        let (deliveries, _, _) = member.fetch(empty, empty.cursor, 1, 1_000).await?;
        ensure!(deliveries.is_empty(), "the empty queue brought {deliveries:?}");
    }
}

/// A queue has one number for the life of the process, and a higher epoch each time.
pub(super) async fn a_queue_keeps_its_number<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(2).await;
    let name = source.queue_name(1);
    let member = Member::joined(&source, "a").await;
    let mut last = member.own(&name).await?;
    for _ in 0..3 {
        member.release(&last);
        let newer = |view: &View| view.owned.get(&name).is_some_and(|owned| owned.epoch > last.epoch);
        member.wait("the queue to come back", member.patience, newer).await?;
        let now = member.own(&name).await?;
        ensure!(now.queue == last.queue, "{name} had the number {:?} and has {:?}", last.queue, now.queue);
        last = now;
    }
    member.sound()?;
    Ok(Outcome::Passed)
}

/// A connection that is lost and comes back ends in the same ownership, or in a newer one; then all goes on.
pub(super) async fn a_lost_connection_is_a_doubt_and_passes<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    let name = source.queue_name(0);
    publish_numbers(&source, 0, 0..3).await;
    let member = Member::joined(&source, "a").await;
    let owned = member.own(&name).await?;
    member.finish(owned.epoch, &member.read(&owned, owned.cursor, 1).await?).await?;
    if !source.cut("a").await {
        return Ok(Outcome::NotApplicable("the harness can't cut connections"));
    }
    let in_doubt = |view: &View| !view.doubtful.is_empty() || view.owned.is_empty();
    member.wait("a doubt", member.patience, in_doubt).await?;
    source.restore("a").await;
    let settled = |view: &View| view.doubtful.is_empty() && view.owned.contains_key(&name);
    member.wait("the doubt to end", member.patience, settled).await?;
    let now = member.own(&name).await?;
    let cursor = if now.epoch == owned.epoch { owned.cursor.next() } else { now.cursor };
    for number in ["1", "2"] {
        let from = if number == "1" { cursor } else { cursor.next() };
        let read = member.read(&now, from, 1).await?;
        ensure!(bodies(&read) == [number], "in the place of {number} came {:?}", bodies(&read));
        member.finish(now.epoch, &read).await?;
    }
    let left = source.unsettled(0).await;
    ensure!(left == 0, "all 3 messages were finished, and the broker counts {left}");
    member.sound()?;
    Ok(Outcome::Passed)
}

fn indivisible<S: Source, B: Broker>(source: &S, member: &Member<B>) -> Option<Outcome> {
    if member.capabilities.ownership == Ownership::Sole {
        return Some(Outcome::NotApplicable("only one consumer can exist"));
    }
    (!source.divides()).then_some(Outcome::NotApplicable("the broker does not divide queues among consumers"))
}

fn no_overlap(ours: &[Span], theirs: &[Span]) -> Result<(), Failure> {
    for one in ours {
        for other in theirs.iter().filter(|other| other.name == one.name) {
            let separate = apart((one.begin, one.end), (other.begin, other.end));
            ensure!(separate, "{one:?} and {other:?} overlap");
        }
    }
    Ok(())
}
