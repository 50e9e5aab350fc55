use std::time::Duration;

use bytes::Bytes;
use lockstep_model::{DeadLetterBy, Epoch, Moment, Settlement as Kind};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Checked, Failure, Harness, Outcome, QUIET, Source, ensure,
    member::{Member, bodies, commit, numbers, refusal, settle},
    message, publish_numbers,
};
use crate::{Certainty, FetchRequest, Reader, Settlement, Settler};

/// Both settling calls end by themselves after this at the latest.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// A new owner starts behind what is finished, and the broker's own tools see it.
pub(super) async fn finished_messages_do_not_come_again<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    let name = source.queue_name(0);
    publish_numbers(&source, 0, 0..10).await;
    let first = Member::joined(&source, "a").await;
    let owned = first.own(&name).await?;
    first.consume(&owned, 5).await?;
    let left = source.unsettled(0).await;
    ensure!(left == 5, "after 5 of 10 were finished the broker counts {left}");
    first.leave();
    first.wait("the group to be left", first.patience, |view| view.left).await?;
    let second = Member::joined(&source, "b").await;
    let owned = second.own(&name).await?;
    let read = second.consume(&owned, 5).await?;
    ensure!(bodies(&read) == numbers(5..10), "the next owner got {:?}", bodies(&read));
    let left = source.unsettled(0).await;
    ensure!(left == 0, "after all were finished the broker counts {left}");
    Ok(Outcome::Passed)
}

/// What a crashed member did not finish comes again in order, marked where the broker counts.
pub(super) async fn unfinished_messages_come_again_after_a_crash<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    let name = source.queue_name(0);
    publish_numbers(&source, 0, 0..6).await;
    let first = Member::joined(&source, "a").await;
    let owned = first.own(&name).await?;
    let read = first.read(&owned, owned.cursor, first.holdable(6)).await?;
    source.kill("a").await;
    drop(first);
    let second = Member::joined(&source, "b").await;
    let owned = second.own(&name).await?;
    let again = second.read(&owned, owned.cursor, second.holdable(6)).await?;
    ensure!(bodies(&again) == bodies(&read), "after {:?} came {:?}", bodies(&read), bodies(&again));
    if second.capabilities.settlement == Kind::PerDelivery {
        let marked = again.iter().all(|delivery| delivery.redeliveries > 0);
        ensure!(marked, "the broker hands over again without a mark: {again:?}");
    }
    Ok(Outcome::Passed)
}

/// What a member gives back unfinished comes again in order, to itself too.
pub(super) async fn unfinished_messages_come_again_after_a_release<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    let name = source.queue_name(0);
    publish_numbers(&source, 0, 0..6).await;
    let member = Member::joined(&source, "a").await;
    let owned = member.own(&name).await?;
    let read = member.read(&owned, owned.cursor, member.holdable(6)).await?;
    let Some(first) = read.first().filter(|_| read.len() > 1) else {
        return Ok(Outcome::NotApplicable("the source hands over one delivery at a time"));
    };
    member.finish(owned.epoch, std::slice::from_ref(first)).await?;
    member.release(&owned);
    let newer = |view: &super::member::View| view.owned.get(&name).is_some_and(|o| o.epoch > owned.epoch);
    member.wait("the queue to come back", member.patience, newer).await?;
    let owned = member.own(&name).await?;
    let again = member.read(&owned, owned.cursor, read.len() - 1).await?;
    let expected: Vec<String> = bodies(&read).into_iter().skip(1).collect();
    if member.capabilities.release_keeps_order {
        ensure!(bodies(&again) == expected, "after {:?} came {:?}", bodies(&read), bodies(&again));
    } else {
        let (mut found, mut expected) = (bodies(&again), expected);
        found.sort();
        expected.sort();
        ensure!(found == expected, "after {:?} came {found:?}", bodies(&read));
    }
    member.sound()?;
    Ok(Outcome::Passed)
}

/// Saying the same again succeeds and changes nothing.
pub(super) async fn a_repeated_settlement_is_no_failure<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    publish_numbers(&source, 0, 0..2).await;
    let member = Member::joined(&source, "a").await;
    let owned = member.own(&source.queue_name(0)).await?;
    let read = member.read(&owned, owned.cursor, 1).await?;
    member.finish(owned.epoch, &read).await?;
    member.finish(owned.epoch, &read).await?;
    let left = source.unsettled(0).await;
    ensure!(left == 1, "of 2 messages 1 was finished twice, and the broker counts {left}");
    Ok(Outcome::Passed)
}

/// Nothing is read or settled under an ownership that ended.
pub(super) async fn an_older_epoch_is_refused<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    let name = source.queue_name(0);
    publish_numbers(&source, 0, 0..2).await;
    let member = Member::joined(&source, "a").await;
    let old = member.own(&name).await?;
    let read = member.read(&old, old.cursor, 1).await?;
    let Some(delivery) = read.first() else { return Err("no message came".into()) };
    member.release(&old);
    let newer = |view: &super::member::View| view.owned.get(&name).is_some_and(|o| o.epoch > old.epoch);
    member.wait("the queue to come back", member.patience, newer).await?;
    let fetch = FetchRequest { queue: old.queue, epoch: old.epoch, from: old.cursor, count: 1, bytes: 1_000 };
    refusal("a fetch of an older epoch", member.patience, || member.reader.fetch(fetch)).await?;
    if member.capabilities.settlement == Kind::Cumulative {
        let stale = commit(old.epoch, delivery, None);
        refusal("a commit of an older epoch", member.patience, || member.settler.commit(stale.clone()))
            .await?;
    } else {
        let stale = settle(old.epoch, delivery, Settlement::Accept, None);
        refusal("a settlement of an older epoch", member.patience, || one(&member.settler, stale.clone()))
            .await?;
    }
    let left = source.unsettled(0).await;
    ensure!(left == 2, "nothing of 2 was finished, and the broker counts {left}");
    Ok(Outcome::Passed)
}

/// Nothing is written after the moment that the caller named.
pub(super) async fn what_is_too_late_is_refused<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    publish_numbers(&source, 0, 0..1).await;
    let member = Member::joined(&source, "a").await;
    let owned = member.own(&source.queue_name(0)).await?;
    let read = member.read(&owned, owned.cursor, 1).await?;
    let Some(delivery) = read.first() else { return Err("no message came".into()) };
    sleep(Duration::from_millis(2)).await;
    let past = Some(Moment::from_nanos(1));
    if member.capabilities.settlement == Kind::Cumulative {
        let late = commit(owned.epoch, delivery, past);
        refusal("a late commit", member.patience, || member.settler.commit(late.clone())).await?;
    } else {
        let late = settle(owned.epoch, delivery, Settlement::Accept, past);
        refusal("a late settlement", member.patience, || one(&member.settler, late.clone())).await?;
    }
    if member.capabilities.dead_letter == DeadLetterBy::Broker {
        let late = settle(owned.epoch, delivery, Settlement::DeadLetter, past);
        refusal("a late dead letter", member.patience, || one(&member.settler, late.clone())).await?;
        // Nothing tells that none will come.
        sleep(QUIET).await;
        ensure!(source.dead_letters().await.is_empty(), "a late dead letter was written");
    }
    let left = source.unsettled(0).await;
    ensure!(left == 1, "nothing of 1 was finished, and the broker counts {left}");
    Ok(Outcome::Passed)
}

/// One result for each settlement, in the order given; none for none.
pub(super) async fn a_batch_is_answered_in_its_order<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    publish_numbers(&source, 0, 0..3).await;
    let member = Member::joined(&source, "a").await;
    let settlement = match (member.capabilities.settlement, member.capabilities.dead_letter) {
        (Kind::PerDelivery, _) => Settlement::Accept,
        (Kind::Cumulative, DeadLetterBy::Broker) => Settlement::DeadLetter,
        (Kind::Cumulative, DeadLetterBy::Unsupported) => {
            return Ok(Outcome::NotApplicable("a log without dead letters settles nothing one by one"));
        }
    };
    let owned = member.own(&source.queue_name(0)).await?;
    ensure!(member.settler.settle(Vec::new()).await.is_empty(), "an empty batch has results");
    if member.holdable(3) < 3 {
        return Ok(Outcome::NotApplicable("fewer than 3 deliveries may be held"));
    }
    let read = member.read(&owned, owned.cursor, 3).await?;
    // Not the same from both ends, so that a reversed answer shows.
    let epochs = [owned.epoch, owned.epoch, Epoch(owned.epoch.0 + 1_000_000)];
    let batch: Vec<_> =
        read.iter().zip(epochs).map(|(delivery, epoch)| settle(epoch, delivery, settlement, None)).collect();
    let end = Instant::now() + member.patience;
    loop {
        let results = member.settler.settle(batch.clone()).await;
        let [first, second, third] = results.as_slice() else {
            return Err(Failure(format!("3 settlements have {} results", results.len())));
        };
        ensure!(third.is_err(), "a settlement of an epoch that never was succeeded");
        let refused = third.as_ref().is_err_and(|error| error.certainty == Certainty::NotDone);
        if first.is_ok() && second.is_ok() && refused {
            break;
        }
        ensure!(Instant::now() < end, "the batch still fails: {results:?}");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(Outcome::Passed)
}

/// A dead letter is stored whole before it counts as settled, and does not come again.
pub(super) async fn a_dead_letter_is_kept_whole<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    let name = source.queue_name(0);
    let body = Bytes::from_static(b"\0never\xff");
    source.publish(0, message(body.clone())).await;
    source.publish(0, message("next")).await;
    let member = Member::joined(&source, "a").await;
    if member.capabilities.dead_letter == DeadLetterBy::Unsupported {
        return Ok(Outcome::NotApplicable("the source has no dead letters"));
    }
    let owned = member.own(&name).await?;
    let read = member.read(&owned, owned.cursor, 1).await?;
    let Some(delivery) = read.first() else { return Err("no message came".into()) };
    member.settle(owned.epoch, delivery, Settlement::DeadLetter).await?;
    let dead = member.dead_letters(&source).await?;
    ensure!(dead.iter().all(|found| *found == body), "the dead letters are {dead:?}");
    if member.capabilities.settlement == Kind::Cumulative {
        member.finish(owned.epoch, &read).await?;
    }
    member.leave();
    member.wait("the group to be left", member.patience, |view| view.left).await?;
    let next = Member::joined(&source, "b").await;
    let owned = next.own(&name).await?;
    let read = next.read(&owned, owned.cursor, 1).await?;
    ensure!(bodies(&read) == ["next"], "after a dead letter came {:?}", bodies(&read));
    Ok(Outcome::Passed)
}

/// A fetch that waits does not keep settlements waiting.
pub(super) async fn settling_does_not_wait_for_reading<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(2).await;
    publish_numbers(&source, 1, 0..1).await;
    let member = Member::joined(&source, "a").await;
    let empty = member.own(&source.queue_name(0)).await?;
    let full = member.own(&source.queue_name(1)).await?;
    let read = member.read(&full, full.cursor, 1).await?;
    let settled = timeout(SETTLE_TIMEOUT, member.finish(full.epoch, &read));
    tokio::select! {
        biased;
        read = member.read(&empty, empty.cursor, 1) => {
            return Err(Failure(format!("the empty queue brought {read:?}")));
        }
        settled = settled => settled.map_err(|_| Failure(format!("settling took over {SETTLE_TIMEOUT:?}")))??,
    }
    let left = source.unsettled(1).await;
    ensure!(left == 0, "the only message was finished, and the broker counts {left}");
    Ok(Outcome::Passed)
}

async fn one<S: Settler>(settler: &S, settle: crate::Settle) -> Result<(), crate::BrokerError> {
    settler.settle(vec![settle]).await.pop().unwrap_or(Ok(()))
}
